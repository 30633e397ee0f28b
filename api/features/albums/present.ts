import type { Now, Permit } from '../../permissions/permit.ts'
import { timestamp } from '../../requests/schemas.ts'
import { eventActions } from '../events/policy.ts'
import { VISIBLE } from '../media/policy.ts'
import { type Showing, toMedia } from '../media/present.ts'
import type { Album, AlbumMedia, ListedAlbum } from './album.ts'
import type { AlbumItem } from './item-queries.ts'
import { ALBUM, type Archive, type albumActions, withArchive } from './policy.ts'
import type { DetailedAlbum, ShownAlbum } from './queries.ts'

type Can = Permit<typeof albumActions.read>['can']

export const toAlbum = (row: DetailedAlbum, { can, now }: { can: Can; now: Now }, archive: Archive): Album => ({
  ...toListedAlbum(row, can),
  can: now(ALBUM, withArchive(row, archive)),
})

/** `can` is that of the caller, who need not see the event of an album that the caller sees: it may be a draft. */
export const toListedAlbum = (
  { isParticipant = false, ...row }: ShownAlbum & Partial<Pick<DetailedAlbum, 'isParticipant'>>,
  can: Can,
): ListedAlbum => ({
  album_id: row.id,
  org_id: row.orgId,
  owner_id: row.ownerId,
  event_id: row.event && can(eventActions.read, { isParticipant, ...row.event }) ? row.event.id : null,
  title: row.title,
  description: row.description,
  visibility: row.visibility,
  status: row.status,
  media_count: row.mediaCount,
  cover_media_id: row.coverMediaId,
  created_at: timestamp(new Date(row.createdAt)),
  updated_at: timestamp(row.updatedAt),
})

/** Who sees the album is shown what is in it, guests included. */
const SHOWN_IN_ALBUM = { ...VISIBLE, isShownToGuest: true }

export const toAlbumMedia = (row: AlbumItem, showing: Showing): AlbumMedia => ({
  ...toMedia(row, showing, SHOWN_IN_ALBUM),
  caption: row.caption,
  added_by: row.addedBy,
  added_at: timestamp(row.addedAt),
})
