import * as z from 'zod'
import type { OwnData } from '../../requests/own-data.ts'
import { outputId, outputTime } from '../../requests/schemas.ts'
import { findKeptMedia, findOriginalKeys, ownFiles, ownMedia } from './own-data-queries.ts'

/** What the person uploaded: records of all of it, and the originals of what is not in the trash. */
export const ownMediaData: OwnData = {
  sections: [
    {
      name: 'media',
      title: 'Your photos and videos',
      heading: 'filename',
      record: z.strictObject({
        media_id: outputId('media'),
        org_id: outputId('organization'),
        filename: z.string(),
        mime_type: z.string(),
        bytes: z.int(),
        sha256: z.string().nullable(),
        taken_at: outputTime(),
        created_at: outputTime(),
        paired_media_id: outputId('media').nullable().meta({ description: 'The other half of a Live Photo' }),
        deleted_at: outputTime().nullable().meta({ description: 'Set while it is in the trash: then without a file' }),
      }),
      hasFiles: true,
      list: ownMedia,
    },
  ],
  files: { list: ownFiles, findKept: findKeptMedia, findKeys: findOriginalKeys },
}
