import type { Uuid } from '../../../../lib/contract/ids.ts'
import { Problem } from '../../../../lib/contract/problem.ts'
import type { Audience, CommentRow } from '../../../db/schema/comments.ts'
import { organizationAdmin } from '../../../permissions/facts.ts'
import { allOf, anyOf, fact, on, type Rule } from '../../../permissions/rule.ts'
import { eventOwner, mayReadEvent } from '../../events/policy.ts'

type Written = { authorId: Uuid } & (typeof mayReadEvent extends Rule<infer R> ? R : never)

const author = fact<Written>('author', 'the author', (a, row) => a.userId === row.authorId)

export const commentActions = {
  read: on('event', 'comment.read', 'see the comments of an event', mayReadEvent),
  create: on('event', 'comment.create', 'comment on an event and on what belongs to it', mayReadEvent),
  edit: on('comment', 'comment.edit', 'edit a comment', allOf<Written>(author, mayReadEvent)),
  delete: on(
    'comment',
    'comment.delete',
    'delete a comment',
    anyOf<Written>(eventOwner, organizationAdmin, allOf<Written>(author, mayReadEvent)),
  ),
} as const

/** Where a media item is, seen from one event. */
export interface Places {
  /** In the album of the event, which the caller can see. */
  isInAlbum: boolean
  /** Attached to comments for everyone who can see the event, and to comments for those who can see its album. */
  attachedFor: readonly Audience[]
}

/**
 * For whom comments on a media item are that this caller writes; undefined if the caller cannot reach it. Anyone may
 * attach any media item to a comment, and must not thereby come to see what was said about it in a private album: so
 * those who write where the album is, write for those who can see it.
 */
export function audienceOf({ isInAlbum, attachedFor }: Places, seesAlbum: boolean): Audience | undefined {
  if (seesAlbum && (isInAlbum || attachedFor.includes('album'))) return 'album'
  return attachedFor.includes('event') ? 'event' : undefined
}

/** Throws unless the comment may still be edited. Call it on the row that the transaction locked. */
export function requireEditable({ isPastEdit }: { isPastEdit: boolean }): void {
  if (!isPastEdit) return
  throw new Problem('COMMENT_EDIT_WINDOW_EXPIRED', 'A comment can be edited within 15 minutes after it was posted')
}

export const isReply = ({ targetType }: Pick<CommentRow, 'targetType'>) => targetType === 'comment'
