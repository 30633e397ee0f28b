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

/** A media item is shared with the whole organization; only the uploader has access to an unfinished upload. */
export const mediaActions = {
  'media.upload': onOrganization('upload a media item', member),
  'media.list': onOrganization('list the media items of an organization', member),
  'media.read': on('media', 'see a media item and its metadata', member),
  // Concerns the metadata: every member can fetch the original as the camera wrote it, and OpenAPI says so.
  'media.read_location': on('media', 'see where a media item was taken', anyOf(uploader, organizationAdmin)),
  'media.delete': on('media', 'delete a media item', anyOf(uploader, organizationAdmin)),
  // Not the uploader as such: an uploader must not undo what an administrator removed.
  'media.restore': on('media', 'restore a deleted media item', anyOf(deleter, organizationAdmin, uploaderOfVisible)),
  'media.list_trash': onOrganization('list the deleted media items that one has uploaded or deleted', member),
  'media.list_all_trash': onOrganization('list all deleted media items of an organization', organizationAdmin),
  'upload.read': on('upload', 'see which chunks of an upload have arrived', uploader),
  'upload.send': on('upload', 'send chunks of an upload', uploader),
  'upload.merge': on('upload', 'make a media item from an upload', uploader),
  'upload.abort': on('upload', 'abort an upload', uploader),
} as const
