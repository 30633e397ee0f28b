import type { Links } from '../../deps.ts'
import { timestamp } from '../../requests/schemas.ts'
import type { DataExport } from './data-export.ts'
import type { DataExportPartRow, DataExportRow } from './queries.ts'

/** `parts` of this export, in order. */
export function presentExport(
  row: DataExportRow,
  parts: readonly DataExportPartRow[],
  { links, now }: { links: Pick<Links, 'download' | 'downloadExpiresIn'>; now: Date },
): DataExport {
  const status = statusOf(row, now)
  const isPlanned = row.planned || (row.state !== 'planning' && row.state !== 'planning_event')
  const total = isPlanned ? sum(parts.map(({ bytes }) => bytes)) : 0
  const done = sum(parts.map(({ doneBytes, bytes }) => Math.min(doneBytes, bytes)))
  const left = Math.floor(((row.expiresAt?.getTime() ?? 0) - now.getTime()) / 1000)
  return {
    export_id: row.id,
    status,
    created_at: timestamp(row.createdAt),
    completed_at: timestamp(row.completedAt),
    expires_at: timestamp(row.expiresAt),
    progress: {
      parts_total: isPlanned ? parts.length : 0,
      parts_done: parts.filter(({ state }) => state === 'made').length,
      bytes_total: total,
      bytes_done: done,
      percent: status === 'completed' || status === 'expired' ? 100 : percentOf(done, total, isPlanned),
    },
    parts:
      status === 'completed'
        ? parts.map(({ number, key, bytes }) => ({
            number,
            name: key?.split('/').at(-1) ?? '',
            bytes,
            download_url: links.download(key ?? ''),
            expires_in: Math.min(links.downloadExpiresIn, left),
          }))
        : [],
  }
}

const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0)

/** 100 only when it is completed. */
const percentOf = (done: number, total: number, isPlanned: boolean) =>
  isPlanned && total > 0 ? Math.min(99, Math.floor((done / total) * 100)) : 0

function statusOf({ state, expiresAt }: DataExportRow, now: Date): DataExport['status'] {
  if (state === 'completed') return expiresAt !== null && expiresAt > now ? 'completed' : 'expired'
  return state === 'failed' ? 'failed' : 'processing'
}
