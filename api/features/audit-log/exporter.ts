import { Readable } from 'node:stream'
import { newUuid } from '../../../lib/contract/ids.ts'
import { downloadPrefix } from '../../../lib/contract/object-keys.ts'
import type { Clock } from '../../../lib/runtime/clock.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import { safeMessage } from '../../../lib/runtime/log-error.ts'
import { StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import { type Place, placeOf } from '../../audit/archive/line.ts'
import type { PersonalData } from '../../audit/personal-data.ts'
import { backoffSeconds } from '../../worker/backoff.ts'
import { makeWakeup } from '../../worker/wakeup.ts'
import { expiryOf } from '../downloads/downloads.ts'
import { insertDownload } from '../downloads/queries.ts'
import { tellDownloadReady } from '../notifications/download-ready.ts'
import { CSV_HEAD, csvRow } from './csv-plan.ts'
import {
  type AuditExportRow,
  beginUpload,
  claimExport,
  extendLease,
  isObjectOf,
  type Lease,
  markCompleted,
  markFailed,
  postpone,
  recordPart,
  secondsToWork,
} from './export-queries.ts'
import type { EntryFilter } from './filter.ts'
import { lineOfEntry } from './present.ts'
import { type ReadDeps, readLog, type ShownEntry } from './read.ts'

export interface ExporterDeps extends ReadDeps {
  personalData: Pick<PersonalData, 'decrypt' | 'addressIndexes' | 'forget'>
  log: Log
  clock: Clock
  onMade?(entries: number): void
  onFailed?(): void
}

export interface ExporterOptions {
  leaseSeconds?: number
  idleMs?: number
  /** Of a part of the upload; one is in memory. */
  partBytes?: number
  /** Entries that are read at once. An archived day is read once for each so many of its entries. */
  pageEntries?: number
}

export interface Exporter {
  wake(): void
  stop(): Promise<void>
}

/** In a row, without a part that was stored. */
const MAX_FAILURES = 8

/** The export has ended, or is another worker's. */
class Lost extends Error {}

/** Makes the files of audit exports, one after the other. A worker that dies costs one part of the upload. */
export function startExporter(deps: ExporterDeps, o: ExporterOptions = {}): Exporter {
  const { db, store, log } = deps
  const { leaseSeconds = 60, idleMs = 30_000, partBytes = 8 * 1024 ** 2, pageEntries = 10_000 } = o
  const stopping = new AbortController()
  const wakeup = makeWakeup()

  async function loop(): Promise<void> {
    let outages = 0
    while (!stopping.signal.aborted) {
      try {
        const worked = await makeNext()
        outages = 0
        if (!worked) await wakeup.wait(await untilNext())
      } catch (error) {
        outages += 1
        log.warn({ err: error, outages }, 'could not look for audit exports')
        await wakeup.wait(Math.min(idleMs, 100 * 2 ** Math.min(outages, 10)))
      }
    }
  }

  async function untilNext(): Promise<number> {
    const seconds = await db.read({}, secondsToWork)
    return Math.min(idleMs, Math.max(20, (seconds ?? Number.POSITIVE_INFINITY) * 1000 + 5))
  }

  async function makeNext(): Promise<boolean> {
    const lease = { holder: newUuid(), seconds: leaseSeconds }
    const row = await db.inTransaction({}, (tx) => claimExport(tx, lease))
    if (!row) return false
    failpoint('audit-export.claimed')
    try {
      // A worker that died each time has not said so.
      if (row.failures > MAX_FAILURES) throw new Error('the worker died each time')
      await holding(row, lease, (signal) => makeFile(row, lease, signal))
    } catch (error) {
      if (!(error instanceof Lost)) await end(row, lease, error)
    }
    return true
  }

  async function holding(row: AuditExportRow, lease: Lease, work: (signal: AbortSignal) => Promise<void>) {
    const lost = new AbortController()
    const beat = async () => {
      if (!(await db.inTransaction({}, (tx) => extendLease(tx, row.id, lease)))) lost.abort(new Lost())
    }
    const timer = setInterval(
      () => void beat().catch((error: unknown) => log.warn({ err: error, export: row.id }, 'could not extend a lease')),
      (leaseSeconds * 1000) / 4,
    )
    try {
      await work(AbortSignal.any([stopping.signal, lost.signal]))
    } catch (error) {
      throw lost.signal.aborted ? lost.signal.reason : error
    } finally {
      clearInterval(timer)
    }
  }

  async function end(row: AuditExportRow, { holder }: Lease, error: unknown): Promise<void> {
    const isStopping = stopping.signal.aborted
    // The store has another upload than the row: only a new one helps.
    const restart = error instanceof StoreError && ['NotFound', 'InvalidPart', 'EntityTooSmall'].includes(error.code)
    if (!isStopping) {
      log.warn({ export: row.id, failures: row.failures, err: error }, 'could not make an audit export')
      deps.onFailed?.()
    }
    const isOver = !isStopping && row.failures >= MAX_FAILURES
    await db.inTransaction({}, (tx) =>
      isOver
        ? markFailed(tx, row.id, holder, reasonOf(error))
        : postpone(tx, row.id, holder, {
            error: isStopping ? null : reasonOf(error),
            seconds: isStopping ? 0 : backoffSeconds(row.failures),
            restart,
          }),
    )
    if (isOver) await store.deletePrefix(downloadPrefix(row.userId, row.id))
  }

  async function makeFile(row: AuditExportRow, lease: Lease, signal: AbortSignal): Promise<void> {
    // An erasure has attempts begin again once the keys of the person are gone: one in memory would name the person.
    deps.personalData.forget()
    const file = beginFile(row)
    // What a worker before left that stored no part, or whose upload is of no use.
    if (file.number === 1) await store.deletePrefix(downloadPrefix(row.userId, row.id))
    const filter = filterOf(row)
    for (let isMore = true; isMore; ) {
      signal.throwIfAborted()
      const page = await readLog(deps, { filter, after: file.position, limit: pageEntries, budget: null, signal })
      for (const shown of page.entries) {
        file.add(row.format, shown)
        if (file.buffered >= partBytes) await storePart(row, lease, file, signal)
      }
      isMore = page.next !== undefined
      if (page.next) file.position = page.next
    }
    await finish(row, lease, file, signal)
  }

  async function storePart(row: AuditExportRow, lease: Lease, file: File, signal: AbortSignal): Promise<void> {
    if (!file.upload) {
      const uploadId = await store.createMultipart(file.objectKey, { contentType: TYPES[row.format] })
      failpoint('audit-export.upload-begun')
      const { objectKey } = file
      const begun = await db.inTransaction({}, (tx) => beginUpload(tx, row.id, lease, { objectKey, uploadId }))
      if (!begun) throw new Lost()
      file.upload = uploadId
    }
    const body = file.take()
    const { number, position } = file
    const part = await store.putPart(file.objectKey, file.upload, number, Readable.from([body.bytes]), {
      size: body.bytes.length,
      signal,
    })
    failpoint('audit-export.part-stored')
    if (!position) throw new Error('a part without a position')
    const stored = { number, etag: part.etag, bytes: body.bytes.length, entries: body.entries, position }
    if (!(await db.inTransaction({}, (tx) => recordPart(tx, row.id, lease, stored)))) throw new Lost()
    failpoint('audit-export.part-recorded')
    file.etags.push(part.etag)
    // As in the row: only failures without progress add up.
    row.failures = 0
    file.stored(stored)
  }

  async function complete(file: File, upload: string): Promise<void> {
    try {
      const parts = file.etags.map((etag, n) => ({ partNumber: n + 1, etag }))
      await store.completeMultipart(file.objectKey, upload, parts)
    } catch (error) {
      // A worker completed the upload, and died before it said so.
      const isThere = error instanceof StoreError && error.code === 'NotFound'
      if (!isThere || (await store.head(file.objectKey))?.size !== file.bytes) throw error
    }
  }

  async function finish(row: AuditExportRow, lease: Lease, file: File, signal: AbortSignal): Promise<void> {
    if (file.upload) {
      if (file.buffered > 0) await storePart(row, lease, file, signal)
      await complete(file, file.upload)
    } else {
      const { bytes, entries } = file.take()
      await store.put(file.objectKey, bytes, { contentType: TYPES[row.format], signal })
      file.stored({ bytes: bytes.length, entries })
    }
    failpoint('audit-export.stored')
    const expiresAt = expiryOf(deps.clock.now())
    const { id, userId } = row
    const { objectKey, entries, bytes } = file
    const completed = await db.inTransaction({}, async (tx) => {
      if (!(await markCompleted(tx, id, lease.holder, { objectKey, entries, bytes, expiresAt }))) return false
      await insertDownload(tx, { id, userId, kind: 'audit', files: 1, bytes, expiresAt })
      await tellDownloadReady(tx, { id, userId })
      return true
    })
    failpoint('audit-export.completed')
    if (!completed) {
      // Ended meanwhile: nothing else would find the file.
      if (!(await db.read({}, (tx) => isObjectOf(tx, id, objectKey)))) await store.deleteForGood(objectKey)
      throw new Lost()
    }
    deps.onMade?.(entries)
  }

  const done = loop()
  return {
    wake: () => wakeup.wake(),
    async stop() {
      stopping.abort(new Error('the worker stops'))
      wakeup.wake()
      await done
    },
  }
}

const beginFile = (row: AuditExportRow) =>
  row.uploadId === null || row.etags.length === 0 ? newFile(row) : resumed(row)

function filterOf(row: AuditExportRow): EntryFilter {
  const filter = row.filters as unknown as EntryFilter
  return { ...filter, to: earlier(filter.to, row.until.toISOString().replace('Z', '000Z')) }
}

const TYPES = { csv: 'text/csv; charset=utf-8', jsonl: 'application/jsonl' } as const
const earlier = (a: string | undefined, b: string) => (a !== undefined && a < b ? a : b)
/** Codes, never what a store or the database wrote, which may repeat names. */
const reasonOf = (error: unknown): string => safeMessage(error).slice(0, 500)

interface File {
  objectKey: string
  upload: string | null
  etags: string[]
  /** Of the next part. */
  readonly number: number
  /** Entries behind it are missing, but for what is buffered. */
  position: Place | undefined
  entries: number
  bytes: number
  readonly buffered: number
  add(format: AuditExportRow['format'], shown: ShownEntry): void
  take(): { bytes: Buffer; entries: number }
  stored(part: { bytes: number; entries: number }): void
}

function fileOf(
  begun: Pick<File, 'objectKey' | 'upload' | 'etags' | 'position' | 'entries' | 'bytes'>,
  head: string,
): File {
  let lines: string[] = head === '' ? [] : [head]
  let buffered = Buffer.byteLength(head)
  let count = 0
  return {
    ...begun,
    get number() {
      return this.etags.length + 1
    },
    get buffered() {
      return buffered
    },
    add(format, shown) {
      const entry = lineOfEntry(shown)
      const line = format === 'csv' ? csvRow(entry) : `${JSON.stringify(entry)}\n`
      lines.push(line)
      buffered += Buffer.byteLength(line)
      count += 1
      this.position = placeOf(shown.entry)
    },
    take() {
      const taken = { bytes: Buffer.from(lines.join('')), entries: count }
      lines = []
      buffered = 0
      count = 0
      return taken
    },
    stored(part) {
      this.entries += part.entries
      this.bytes += part.bytes
    },
  }
}

/** From the beginning, in a folder of its own: a worker that is too late writes elsewhere. */
function newFile(row: AuditExportRow): File {
  const name = `audit-log-${row.createdAt.toISOString().slice(0, 10)}.${row.format}`
  const objectKey = `${downloadPrefix(row.userId, row.id)}${row.attempts + 1}-${row.failures}/${name}`
  const begun = { objectKey, upload: null, etags: [], position: undefined, entries: 0, bytes: 0 }
  return fileOf(begun, row.format === 'csv' ? CSV_HEAD : '')
}

function resumed(row: AuditExportRow): File {
  const { objectKey, uploadId, etags, positionAt, positionId, entries, bytes } = row
  if (objectKey === null) throw new Error('an upload without a key')
  if (positionAt === null || positionId === null) throw new Error('an upload without a position')
  const position = { at: positionAt, id: positionId }
  return fileOf({ objectKey, upload: uploadId, etags: [...etags], position, entries, bytes }, '')
}
