import * as z from 'zod'
import { Can } from '../../permissions/can.ts'
import { bodyId, bodyIds, Meta, outputArray, outputId, outputTime, text, totalCount } from '../../requests/schemas.ts'
import { Media } from '../media/media.ts'
import { MAX_ITEMS } from './plan.ts'

export const AlbumStatus = z.enum(['DRAFT', 'PUBLIC', 'ARCHIVE']).meta({
  id: 'AlbumStatus',
  description:
    '`DRAFT` and `ARCHIVE`: only the owner of the album, the owner of its event and the owners and administrators of the organization can see it. `PUBLIC`: those whom `visibility` names, too. An album in `ARCHIVE` is read-only',
})

const AlbumVisibility = z.enum(['organization', 'participants', 'private']).meta({
  id: 'AlbumVisibility',
  description:
    'Who can see the album while it is `PUBLIC`: all members of the organization, and the guests of its event, who have accepted an invitation and are no members; those who have accepted an invitation to its event, members or guests; only its owner, the owner of its event and the owners and administrators of the organization',
})

const Title = text(1, 200)
const Description = text(0, 5000).nullish()
const Caption = text(0, 1000)

export const NEEDS_EVENT = 'participants needs an event'

export const CreateAlbum = z
  .object({
    title: Title,
    description: Description,
    event_id: bodyId('event').nullish(),
    visibility: AlbumVisibility.nullish().meta({ description: '`organization` unless given' }),
  })
  .refine(({ event_id, visibility }) => visibility !== 'participants' || event_id, {
    path: ['visibility'],
    message: NEEDS_EVENT,
  })
export type CreateAlbum = z.output<typeof CreateAlbum>

/** Which of the fields a request sets; unknown ones do not count. */
export const fieldsOf = (changes: object): string[] =>
  Object.entries(changes).flatMap(([name, value]) => (value === undefined ? [] : [name]))

export const UpdateAlbum = z
  .object({
    title: Title.optional(),
    description: Description,
    visibility: AlbumVisibility.optional(),
    cover_media_id: bodyId('media')
      .nullish()
      .meta({ description: 'A media item of the album; null for the first one' }),
  })
  .refine((changes) => fieldsOf(changes).length > 0, 'names no field that can be changed')
  .meta({ minProperties: 1 })
export type UpdateAlbum = z.output<typeof UpdateAlbum>

export const SetAlbumStatus = z.object({ album_id: bodyId('album'), status: AlbumStatus })

export const AddMedia = z.object({ media_id: bodyId('media'), caption: Caption.nullish() })
export const SetCaption = z.object({ caption: Caption.nullable() })
const Order = outputArray(outputId('media'), MAX_ITEMS)
export const Reorder = z.object({ media_ids: bodyIds('media', MAX_ITEMS) })
export const Reordered = z.object({ media_ids: Order }).meta({ id: 'AlbumOrder' })

export const Album = z
  .object({
    album_id: outputId('album'),
    org_id: outputId('organization'),
    owner_id: outputId('user'),
    event_id: outputId('event').nullable().meta({ description: 'Null also if the caller cannot see the event' }),
    title: z.string(),
    description: z.string().nullable(),
    visibility: AlbumVisibility,
    status: AlbumStatus,
    media_count: z
      .int()
      .min(0)
      .max(MAX_ITEMS)
      .meta({ description: 'Without deleted media items; a Live Photo is one' }),
    cover_media_id: outputId('media').nullable().meta({
      description: 'The chosen media item while it is in the album, otherwise the first one; null for an empty album',
    }),
    created_at: outputTime(),
    updated_at: outputTime(),
    can: Can,
  })
  .meta({ id: 'Album' })
export type Album = z.input<typeof Album>

export const ListedAlbum = Album.omit({ can: true }).meta({ id: 'ListedAlbum' })
export type ListedAlbum = z.input<typeof ListedAlbum>

/** Not wrapped in `data`: interface specification §4.2. */
export const AlbumStatusSet = z
  .object({ album_id: outputId('album'), status: AlbumStatus, meta: Meta })
  .meta({ id: 'AlbumStatusResponse' })
export type AlbumStatusSet = z.input<typeof AlbumStatusSet>

export const AlbumMedia = Media.extend({
  caption: z.string().nullable(),
  added_by: outputId('user'),
  added_at: outputTime(),
}).meta({ id: 'AlbumMedia', description: 'A media item in an album. A Live Photo is one, its image' })
export type AlbumMedia = z.input<typeof AlbumMedia>

export const AlbumMediaTotal = totalCount()
