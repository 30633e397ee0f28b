import * as z from 'zod'
import { outputArray, outputId, outputTime } from '../../requests/schemas.ts'

const Bytes = z
  .int()
  .min(0)
  .max(2 ** 50)
const Count = z
  .int()
  .min(0)
  .max(2 ** 31 - 1)

const DataExportPart = z
  .object({
    number: Count,
    name: z.string().meta({ description: 'Of the file, as the link delivers it' }),
    bytes: Bytes,
    download_url: z.string().meta({ description: 'A link of its own for this file, valid for `expires_in`' }),
    expires_in: z.int().min(0).max(86_400).meta({ description: 'In seconds; show the export again for a new link' }),
  })
  .meta({ id: 'DataExportPart' })

const DataExportProgress = z
  .object({
    parts_total: Count.meta({ description: '0 until the parts are planned' }),
    parts_done: Count,
    bytes_total: Bytes,
    bytes_done: Bytes,
    percent: z.int().min(0).max(100),
  })
  .meta({ id: 'DataExportProgress' })

export const DataExport = z
  .object({
    export_id: outputId('export'),
    status: z.enum(['processing', 'completed', 'failed', 'expired']).meta({ id: 'DataExportStatus' }),
    created_at: outputTime(),
    completed_at: outputTime().nullable(),
    expires_at: outputTime().nullable().meta({ description: 'Until then it can be downloaded' }),
    progress: DataExportProgress,
    parts: outputArray(DataExportPart, 10_000).meta({ description: 'Empty unless `completed`' }),
  })
  .meta({ id: 'DataExport' })
export type DataExport = z.input<typeof DataExport>

export const MAX_SHOWN = 20
export const DataExports = z.object({ exports: outputArray(DataExport, MAX_SHOWN) }).meta({ id: 'DataExportList' })
