import * as z from 'zod'
import { formatId, parseId, type Uuid } from './ids.ts'
import { publicId, publicIdOfAnyKind, withUuids } from './public-id.ts'

/** `target_type` says what it is the id of. */
const targetId = publicIdOfAnyKind()

/**
 * The domain events: `area` is part of the subject, `payload` is exactly what the interface specification §6.1 prints
 * (ids prefixed). A type stays here for a month after the last version that appends it: consumers park what they do not
 * know.
 */
export const EVENTS = {
  MediaUploaded: {
    area: 'media',
    payload: z.object({
      media_id: publicId('media'),
      org_id: publicId('organization'),
      uploader_id: publicId('user'),
      filename: z.string(),
      mime_type: z.string(),
      file_size: z.int().nonnegative(),
    }),
  },
  MediaTranscoded: {
    area: 'media',
    payload: z.object({
      media_id: publicId('media'),
      variants: z.record(z.string(), z.string().nullable()),
    }),
  },
  /** `media_id` is the image, `paired_media_id` the video; the identifier is null where only a pair id joined them. */
  LivePhotoPaired: {
    area: 'media',
    payload: z.object({
      media_id: publicId('media'),
      asset_identifier: z.string().nullable(),
      paired_media_id: publicId('media'),
    }),
  },
  MediaDeleted: {
    area: 'media',
    payload: z.object({
      media_id: publicId('media'),
      org_id: publicId('organization'),
      uploader_id: publicId('user'),
      deleted_at: z.iso.datetime(),
    }),
  },
  MediaPurged: {
    area: 'media',
    payload: z.object({
      media_id: publicId('media'),
      org_id: publicId('organization'),
    }),
  },
  /** The highlight of this generation is to be rendered. */
  HighlightRequested: {
    area: 'highlight',
    payload: z.object({
      highlight_id: publicId('highlight'),
      org_id: publicId('organization'),
      generation: z.int().positive(),
    }),
  },
  /** `hls_master_url` is the key of the master playlist in the object store: a link would expire before most consumers read it. */
  HighlightGenerated: {
    area: 'highlight',
    payload: z.object({
      highlight_id: publicId('highlight'),
      media_ids: z.array(publicId('media')),
      hls_master_url: z.string(),
    }),
  },
  HighlightDeleted: {
    area: 'highlight',
    payload: z.object({
      highlight_id: publicId('highlight'),
      org_id: publicId('organization'),
      deleted_at: z.iso.datetime(),
    }),
  },
  EventCreated: {
    area: 'event',
    payload: z.object({
      event_id: publicId('event'),
      org_id: publicId('organization'),
      owner_id: publicId('user'),
      title: z.string(),
    }),
  },
  /** `actor_id` is who activated it, the owner or an administrator; events of earlier versions lack it. */
  EventActivated: {
    area: 'event',
    payload: z.object({
      event_id: publicId('event'),
      org_id: publicId('organization'),
      owner_id: publicId('user'),
      actor_id: publicId('user').optional(),
      title: z.string(),
      activated_at: z.iso.datetime(),
    }),
  },
  /** `actor_id` is who archived it; events of earlier versions lack it. */
  EventArchived: {
    area: 'event',
    payload: z.object({
      event_id: publicId('event'),
      org_id: publicId('organization'),
      actor_id: publicId('user').optional(),
      archived_at: z.iso.datetime(),
    }),
  },
  /**
   * A draft was deleted, or an archived event was purged, with its invitations, comments and reactions, which are not
   * announced. Its album is, and so is each media item that goes with it: see AlbumDeleted and MediaPurged. `actor_id` is
   * who deleted it; missing where its time was over.
   */
  EventDeleted: {
    area: 'event',
    payload: z.object({
      event_id: publicId('event'),
      org_id: publicId('organization'),
      actor_id: publicId('user').optional(),
    }),
  },
  /**
   * An archived event will be purged, not before `purge_at`. `notice` is `first` 30 days before, and `last` at least 7 days
   * before. Both come again with another time when the purge has moved to a later one. The version of the aggregate is that of
   * the event, which does not change.
   */
  EventPurgeSoon: {
    area: 'event',
    payload: z.object({
      event_id: publicId('event'),
      org_id: publicId('organization'),
      notice: z.enum(['first', 'last']),
      purge_at: z.iso.datetime(),
    }),
  },
  /** `event_id` may be that of a draft: do not show it to those who cannot see the event. */
  AlbumCreated: {
    area: 'album',
    payload: z.object({
      album_id: publicId('album'),
      org_id: publicId('organization'),
      owner_id: publicId('user'),
      event_id: publicId('event').nullable(),
      title: z.string(),
      status: z.string(),
      visibility: z.string(),
    }),
  },
  /**
   * `status` and `visibility` are those after the change, `previous_visibility` is there if the change is one of the
   * visibility; `media_id` is null unless it concerns one media item.
   */
  AlbumUpdated: {
    area: 'album',
    payload: z.object({
      album_id: publicId('album'),
      org_id: publicId('organization'),
      actor_id: publicId('user'),
      change: z.enum(['details', 'status', 'media_added', 'media_removed', 'media_reordered', 'caption']),
      media_id: publicId('media').nullable(),
      status: z.string(),
      visibility: z.string(),
      previous_visibility: z.string().optional(),
    }),
  },
  /**
   * `event_id` is that of the event with which the album was deleted. Its highlights stay, and media items that are not
   * announced as purged. `actor_id` is missing where the album went with a purged event.
   */
  AlbumDeleted: {
    area: 'album',
    payload: z.object({
      album_id: publicId('album'),
      org_id: publicId('organization'),
      event_id: publicId('event').nullable(),
      actor_id: publicId('user').optional(),
    }),
  },
  /** The aggregate is the user. */
  MemberJoined: {
    area: 'organization',
    payload: z.object({ org_id: publicId('organization'), user_id: publicId('user'), joined_at: z.iso.datetime() }),
  },
  /** Names no address of the invitee: `invited_user_id` is null unless the invitation names a user. */
  InvitationCreated: {
    area: 'invitation',
    payload: z.object({
      invitation_id: publicId('invitation'),
      event_id: publicId('event'),
      org_id: publicId('organization'),
      invited_by: publicId('user'),
      invited_user_id: publicId('user').nullable(),
    }),
  },
  /**
   * The invitee is to be told. The sender mints the link of that generation when it sends. It drops the event when the
   * invitation has another generation by then, or is no longer pending.
   */
  InvitationDue: {
    area: 'invitation',
    payload: z.object({
      invitation_id: publicId('invitation'),
      event_id: publicId('event'),
      org_id: publicId('organization'),
      generation: z.int().positive(),
    }),
  },
  /**
   * `target_type` is `meta` for the event itself; then `target_id` is the event. With the audience `album` the comment is
   * only for those who can see the album of the event.
   */
  CommentPosted: {
    area: 'comment',
    payload: z.object({
      comment_id: publicId('comment'),
      event_id: publicId('event'),
      org_id: publicId('organization'),
      author_id: publicId('user'),
      target_type: z.enum(['meta', 'comment', 'media']),
      target_id: targetId,
      audience: z.enum(['event', 'album']),
    }),
  },
  /** Once per comment and mentioned user, also if an edit adds the mention. The aggregate is the comment. */
  USER_MENTIONED: {
    area: 'comment',
    payload: z.object({
      comment_id: publicId('comment'),
      event_id: publicId('event'),
      org_id: publicId('organization'),
      mentioned_user_id: publicId('user'),
      author_id: publicId('user'),
      excerpt: z.string(),
    }),
  },
  /**
   * A new reaction, or another emoji of an earlier one: of several with one `reaction_id` the latest version counts. With
   * the audience `album` it is to something that only those who can see the album of the event see. Both halves of a Live
   * Photo are one target, the image: of the reactions of one user from before the pairing the latest counts.
   */
  reaction_added: {
    area: 'reaction',
    payload: z.object({
      reaction_id: publicId('reaction'),
      target_type: z.enum(['meta', 'comment', 'media']),
      target_id: targetId,
      audience: z.enum(['event', 'album']),
      event_id: publicId('event'),
      org_id: publicId('organization'),
      user_id: publicId('user'),
      emoji: z.string(),
    }),
  },
} as const satisfies Record<string, { area: string; payload: z.ZodType }>
export type EventType = keyof typeof EVENTS
/** What the program gives: ids are UUIDs, and become those of consumers as the event is appended. */
export type EventPayload<T extends EventType> = z.input<(typeof EVENTS)[T]['payload']>

/** CloudEvents 1.0, structured JSON mode. `id` is also the JetStream `Nats-Msg-Id`. */
export const CloudEvent = z.object({
  specversion: z.literal('1.0'),
  id: z.string().regex(/^msg_/),
  source: z.string(),
  type: z.string(),
  subject: z.string(),
  time: z.iso.datetime(),
  datacontenttype: z.literal('application/json'),
  dataschema: z.string().optional(),
  traceparent: z.string().optional(),
  org_id: z.string(),
  aggregate_version: z.int().nonnegative(),
  data: z.unknown(),
})
export type CloudEvent = z.infer<typeof CloudEvent>

/** The NATS stream of all events, and the subject of one event. */
export const STREAM = 'MEMORY'
export const STREAM_SUBJECTS = ['memory.v1.>']
export const subjectOf = (e: { area: string; org: Uuid; aggregate: Uuid; type: string }) =>
  `memory.v1.${e.area}.${e.org}.${e.aggregate}.${e.type}`
/** Undefined for a subject of another form. */
export const aggregateOf = (subject: string): string | undefined => subject.split('.')[4]

export interface OutboxMessage {
  id: Uuid
  orgId: Uuid
  /** e.g. `media` */
  area: string
  aggregateId: Uuid
  aggregateVersion: number
  type: EventType
  payload: unknown
  createdAt: Date
  traceparent: string | null
}

/** Names the JSON Schema of a payload: `docs/events/<type>.json` has it as its `$id`. A version never changes its meaning. */
export const schemaUri = (type: EventType) => `https://keepsake.dev/schemas/memory/v1/${type}.json`

export function toCloudEvent(m: OutboxMessage): CloudEvent {
  return {
    specversion: '1.0',
    id: formatId('message', m.id),
    source: '/keepsake/api',
    type: m.type,
    subject: `${m.area}/${m.aggregateId}`,
    time: m.createdAt.toISOString(),
    datacontenttype: 'application/json',
    dataschema: schemaUri(m.type),
    ...(m.traceparent && { traceparent: m.traceparent }),
    org_id: formatId('organization', m.orgId),
    aggregate_version: m.aggregateVersion,
    data: EVENTS[m.type].payload.parse(m.payload),
  }
}

/** An event as a consumer handles it: with UUIDs, as the rows that its effects are about have them. */
export type ReceivedEvent = { [T in EventType]: Received<T> }[EventType]
interface Received<T extends EventType> {
  /** The same for every delivery of the event. */
  id: Uuid
  type: T
  orgId: Uuid
  /** When the change was made: the commit may be later, and events with later times may arrive before. */
  at: Date
  aggregateVersion: number
  payload: EventPayload<T>
}

/** Reads what `toCloudEvent` wrote. Throws where the event is of another form than this version knows. */
export function receivedEvent(event: CloudEvent): ReceivedEvent {
  const { type } = event
  if (!isEventType(type)) throw new TypeError(`This version knows no event type ${type}`)
  const id = parseId('message', event.id)
  const orgId = parseId('organization', event.org_id)
  if (id === undefined || orgId === undefined) throw new TypeError(`Not an event of ours: ${type}`)
  const { payload } = EVENTS[type]
  const { aggregate_version: aggregateVersion } = event
  const read = withUuids(payload, payload.parse(event.data))
  return { id, type, orgId, at: new Date(event.time), aggregateVersion, payload: read } as ReceivedEvent
}

export const isEventType = (type: string): type is EventType => Object.hasOwn(EVENTS, type)
