import { Readable } from 'node:stream'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { downloadPrefix } from '../../../lib/contract/object-keys.ts'
import type { Clock } from '../../../lib/runtime/clock.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import { safeMessage } from '../../../lib/runtime/log-error.ts'
import { eitherTier } from '../../../lib/runtime/object-store/either-tier.ts'
import { type ObjectStore, StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../db/db.ts'
import { makeWakeup } from '../../worker/wakeup.ts'
import { expiryOf } from '../downloads/downloads.ts'
import { insertDownload, removeDownloads } from '../downloads/queries.ts'
import { tellDownloadReady } from '../notifications/download-ready.ts'
import { type ArchiveEntry, archiveOf } from './archive.ts'
import { contentOf, type ExportContents, ExportRefused, type PlannedFile } from './content.ts'
import { type Staged, stageDocument } from './document.ts'
import { indexPage } from './pages.ts'
import { type ArchiveLimits, archiveBytes, archiveName, LIMITS, MAX_FAILURES, retrySeconds } from './plan.ts'
import { planBatch, planFilm } from './plan-files.ts'
import {
  addPeople,
  addToParts,
  type ClaimedPart,
  claimPart,
  claimPlan,
  correctEntry,
  type DataExportEntryRow,
  type DataExportRow,
  dropEntries,
  extendPart,
  findLastEntry,
  findLastFilm,
  holdPart,
  holdPlan,
  isMadeAs,
  listEntries,
  listParts,
  markCompleted,
  markFailed,
  markMade,
  markPlanned,
  markRefused,
  postponePart,
  postponePlan,
  releasePart,
  releasePlan,
  remakePart,
  secondsToWork,
} from './queries.ts'
import { uploadInPieces } from './upload.ts'

export interface ExporterDeps {
  db: Database
  store: ObjectStore
  log: Log
  clock: Clock
  contents: ExportContents
  onMade?(bytes: number): void
  onFailed?(step: 'plan' | 'part'): void
  onMissing?(): void
}

export interface ExporterOptions {
  /** The longest time without a look at the database. */
  idleMs?: number
  leaseSeconds?: number
  /** Files of one transaction of the plan, and of one look at what was deleted. */
  batch?: number
  limits?: ArchiveLimits
}

export interface Exporter {
  wake(): void
  /** Gives back what is under way, and resolves when nothing is written any more. */
  stop(): Promise<void>
}

/** Objects that are looked at together when one is missing. */
const LOOKS_AT_ONCE = 16

/** The part has changed: a file of it is gone, or has another length. It is made again, at once. */
class PartChanged extends Error {}
/** The part is not this worker's any more, or the export has ended. */
class PartLost extends Error {}
/** The part may have been recorded: then its object is the archive. */
class Unsettled extends Error {}

/**
 * Makes exports in any number of workers, each one part at a time. A part is one multipart upload: what dies with its
 * worker is that part, which another one makes anew in a folder of its own.
 */
export function startExporter(deps: ExporterDeps, options: ExporterOptions = {}): Exporter {
  const { db, log } = deps
  const { idleMs = 15_000, leaseSeconds = 60, batch = 500, limits = LIMITS } = options
  const wakeup = makeWakeup()
  const stopping = new AbortController()
  let outages = 0

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        const worked = (await planNext()) || (await makeNext())
        outages = 0
        if (!worked) await wakeup.wait(await untilNext())
      } catch (error) {
        outages += 1
        log.warn({ err: error, outages }, 'could not look for exports')
        await wakeup.wait(Math.min(idleMs, 100 * 2 ** Math.min(outages, 10)))
      }
    }
  }

  async function untilNext(): Promise<number> {
    const seconds = await db.read({}, (tx) => secondsToWork(tx))
    return Math.min(idleMs, Math.max(20, (seconds ?? Number.POSITIVE_INFINITY) * 1000 + 5))
  }

  async function planNext(): Promise<boolean> {
    const lease = { holder: newUuid(), seconds: leaseSeconds }
    const of = await db.inTransaction({}, (tx) => claimPlan(tx, lease))
    if (!of) return false
    try {
      await plan(of, lease)
    } catch (error) {
      if (error instanceof PartLost) return true
      if (error instanceof ExportRefused) await refuse(of, error)
      else if (stopping.signal.aborted) await db.inTransaction({}, (tx) => releasePlan(tx, of.id, lease.holder))
      else await failPlan(of, lease.holder, error)
    }
    return true
  }

  async function failPlan(of: DataExportRow, holder: Uuid, error: unknown): Promise<void> {
    const about = { export: of.id, attempt: of.attempts }
    log.warn({ ...about, err: error }, 'could not plan an export')
    deps.onFailed?.('plan')
    const why = reasonOf(error)
    await db.inTransaction({}, async (tx) => {
      if (of.attempts >= MAX_FAILURES) await markFailed(tx, of.id, why)
      else await postponePlan(tx, of.id, { holder, error: why, seconds: retrySeconds(of.attempts) })
    })
  }

  /** Each batch is one transaction, after which another worker can go on. */
  async function plan(of: DataExportRow, lease: { holder: Uuid; seconds: number }): Promise<void> {
    // A worker that died with every attempt has not said so.
    if (of.attempts > MAX_FAILURES) throw new Error('the worker died each time')
    const content = contentOf(deps.contents, of)
    for (let hasMore = true; hasMore; ) {
      stopping.signal.throwIfAborted()
      hasMore = await db.inTransaction({}, async (tx) => {
        const held = await holdPlan(tx, of.id, lease)
        if (!held) throw new PartLost('the export has ended')
        const after = await findLastEntry(tx, of.id)
        const found = await content.files.list(tx, { of, after, limit: batch })
        await planBatch(tx, held, found, limits)
        await addPeople(tx, of, found)
        return found.length === batch
      })
      failpoint('export.batch-planned')
    }
    await planFilms(of, lease)
    await db.inTransaction({}, async (tx) => {
      if (!(await holdPlan(tx, of.id, lease))) throw new PartLost('the export has ended')
      await content.check(tx, of)
      await addToParts(tx, of, [{ number: 1, files: 0, bytes: 0 }])
      await markPlanned(tx, of.id)
    })
    failpoint('export.planned')
  }

  /** One transaction for each film. */
  async function planFilms(of: DataExportRow, lease: { holder: Uuid; seconds: number }): Promise<void> {
    const { nextFilm } = contentOf(deps.contents, of)
    if (!nextFilm) return
    for (let after = await db.read({}, (tx) => findLastFilm(tx, of.id)); ; ) {
      stopping.signal.throwIfAborted()
      const last = after
      const film = await db.read({}, (tx) => nextFilm(tx, of, last))
      if (!film) return
      const files = await filesBelow(film.prefix)
      await db.inTransaction({}, async (tx) => {
        const held = await holdPlan(tx, of.id, lease)
        if (!held) throw new PartLost('the export has ended')
        await planFilm(tx, held, { film, files }, limits)
        await addPeople(tx, of, [film])
      })
      failpoint('export.film-planned')
      after = film.highlightId
    }
  }

  async function filesBelow(prefix: string): Promise<{ name: string; bytes: number }[]> {
    const files: { name: string; bytes: number }[] = []
    for await (const { key, size } of deps.store.list(prefix)) {
      const name = key.slice(prefix.length)
      // Of use to the program alone.
      if (name !== 'manifest.json') files.push({ name, bytes: size })
    }
    return files
  }

  async function makeNext(): Promise<boolean> {
    const lease = { holder: newUuid(), seconds: leaseSeconds }
    const claimed = await db.inTransaction({}, (tx) => claimPart(tx, lease))
    if (!claimed) return false
    failpoint('export.part-claimed')
    const { attempts, failures } = claimed.part
    try {
      if (failures > MAX_FAILURES) throw new Error('the worker died each time')
      await makePart(claimed, lease)
    } catch (error) {
      await discard(folderOf(claimed, attempts), error)
      await giveBack(claimed, lease.holder, error)
    }
    return true
  }

  /** What is left is deleted by the next attempt. */
  async function discard(folder: string, error: unknown): Promise<void> {
    if (!(error instanceof Unsettled)) await deps.store.deletePrefix(folder).catch(() => {})
  }

  async function giveBack(claimed: ClaimedPart, holder: Uuid, error: unknown): Promise<void> {
    if (error instanceof PartLost) return
    if (error instanceof ExportRefused) await refuse(claimed.of, error)
    else if (stopping.signal.aborted || error instanceof PartChanged) {
      await db.inTransaction({}, (tx) => releasePart(tx, claimed.part, holder))
    } else await failPart(claimed, holder, error)
  }

  /** The export ends for good, with the reason; parts that are made go. */
  const refuse = (of: DataExportRow, { failure }: ExportRefused): Promise<void> =>
    db.inTransaction({}, async (tx) => {
      if (await markRefused(tx, of.id, failure)) await removeDownloads(tx, [of])
    })

  async function failPart({ part, of }: ClaimedPart, holder: Uuid, error: unknown): Promise<void> {
    log.warn({ export: of.id, part: part.number, attempt: part.attempts, err: error }, 'could not make a part')
    deps.onFailed?.('part')
    const why = reasonOf(error)
    await db.inTransaction({}, async (tx) => {
      await postponePart(tx, part, { holder, error: why, seconds: retrySeconds(part.failures) })
      if (part.failures >= MAX_FAILURES) await markFailed(tx, of.id, why)
    })
  }

  async function makePart(claimed: ClaimedPart, lease: { holder: Uuid; seconds: number }): Promise<void> {
    const { part, of } = claimed
    const sight = await db.read({}, (tx) => contentOf(deps.contents, of).check(tx, of))
    // What workers before left: objects, and uploads that were not completed.
    // One of them may still write there: it lost its lease with this claim, so it can commit nothing, and what it adds goes
    // with the prefix of the export.
    for (let n = 1; n < part.attempts; n++) await deps.store.deletePrefix(folderOf(claimed, n))
    const lost = new AbortController()
    const signal = AbortSignal.any([stopping.signal, lost.signal])
    let done = 0
    const beat = async () => {
      const isMine = await db.inTransaction({}, (tx) => extendPart(tx, part, lease, done))
      if (!isMine) lost.abort(new PartLost('the part is another worker’s, or the export has ended'))
    }
    const timer = setInterval(
      () => void beat().catch((error: unknown) => log.warn({ err: error, export: of.id }, 'could not extend a lease')),
      (leaseSeconds * 1000) / 4,
    )
    try {
      const made = await archivePart(claimed, signal, (bytes) => {
        done = bytes
      })
      failpoint('export.uploaded')
      await commit(claimed, lease.holder, { ...made, sight })
      failpoint('export.committed')
      deps.onMade?.(made.bytes)
    } catch (error) {
      // The reason of the abort says more than what it broke.
      throw lost.signal.aborted && !(error instanceof Unsettled) ? lost.signal.reason : error
    } finally {
      clearInterval(timer)
    }
  }

  async function archivePart(
    claimed: ClaimedPart,
    signal: AbortSignal,
    onSent: (bytes: number) => void,
  ): Promise<{ key: string; bytes: number }> {
    const { part, of, parts } = claimed
    const content = contentOf(deps.contents, of)
    const words = content.words(of)
    const entries = await db.read({}, (tx) => listEntries(tx, part))
    await dropDeleted(claimed, entries)
    const folder = folderOf(claimed, part.attempts)
    const counts = await db.read({}, (tx) => listParts(tx, [of.id]))
    const archives = counts.map(({ number, files }) => ({
      name: archiveName(of.createdAt, number, parts),
      files,
    }))
    const staging = `${folder}staging/`
    const document =
      part.number === 1
        ? await stageDocument({ db, store: deps.store, content }, { of, archives, words, prefix: staging, signal })
        : { files: [], sections: undefined }
    const index = Buffer.from(
      indexPage({
        words,
        document: content.document,
        archives,
        number: part.number,
        // Of a film, the first playlist stands for all of its files.
        files: entries.filter(({ mediaId, highlightId }) => highlightId === null || highlightId === (mediaId as Uuid)),
        ...(document.sections && { sections: document.sections }),
      }),
    )
    const pieces: ArchiveEntry[] = [
      { path: 'index.html', bytes: index.length, at: of.createdAt, open: async () => readableOf(index) },
      ...document.files.map((file) => stagedEntry(file, of.createdAt, signal)),
      ...entries.map((_, n) => originalEntry(claimed, { entries, n }, signal)),
    ]
    const key = `${folder}${archives[part.number - 1]?.name}`
    const body = archiveOf(pieces)
    const bytes = await uploadInPieces(deps.store, key, body as AsyncIterable<Buffer>, {
      contentType: 'application/zip',
      signal,
      onSent,
    })
    const expected = archiveBytes(pieces)
    if (bytes !== expected) throw new Error(`an archive has ${bytes} bytes instead of ${expected}`)
    if (part.number === 1) await deps.store.deletePrefix(staging)
    return { key, bytes }
  }

  const stagedEntry = ({ path, key, bytes }: Staged, at: Date, signal: AbortSignal): ArchiveEntry => ({
    path,
    bytes,
    at,
    open: async () => (await deps.store.get(key, undefined, signal)).body,
  })

  /** Looks ahead: what was deleted since the last look makes the part begin again, without it. */
  function originalEntry(
    claimed: ClaimedPart,
    { entries, n }: { entries: readonly DataExportEntryRow[]; n: number },
    signal: AbortSignal,
  ): ArchiveEntry {
    const { path, bytes, takenAt } = entries[n] as DataExportEntryRow
    return {
      path,
      bytes,
      at: takenAt,
      async open() {
        if (n % batch === 0) await requireKept(claimed, entries.slice(n, n + batch))
        failpoint('export.entry')
        return openOriginal(claimed, { entries, n }, signal)
      },
    }
  }

  async function openOriginal(
    claimed: ClaimedPart,
    { entries, n }: { entries: readonly DataExportEntryRow[]; n: number },
    signal: AbortSignal,
  ): Promise<Readable> {
    const { part } = claimed
    const entry = entries[n] as DataExportEntryRow
    const { mediaId, bytes } = entry
    try {
      const { info, body } = await getOriginal(entry, signal)
      if (info.size === bytes) return body
      body.destroy()
      await db.inTransaction({}, (tx) => correctEntry(tx, part, mediaId, info.size))
      throw new PartChanged('an original has another length')
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'NotFound')) throw error
      await dropMissing(claimed, entries.slice(n))
      throw new PartChanged('an original is gone')
    }
  }

  /** Once more where it has moved to another tier since its key was read. */
  async function getOriginal(
    entry: DataExportEntryRow,
    signal: AbortSignal,
    before?: string,
  ): ReturnType<ObjectStore['get']> {
    const key = (await keysOf([entry])).get(entry.mediaId)
    if (key === undefined || key === before) throw new StoreError('NotFound', 'the original is gone')
    return eitherTier(deps.store)
      .get(key, undefined, signal)
      .catch((error: unknown) => {
        if (error instanceof StoreError && error.code === 'NotFound') return getOriginal(entry, signal, key)
        throw error
      })
  }

  /**
   * Deleted meanwhile, or lost: the export of everything else must not fail for it. Looks at all that is left: a part that
   * began again for each one would never end where a folder of the store was lost.
   */
  async function dropMissing({ part, of }: ClaimedPart, entries: readonly DataExportEntryRow[]): Promise<void> {
    for (let from = 0; from < entries.length; from += LOOKS_AT_ONCE) {
      const some = entries.slice(from, from + LOOKS_AT_ONCE)
      const keys = await keysOf(some)
      const there = await Promise.all(
        some.map(async ({ mediaId }) => {
          const key = keys.get(mediaId)
          return key === undefined ? undefined : eitherTier(deps.store).head(key)
        }),
      )
      // The first is dropped even if it is there by now: a store that says both would have the part begin for ever.
      const gone = some.filter((_, i) => there[i] === undefined || from + i === 0)
      if (gone.length === 0) continue
      for (const mediaId of await keptOf(of, gone)) {
        deps.onMissing?.()
        log.error({ export: of.id, media: mediaId }, 'an original is missing in the object store')
      }
      const films = new Set(gone.map(({ highlightId }) => highlightId))
      films.delete(null)
      await db.inTransaction({}, async (tx) => {
        // A film plays only as a whole.
        const ofFilms = films.size > 0 ? await listEntries(tx, part) : []
        const ids = [...gone, ...ofFilms.filter(({ highlightId }) => films.has(highlightId))].map((e) => e.mediaId)
        await dropEntries(tx, part, ids)
      })
    }
  }

  /** Where the files are now. Originals move between tiers; those that are gone have no key. */
  async function keysOf(entries: readonly DataExportEntryRow[]): Promise<Map<Uuid, string>> {
    const originals = entries.flatMap(({ mediaId, objectKey }) => (objectKey === null ? [mediaId] : []))
    const keys = await db.read({}, (tx) => deps.contents.own.files.findKeys(tx, originals))
    for (const { mediaId, objectKey } of entries) if (objectKey !== null) keys.set(mediaId, objectKey)
    return keys
  }
  const keptOf = (of: DataExportRow, files: readonly PlannedFile[]): Promise<Uuid[]> =>
    db.read({}, (tx) => contentOf(deps.contents, of).files.findKept(tx, of, files))

  async function requireKept({ part, of }: ClaimedPart, entries: readonly DataExportEntryRow[]): Promise<void> {
    const ids = entries.map(({ mediaId }) => mediaId)
    const kept = new Set(await keptOf(of, entries))
    const gone = ids.filter((id) => !kept.has(id))
    if (gone.length === 0) return
    await db.inTransaction({}, (tx) => dropEntries(tx, part, gone))
    throw new PartChanged(`${gone.length} files were deleted`)
  }

  async function dropDeleted(claimed: ClaimedPart, entries: readonly DataExportEntryRow[]): Promise<void> {
    for (let n = 0; n < entries.length; n += batch) await requireKept(claimed, entries.slice(n, n + batch))
  }

  /** The same for the parts that were made before the last one, hours ago perhaps: they are made again. */
  async function dropFromOthers(claimed: ClaimedPart): Promise<void> {
    const { part, of, parts } = claimed
    let changed = 0
    for (let number = 2; number <= parts; number++) {
      const other = { exportId: part.exportId, number }
      const entries = await db.read({}, (tx) => listEntries(tx, other))
      const gone: Uuid[] = []
      for (let n = 0; n < entries.length; n += batch) {
        const some = entries.slice(n, n + batch)
        const kept = new Set(await keptOf(of, some))
        gone.push(...some.flatMap(({ mediaId }) => (kept.has(mediaId) ? [] : [mediaId])))
      }
      if (gone.length === 0) continue
      await db.inTransaction({}, async (tx) => {
        await dropEntries(tx, other, gone)
        await remakePart(tx, other)
      })
      changed += 1
    }
    if (changed > 0) throw new PartChanged(`${changed} of the other parts changed`)
  }

  /** With part 1, which is the last, the export is completed, and its person told. */
  async function commit(
    claimed: ClaimedPart,
    holder: Uuid,
    { sight, ...made }: { key: string; bytes: number; sight: string },
  ): Promise<void> {
    const { part } = claimed
    const entries = await db.read({}, (tx) => listEntries(tx, part))
    // The last look: what was deleted while the archive was made is not handed out.
    await dropDeleted(claimed, entries)
    if (part.number === 1) await dropFromOthers(claimed)
    const record = db.inTransaction({}, async (tx) => {
      const of = await holdPart(tx, part, holder)
      if (!of) throw new PartLost('the part is another worker’s, or the export has ended')
      await markMade(tx, part, made)
      const now = await contentOf(deps.contents, of).check(tx, of)
      if (part.number !== 1) return
      // Its records were read before its originals.
      if (now !== sight) throw new PartChanged('the person sees something else by now')
      const expiresAt = expiryOf(deps.clock.now())
      const { files, bytes } = await markCompleted(tx, of.id, expiresAt)
      await insertDownload(tx, {
        id: of.id,
        userId: of.userId,
        kind: contentOf(deps.contents, of).kind,
        files,
        bytes,
        expiresAt,
      })
      await tellDownloadReady(tx, of)
    })
    await record.catch(async (error: unknown) => {
      if (error instanceof PartLost) throw error
      // The connection may have broken after the database had committed, or while it was committing.
      const isRecorded = await db
        .inTransaction({}, (tx) => isMadeAs(tx, part, made.key))
        .catch((cause: unknown) => Promise.reject(new Unsettled('could not record a part', { cause })))
      if (!isRecorded) throw error
    })
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

const folderOf = ({ part, of }: Pick<ClaimedPart, 'part' | 'of'>, attempt: number) =>
  `${downloadPrefix(of.userId, of.id)}${part.number}-${attempt}/`

const readableOf = (bytes: Buffer): Readable => Readable.from([bytes])

/** Codes, never what a store or the database wrote, which may repeat names. */
const reasonOf = (error: unknown): string => safeMessage(error).slice(0, 500)
