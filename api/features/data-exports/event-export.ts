import * as z from 'zod'
import type { ExportFailure } from '../../db/schema/data-exports.ts'
import { outputArray, outputId } from '../../requests/schemas.ts'
import { DataExport, MAX_SHOWN } from './data-export.ts'
import { presentExport } from './present.ts'
import type { DataExportRow } from './queries.ts'

/** Why there is no export, in the codes of this operation. */
const FAILURES = {
  not_permitted: { code: 'NOT_PERMITTED', message: 'You do not manage this event any more' },
  event_gone: { code: 'EVENT_GONE', message: 'The event was deleted before the export was ready' },
  contents_erased: {
    code: 'CONTENTS_ERASED',
    message: 'Someone whose data were in the export has been erased. Ask for another export.',
  },
} as const satisfies Record<ExportFailure, { code: string; message: string }>
const TECHNICAL = { code: 'EXPORT_FAILED', message: 'The export could not be made. An administrator can let it go on.' }

const ExportError = z
  .object({
    code: z
      .enum([...Object.values(FAILURES).map(({ code }) => code), TECHNICAL.code])
      .meta({ id: 'EventExportErrorCode' }),
    message: z.string(),
  })
  .meta({ id: 'EventExportError' })

export const EventExport = DataExport.extend({
  event_id: outputId('event'),
  org_id: outputId('organization'),
  event_title: z.string().nullable().meta({
    description: 'As it was when the export was asked for. Null once the person who wrote it has been erased',
  }),
  error: ExportError.nullable().meta({ description: 'Set when `status` is `failed`' }),
}).meta({ id: 'EventExport' })
export type EventExport = z.input<typeof EventExport>

export const EventExports = z.object({ exports: outputArray(EventExport, MAX_SHOWN) }).meta({ id: 'EventExportList' })

export function presentEventExport(
  row: DataExportRow,
  ...given: Parameters<typeof presentExport> extends [unknown, ...infer Rest] ? Rest : never
): EventExport {
  if (row.eventId === null || row.orgId === null) throw new Error('an export of no event')
  const shown = presentExport(row, ...given)
  const error = row.failure === null ? TECHNICAL : FAILURES[row.failure]
  return {
    ...shown,
    event_id: row.eventId,
    org_id: row.orgId,
    event_title: row.eventTitle,
    error: shown.status === 'failed' ? error : null,
  }
}
