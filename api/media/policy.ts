import { member, organizationAdmin, uploader } from '../permissions/facts.ts'
import { anyOf, on, onOrganization } from '../permissions/rule.ts'

/** A media item is shared with the whole organization; only the uploader has access to an unfinished upload. */
export const mediaActions = {
  'media.upload': onOrganization('upload a media item', member),
  'media.list': onOrganization('list the media items of an organization', member),
  'media.read': on('media', 'see a media item and its metadata', member),
  // Concerns the metadata: every member can fetch the original as the camera wrote it, and OpenAPI says so.
  'media.read_location': on('media', 'see where a media item was taken', anyOf(uploader, organizationAdmin)),
  'upload.read': on('upload', 'see which chunks of an upload have arrived', uploader),
  'upload.send': on('upload', 'send chunks of an upload', uploader),
  'upload.merge': on('upload', 'make a media item from an upload', uploader),
  'upload.abort': on('upload', 'abort an upload', uploader),
} as const
