import type { EventPayload, EventType, ReceivedEvent } from '../../../lib/contract/events.ts'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { Consumer } from '../../worker/consumers/consumer.ts'
import {
  bumpFeeds,
  insertAlbumChanges,
  insertAlbumsCreated,
  insertComments,
  insertEventsActivated,
  insertEventsCreated,
  insertJoined,
  insertReactions,
  insertUploads,
} from './record-queries.ts'

type Of<T extends EventType> = Extract<ReceivedEvent, { type: T }>
type Insert = (tx: Tx, events: readonly ReceivedEvent[]) => Promise<unknown>

/** What becomes of the events of one type: one statement for all of them. */
const insertion =
  <T extends EventType, C>(
    type: T,
    causeOf: (event: Of<T>) => C,
    insert: (tx: Tx, given: { these: readonly C[] }) => Promise<unknown>,
  ): Insert =>
  async (tx, events) => {
    const these = events.filter((event): event is Of<T> => event.type === type).map(causeOf)
    if (these.length > 0) await insert(tx, { these })
  }

const INSERTIONS: readonly Insert[] = [
  insertion('EventCreated', ({ payload }) => payload.event_id, insertEventsCreated),
  insertion(
    'EventActivated',
    // Events from before it was announced name no actor.
    ({ payload }) => ({ eventId: payload.event_id, actorId: actorOf(payload) ?? payload.owner_id }),
    insertEventsActivated,
  ),
  insertion('AlbumCreated', ({ payload }) => payload.album_id, insertAlbumsCreated),
  insertion(
    'AlbumUpdated',
    ({ payload, at, aggregateVersion }) => ({
      albumId: payload.album_id,
      actorId: payload.actor_id,
      at,
      change: payload.change === 'media_added' ? ('media_added' as const) : ('details' as const),
      shownAt: isShownToOthers(payload) ? aggregateVersion : null,
    }),
    insertAlbumChanges,
  ),
  insertion('MediaUploaded', ({ payload }) => payload.media_id, insertUploads),
  insertion('MemberJoined', ({ payload }) => ({ orgId: payload.org_id, userId: payload.user_id }), insertJoined),
  insertion('reaction_added', ({ payload }) => payload.reaction_id, insertReactions),
  insertion('CommentPosted', ({ payload }) => payload.comment_id, insertComments),
]

/** From the fewest to the most who see an album that is published. One that is not is as private. */
const AUDIENCES = ['private', 'participants', 'organization']

/** Whether more people may see the album since then. */
function isShownToOthers({ status, change, visibility, previous_visibility: before }: EventPayload<'AlbumUpdated'>) {
  if (status !== 'PUBLIC' || (change !== 'status' && before === undefined)) return false
  return AUDIENCES.indexOf(visibility) > (change === 'status' ? 0 : AUDIENCES.indexOf(before ?? visibility))
}

const actorOf = (payload: { event_id: Uuid; actor_id?: Uuid | null | undefined }) => payload.actor_id ?? undefined

/** Writes the items of timelines, and the versions of feeds, which also count what only hides or changes items. */
export const timelineConsumer: Consumer = {
  name: 'timeline',
  types: [
    'EventCreated',
    'EventActivated',
    'EventArchived',
    'EventDeleted',
    'AlbumCreated',
    'AlbumUpdated',
    'AlbumDeleted',
    'MediaUploaded',
    'MediaTranscoded',
    'LivePhotoPaired',
    'MediaDeleted',
    'MediaPurged',
    'MemberJoined',
    'reaction_added',
    'CommentPosted',
  ],
  async handle(tx, events) {
    for (const insert of INSERTIONS) await insert(tx, events)
    await bumpFeeds(
      tx,
      events.map(({ orgId }) => orgId),
    )
  },
}
