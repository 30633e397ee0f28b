import type { Links } from '../../deps.ts'
import { timestamp } from '../../requests/schemas.ts'
import type { AuditExport } from './entry.ts'
import type { AuditExportRow } from './export-queries.ts'

/** Milliseconds of a time with microseconds, cut: what is before the result is before the time. */
export const outputMillis = (micros: string): string => new Date(micros).toISOString()

export function presentExport(
  row: AuditExportRow,
  { links, now }: { links: Pick<Links, 'download' | 'downloadExpiresIn'>; now: Date },
): AuditExport {
  const left = Math.floor(((row.expiresAt?.getTime() ?? 0) - now.getTime()) / 1000)
  const isReady = row.state === 'completed' && left > 0 && row.objectKey !== null
  return {
    export_id: row.id,
    status: row.state === 'completed' && !isReady ? 'expired' : row.state,
    format: row.format,
    created_at: timestamp(row.createdAt),
    completed_at: timestamp(row.completedAt),
    progress: { entries: row.entries, bytes: row.bytes, reached: row.positionAt },
    download_url: isReady ? links.download(row.objectKey ?? '') : null,
    expires_in: isReady ? Math.min(links.downloadExpiresIn, left) : null,
    expires_at: timestamp(row.expiresAt),
  }
}
