import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Permit } from '../../permissions/permit.ts'
import { type Action, decide } from '../../permissions/rule.ts'
import { timestamp } from '../../requests/schemas.ts'
import { toCounts, toOwnReaction } from '../reaction-counts/reaction-counts.ts'
import type { Event, ListedEvent, OwnEvent, Participant } from './event.ts'
import { EVENT } from './policy.ts'
import type { EventOfParticipant, ListedParticipant, ShownEvent } from './queries.ts'

type Can = Permit<Action>['can']
type Deciding = Pick<Permit<Action>, 'can' | 'now'>
type AlbumOfEvent = NonNullable<ShownEvent['album']> & {
  isParticipant: boolean
  eventOwnerId: Uuid
  eventStatus: ShownEvent['status']
}

/** Whether the caller may see the album of an event. The feature of albums passes it in, because it imports this one. */
export type SeesAlbum = (can: Can, album: AlbumOfEvent) => boolean

/** The album of the event is named only to those who may see it. */
function albumIdOf({ album, status, ...row }: ShownEvent, can: Can, sees: SeesAlbum): string | null {
  if (album === null) return null
  const { isParticipant } = withParticipation(row)
  return sees(can, { ...album, isParticipant, eventOwnerId: row.ownerId, eventStatus: status }) ? album.id : null
}

export const withParticipation = <T extends Pick<ShownEvent, 'participation'>>(
  row: T,
): T & { isParticipant: boolean } => ({
  ...row,
  isParticipant: row.participation === 'accepted',
})

export const toEvent = (row: ShownEvent, { can, now }: Deciding, sees: SeesAlbum): Event => ({
  ...toListedEvent(row, can, sees),
  can: now(EVENT, { ...withParticipation(row), albumStatus: row.album?.status ?? null }),
})

export const toListedEvent = (row: ShownEvent, can: Can, sees: SeesAlbum): ListedEvent => ({
  event_id: row.id,
  org_id: row.orgId,
  owner_id: row.ownerId,
  host_name: row.hostName,
  title: row.title,
  description: row.description,
  start_at: timestamp(row.startAt),
  end_at: timestamp(row.endAt),
  location_name: row.locationName,
  location_geo: row.latitude === null || row.longitude === null ? null : [row.latitude, row.longitude],
  status: row.status,
  created_at: timestamp(new Date(row.createdAt)),
  updated_at: timestamp(row.updatedAt),
  activated_at: timestamp(row.activatedAt),
  archived_at: timestamp(row.archivedAt),
  purge_at: timestamp(row.purgeAt),
  participant_count: row.participantCount,
  my_participation: row.participation,
  my_invitation_id: row.invitationId,
  album_id: albumIdOf(row, can, sees),
  reaction_counts: toCounts(row.reactionCounts),
  my_reaction: toOwnReaction(row.myReaction),
})

/** By the same rules as in the organization, with the role that the row names. */
export const toOwnEvent = (row: EventOfParticipant, userId: Uuid, sees: SeesAlbum): OwnEvent => {
  const asking = { userId, role: row.role, platformAdmin: false }
  const can: Can = (action: Action, about: unknown) =>
    decide(action as Action<unknown, unknown>, asking, about) === 'allowed'
  return {
    ...toListedEvent(row, can, sees),
    org_name: row.orgName,
    as_guest: row.role === null,
  }
}

export const toParticipant = (row: ListedParticipant): Participant => ({
  user_id: row.id,
  display_name: row.displayName,
  status: row.status,
  joined_at: timestamp(row.joinedAt),
})
