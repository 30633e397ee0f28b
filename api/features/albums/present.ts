import { formatId } from '../../../lib/contract/ids.ts'
import type { Links } from '../../deps.ts'
import { timestamp } from '../../requests/schemas.ts'
import { eventActions } from '../events/policy.ts'
import { toMedia } from '../media/present.ts'
import type { Album, AlbumMedia } from './album.ts'
import type { AlbumItem, EventOfAlbum, ShownAlbum } from './queries.ts'

/** `can` is that of the caller, who need not see the event of an album that the caller sees: it may be a draft. */
export const toAlbum = (
  row: ShownAlbum,
  can: (action: typeof eventActions.read, event: EventOfAlbum) => boolean,
): Album => ({
  album_id: formatId('album', row.id),
  org_id: formatId('organization', row.orgId),
  owner_id: formatId('user', row.ownerId),
  event_id: row.event && can(eventActions.read, row.event) ? formatId('event', row.event.id) : null,
  title: row.title,
  description: row.description,
  visibility: row.visibility,
  status: row.status,
  media_count: row.mediaCount,
  cover_media_id: row.coverMediaId && formatId('media', row.coverMediaId),
  created_at: timestamp(new Date(row.createdAt)),
  updated_at: timestamp(row.updatedAt),
})

export const toAlbumMedia = (row: AlbumItem, links: Links): AlbumMedia => ({
  ...toMedia(row, links),
  caption: row.caption,
  added_by: formatId('user', row.addedBy),
  added_at: timestamp(row.addedAt),
})
