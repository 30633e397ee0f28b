import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Audience, CommentRow } from '../../../db/schema/comments.ts'
import { member, organizationAdmin } from '../../../permissions/facts.ts'
import { allOf, anyOf, fact, kind, onForGuests, type Rule } from '../../../permissions/rule.ts'
import { inOrder, type State } from '../../../permissions/state.ts'
import { EVENT, eventOwner, mayReadEvent, unlessArchived } from '../../events/policy.ts'

type Written = { authorId: Uuid } & (typeof mayReadEvent extends Rule<infer R> ? R : never)

const author = fact<Written>('author', 'the author', (a, row) => a.userId === row.authorId)

/** What decides on a comment; the owner, the status and the participation are those of its event. */
export const COMMENT = kind<Seen>('comment')
type Seen = Written & {
  deletedAt: Date | null
  /** Whether the time to edit it is over, by the clock of the database. */
  isPastEdit: boolean
}

const unlessDeleted: State<Pick<Seen, 'deletedAt'>> = ({ deletedAt }) => (deletedAt === null ? undefined : 'gone')

/** Exported for its test. */
export const whileEditable: State<Pick<Seen, 'isPastEdit'>> = ({ isPastEdit }) =>
  isPastEdit
    ? { code: 'COMMENT_EDIT_WINDOW_EXPIRED', message: 'A comment can be edited within 15 minutes after it was posted' }
    : undefined

export const commentActions = {
  read: onForGuests(EVENT, 'comment.read', 'see the comments of an event', mayReadEvent),
  create: onForGuests(
    EVENT,
    'comment.create',
    'comment on an event and on what belongs to it',
    mayReadEvent,
    unlessArchived,
  ),
  edit: onForGuests(
    COMMENT,
    'comment.edit',
    'edit a comment',
    allOf<Written>(author, mayReadEvent),
    inOrder<Seen>(unlessDeleted, unlessArchived, whileEditable),
  ),
  delete: onForGuests(
    COMMENT,
    'comment.delete',
    'delete a comment',
    anyOf<Written>(
      allOf<Written>(member, anyOf<Written>(eventOwner, organizationAdmin)),
      allOf<Written>(author, mayReadEvent),
    ),
    unlessDeleted,
  ),
} as const

/** Where a media item is, seen from one event. */
export interface Whereabouts {
  /** In the album of the event, which the caller can see. */
  isInAlbum: boolean
  /** Attached to comments for everyone who can see the event, and to comments for those who can see its album. */
  attachedFor: readonly Audience[]
}

/**
 * The audience of the comments that this caller writes on a media item; undefined if the caller cannot reach it. Anyone
 * may attach any media item to a comment, and must not come to see in this way what others wrote about it in a private
 * album. So a caller who sees the album writes for those who see it.
 */
export function audienceOf({ isInAlbum, attachedFor }: Whereabouts, seesAlbum: boolean): Audience | undefined {
  if (seesAlbum && (isInAlbum || attachedFor.includes('album'))) return 'album'
  return attachedFor.includes('event') ? 'event' : undefined
}

export const isReply = ({ targetType }: Pick<CommentRow, 'targetType'>) => targetType === 'comment'
