import * as z from 'zod'
import { type OwnData, titleIfSeen } from '../../requests/own-data.ts'
import { outputId, outputTime } from '../../requests/schemas.ts'
import { ownAlbumItems, ownAlbums } from './own-data-queries.ts'

export const ownAlbumData: OwnData = {
  sections: [
    {
      name: 'albums',
      title: 'Your albums',
      heading: 'title',
      record: z.strictObject({
        album_id: outputId('album'),
        org_id: outputId('organization'),
        event_id: outputId('event').nullable(),
        title: z.string(),
        description: z.string().nullable(),
        visibility: z.string(),
        status: z.string(),
        created_at: outputTime(),
      }),
      list: ownAlbums,
    },
    {
      name: 'album_items',
      title: 'What you put into albums, or wrote there',
      heading: 'album_title',
      record: z.strictObject({
        album_id: outputId('album'),
        album_title: titleIfSeen,
        media_id: outputId('media'),
        caption: z.string().nullable(),
        added_by_you: z.boolean(),
        added_at: outputTime(),
      }),
      list: ownAlbumItems,
    },
  ],
}
