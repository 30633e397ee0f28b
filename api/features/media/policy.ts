import type { Uuid } from '../../../lib/contract/ids.ts'
import { member, organizationAdmin, uploader } from '../../permissions/facts.ts'
import { anyOf, fact, on, onOrganization } from '../../permissions/rule.ts'

type Deletable = { uploaderId: Uuid; deletedAt: Date | null; deletedBy: Uuid | null }

const deleter = fact<Deletable>('deleter', 'the user who deleted it', (a, row) => a.userId === row.deletedBy)

/** A restore of what is not deleted changes nothing; it is allowed for those who may delete the media item. */
const uploaderOfVisible = fact<Deletable>(
  'uploader_while_visible',
  'the uploader while it is not deleted',
  (a, row) => row.deletedAt === null && a.userId === row.uploaderId,
)

/** A media item is shared with the whole organization. */
export const mediaActions = {
  upload: onOrganization('media.upload', 'upload a media item', member),
  list: onOrganization('media.list', 'list the media items of an organization', member),
  read: on('media', 'media.read', 'see a media item and its metadata', member),
  // Concerns the metadata: every member can fetch the original as the camera wrote it, and OpenAPI says so.
  readLocation: on(
    'media',
    'media.read_location',
    'see where a media item was taken',
    anyOf(uploader, organizationAdmin),
  ),
  delete: on('media', 'media.delete', 'delete a media item', anyOf(uploader, organizationAdmin)),
  // Not the uploader as such: an uploader must not undo what an administrator removed.
  restore: on(
    'media',
    'media.restore',
    'restore a deleted media item',
    anyOf(deleter, organizationAdmin, uploaderOfVisible),
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

/** Only the uploader has access to an unfinished upload. */
export const uploadActions = {
  read: on('upload', 'upload.read', 'see which chunks of an upload have arrived', uploader),
  send: on('upload', 'upload.send', 'send chunks of an upload', uploader),
  merge: on('upload', 'upload.merge', 'make a media item from an upload', uploader),
  abort: on('upload', 'upload.abort', 'abort an upload', uploader),
} as const
