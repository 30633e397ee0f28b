import * as z from 'zod'
import type { OwnData } from '../../requests/own-data.ts'
import { outputId, outputTime } from '../../requests/schemas.ts'
import { ownHighlights } from './own-data-queries.ts'

/** What it was made of, and not the film: it shows the media items of others. */
export const ownHighlightData: OwnData = {
  sections: [
    {
      name: 'highlights',
      title: 'Your highlights',
      heading: 'title',
      record: z.strictObject({
        highlight_id: outputId('highlight'),
        org_id: outputId('organization'),
        album_id: outputId('album').nullable(),
        title: z.string(),
        status: z.string(),
        duration_sec: z.number().nullable(),
        media_ids: z.array(outputId('media')),
        created_at: outputTime(),
      }),
      list: ownHighlights,
    },
  ],
}
