import * as z from 'zod'
import { formatId, type IdKind, type PublicId } from '../../../../lib/contract/ids.ts'
import type { TargetType } from '../../../db/schema/comments.ts'
import { Can } from '../../../permissions/can.ts'
import type { Now } from '../../../permissions/permit.ts'
import {
  bodyId,
  flag,
  outputId,
  outputTime,
  pathId,
  pathIdOf,
  pathWord,
  text,
  timestamp,
} from '../../../requests/schemas.ts'
import type { EventFor } from '../../events/queries.ts'
import {
  type FoundReactions,
  OwnReaction,
  ReactionCounts,
  toCounts,
  toOwnReaction,
} from '../../reaction-counts/reaction-counts.ts'
import { MAX_MENTIONS } from './mentions.ts'
import type { Changes } from './plan.ts'
import { COMMENT } from './policy.ts'
import type { ShownComment } from './queries.ts'

const MAX_MEDIA = 4

/** The event itself is `meta`. */
export const TARGET_TYPES = ['meta', 'comment', 'media'] as const satisfies TargetType[]

/** The kind of id of each type of target. */
const KINDS = { meta: 'event', comment: 'comment', media: 'media' } as const satisfies Record<TargetType, IdKind>

export interface Target {
  type: TargetType
  id: string
}
export const formatTarget = ({ type, id }: Target): PublicId => formatId(KINDS[type], id)

export const kindOf = (type: TargetType): IdKind => KINDS[type]

export const OneEvent = z.object({ org_id: pathId('organization'), event_id: pathId('event') })

export const InThread = OneEvent.extend({
  action_destination: pathWord(TARGET_TYPES, {
    id: 'CommentDestination',
    description: 'What the comments are about: the event itself (`meta`), a comment, or a media item of the event',
  }),
  action_id: pathIdOf('Identifier of the event (for `meta`), of the comment or of the media item', [
    'event',
    'comment',
    'media',
  ]),
})
export const OneComment = InThread.extend({ comment_id: pathId('comment') })

/** Undefined for an id of another kind. */
export function targetOf(params: z.output<typeof InThread>): Target | undefined {
  const type = params.action_destination
  const id = params.action_id.find(({ kind }) => kind === KINDS[type])?.id
  return id === undefined ? undefined : { type, id }
}

const Body = text(1, 4000).meta({ description: 'Plain text. `@user_id` mentions a user who can see the comment' })
const MediaIds = z
  .array(bodyId('media'))
  .max(MAX_MEDIA)
  .refine((ids) => new Set(ids).size === ids.length, 'must not have the same media item twice')
  .meta({ uniqueItems: true })
  .nullish()
const Mentions = z
  .array(bodyId('user'))
  .max(MAX_MENTIONS)
  .nullish()
  .meta({ description: `Added to those whom the body mentions; at most ${MAX_MENTIONS} together` })

export const NewComment = z.object({ body: Body, media_ids: MediaIds, mentions: Mentions })

const FIELDS = ['body', 'media_ids', 'mentions'] as const satisfies (keyof Changes)[]

export const CommentEdit = z
  .object({ body: Body.optional(), media_ids: MediaIds, mentions: Mentions })
  .refine((changes) => FIELDS.some((name) => changes[name] !== undefined), 'names no field that can be changed')
  .meta({ minProperties: 1 })

/** Asks for deleted comments, too. */
export const DeletedQuery = z.object({
  include_deleted: flag()
    .optional()
    .meta({ description: 'Also deleted comments that have replies, without what they said' }),
})

const Reason = text(1, 500).nullish().meta({ description: 'Why the comment is deleted' })
export const CommentDeletion = z.object({ reason: Reason })
export const CommentDeletionQuery = z.object({
  reason: text(1, 500).optional().meta({ description: 'The same as in the body, which counts if both have one' }),
})

const CommentTarget = z
  .object({ type: z.enum(TARGET_TYPES).meta({ id: 'CommentTargetType' }), id: z.string() })
  .meta({ id: 'CommentTarget', description: 'What the comment is about; for `meta` the id is that of the event' })

/** What the comments of a list are about. */
export const ThreadTarget = CommentTarget.extend({
  reaction_counts: ReactionCounts,
  my_reaction: OwnReaction.nullable(),
}).meta({
  id: 'ThreadTarget',
  description: 'What the comments are about, with the reactions to it; of a Live Photo those to both halves',
})

export const toThreadTarget = (target: Target, { counts, own }: FoundReactions): z.input<typeof ThreadTarget> => ({
  type: target.type,
  id: formatTarget(target),
  reaction_counts: toCounts(counts),
  my_reaction: toOwnReaction(own),
})

export const Comment = z
  .object({
    comment_id: outputId('comment'),
    event_id: outputId('event'),
    target: CommentTarget,
    author_id: outputId('user'),
    author_name: z.string().nullable().meta({
      description: 'Null if the author has left the organization, or the event as its guest, and of a deleted comment',
    }),
    body: z
      .string()
      .meta({ description: 'Plain text: escape it where markup is shown. Empty if the comment is deleted' }),
    media_ids: z.array(outputId('media')).meta({ description: 'Deleted media items are left out' }),
    mentions: z.array(outputId('user')),
    reply_count: z
      .int()
      .min(0)
      .max(2 ** 31 - 1),
    edited: z.boolean(),
    deleted: z.boolean().meta({
      description:
        'Only with `include_deleted`, and as long as the comment has replies: with an empty body and no name, media or mentions',
    }),
    created_at: outputTime(),
    updated_at: outputTime(),
    reaction_counts: ReactionCounts,
    my_reaction: OwnReaction.nullable(),
    can: Can,
  })
  .meta({ id: 'Comment' })
export type Comment = z.input<typeof Comment>

const contentOf = (row: ShownComment) => ({
  author_name: row.authorName,
  body: row.body,
  media_ids: row.mediaIds,
  mentions: row.mentions,
  edited: row.version > 1,
  deleted: false,
})

/** The content that a deletion leaves. No response contains the body or the attachments of a deleted comment. */
const TOMBSTONE = { author_name: null, body: '', media_ids: [], mentions: [], edited: false, deleted: true }

/** A comment of the thread on `target`, which belongs to the event. */
export const toComment = (
  row: ShownComment,
  target: Target & { event: Pick<EventFor, 'ownerId' | 'status' | 'isParticipant'> },
  now: Now,
): Comment => ({
  comment_id: row.id,
  event_id: row.eventId,
  target: { type: target.type, id: formatTarget(target) },
  author_id: row.authorId,
  ...(row.deletedAt === null ? contentOf(row) : TOMBSTONE),
  reply_count: row.replyCount,
  created_at: timestamp(new Date(row.createdAt)),
  updated_at: timestamp(row.updatedAt),
  reaction_counts: toCounts(row.reactionCounts),
  my_reaction: toOwnReaction(row.myReaction),
  can: now(COMMENT, { ...target.event, ...row }),
})
