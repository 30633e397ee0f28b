import type { Uuid } from '../../../lib/contract/ids.ts'
import { member, organizationAdmin, uploader } from '../../permissions/facts.ts'
import { anyOf, fact, kind, on, onForGuests, onOrganization } from '../../permissions/rule.ts'
import type { State } from '../../permissions/state.ts'
import { DELETE_MOVES, type DeletionSeen, deletionStateOf, RESTORE_MOVES } from './deletion/plan.ts'
import { ENDED, type MergeFacts, mergeMove, refusalOf, whileOpen } from './uploads/plan.ts'

type Deletable = { uploaderId: Uuid; deletedAt: Date | null; deletedBy: Uuid | null }

const deleter = fact<Deletable>('deleter', 'the user who deleted it', (a, row) => a.userId === row.deletedBy)

/** A restore of what is not deleted changes nothing; it is allowed for those who may delete the media item. */
const uploaderOfVisible = fact<Deletable>(
  'uploader_while_visible',
  'the uploader while it is not deleted',
  (a, row) => row.deletedAt === null && a.userId === row.uploaderId,
)

/** What decides on a media item. */
export type MediaSeen = Deletable & DeletionSeen & Shown
export const MEDIA = kind<MediaSeen>('media')
/** Of one that is not deleted. */
export const VISIBLE = { deletedAt: null, deletedBy: null, purgingAt: null, isPastRestore: false }

const unlessDeleted: State<{ deletedAt: Date | null }> = ({ deletedAt }) => (deletedAt === null ? undefined : 'gone')
const deleting: State<DeletionSeen> = (row) => {
  const move = DELETE_MOVES[deletionStateOf(row)]
  if (move === 'not-found') return 'gone'
  return move === 'nothing' ? 'done' : undefined
}
const restoring: State<DeletionSeen> = (row) => {
  const move = RESTORE_MOVES[deletionStateOf(row)]
  if (move === 'refuse') return { code: 'RESTORE_WINDOW_EXPIRED', message: 'It is too late to restore this media item' }
  return move === 'nothing' ? 'done' : undefined
}

/** `isShownToGuest`: see `AboveMedia`; absent where only members ask. */
type Shown = { uploaderId: Uuid; isShownToGuest?: boolean }
const guest = fact<Shown>(
  'shown_to_guest',
  'guests of an event to whom its album or its comments show it',
  (_, row) => row.isShownToGuest === true,
)

/** A media item is shared with the whole organization, and with guests of an event only what belongs to the event. */
export const mediaActions = {
  upload: onOrganization('media.upload', 'upload a media item', member),
  list: onOrganization('media.list', 'list the media items of an organization', member),
  read: onForGuests(
    MEDIA,
    'media.read',
    'see a media item and its metadata',
    anyOf<Shown>(member, guest),
    unlessDeleted,
  ),
  // Concerns the metadata: every member can fetch the original as the camera wrote it, and OpenAPI says so.
  readLocation: on(
    MEDIA,
    'media.read_location',
    'see where a media item was taken',
    anyOf(uploader, organizationAdmin),
    unlessDeleted,
  ),
  delete: on(MEDIA, 'media.delete', 'delete a media item', anyOf(uploader, organizationAdmin), deleting),
  // Not the uploader as such: an uploader must not undo what an administrator removed.
  restore: on(
    MEDIA,
    'media.restore',
    'restore a deleted media item',
    anyOf(deleter, organizationAdmin, uploaderOfVisible),
    restoring,
  ),
  listTrash: onOrganization(
    'media.list_trash',
    'list the deleted media items that one has uploaded or deleted',
    member,
  ),
  listAllTrash: onOrganization(
    'media.list_all_trash',
    'list all deleted media items of an organization',
    organizationAdmin,
  ),
} as const

type Session = Pick<MergeFacts, 'state' | 'pastExpiry'>
/** What decides on an upload. */
export const UPLOAD = kind<{ uploaderId: Uuid } & MergeFacts>('upload')

const sending: State<Session> = whileOpen
const aborting: State<Session & Pick<MergeFacts, 'leaseExpired'>> = (upload) => {
  switch (upload.state) {
    case 'open':
      return undefined
    case 'merging':
      // A merge that failed or died leaves the session to the next request.
      return upload.leaseExpired ? undefined : refusalOf(upload)
    case 'completed':
      return refusalOf(upload)
    case 'aborted':
    case 'expired':
      return 'done'
  }
}
const merging: State<MergeFacts> = (facts) => {
  switch (mergeMove(facts)) {
    case 'answer':
      return 'done'
    case 'refuse-ended':
      return facts.refusal ?? ENDED
    case 'refuse-incomplete':
      return { code: 'UPLOAD_INCOMPLETE', message: 'Some chunks have not arrived' }
    case 'start':
    case 'take-over':
    case 'wait':
      return undefined
  }
}

/** Only the uploader has access to an unfinished upload. */
export const uploadActions = {
  read: on(UPLOAD, 'upload.read', 'see which chunks of an upload have arrived', uploader),
  send: on(UPLOAD, 'upload.send', 'send chunks of an upload', uploader, sending),
  merge: on(UPLOAD, 'upload.merge', 'make a media item from an upload', uploader, merging),
  abort: on(UPLOAD, 'upload.abort', 'abort an upload', uploader, aborting),
} as const
