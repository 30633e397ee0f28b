import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { ZipFile } from 'yazl'
import { openDatabase } from '../../api/db/db.ts'
import { contentsOf } from '../../api/features/data-exports/contents.ts'
import { dataExportWorker } from '../../api/features/data-exports/worker.ts'
import { FEATURES } from '../../api/features.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import type { ObjectInfo, ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { eventually } from '../support/eventually.ts'
import { quietLog } from '../support/quiet-log.ts'

/**
 * Makes archives of files that nobody stores, in a process of its own: `node export-child.ts exporter|bare FILES BYTES
 * DATABASE`. Both read the same source, and both throw away what they make. Prints seconds, seconds of CPU and bytes of
 * memory.
 */
const [mode, fileCount = '1', fileBytes = '1', url = ''] = process.argv.slice(2)
const size = Number(fileBytes)
const CHUNK = Buffer.alloc(65_536, 'keepsake')

function source(bytes: number): Readable {
  let left = bytes
  return new Readable({
    read() {
      const chunk = left >= CHUNK.length ? CHUNK : CHUNK.subarray(0, left)
      left -= chunk.length
      this.push(chunk.length > 0 ? chunk : null)
    },
  })
}

/** Has every original, and forgets every archive. What waits for its archive is kept. */
function emptyStore(): ObjectStore {
  const staged = new Map<string, Buffer>()
  const open = new Map<string, Buffer[]>()
  const infoOf = (key: string, bytes: number): ObjectInfo => ({
    ...{ key, size: bytes, etag: '"x"', contentType: 'application/octet-stream', lastModified: new Date() },
  })
  const swallow = async (body: Readable): Promise<Buffer[]> => (await body.toArray()) as Buffer[]
  return {
    async get(key: string) {
      const found = staged.get(key)
      if (found) return { info: infoOf(key, found.length), body: Readable.from([found]) }
      return { info: infoOf(key, size), body: source(size) }
    },
    async put(key: string, body: Buffer) {
      staged.set(key, body)
      return infoOf(key, body.length)
    },
    createMultipart: async (key: string) => {
      open.set(key, [])
      return key
    },
    async putPart(key: string, _: string, partNumber: number, body: Readable, o: { size: number }) {
      const chunks = await swallow(body)
      if (!key.endsWith('.zip')) open.get(key)?.push(...chunks)
      return { partNumber, etag: '"x"', size: o.size }
    },
    async completeMultipart(key: string) {
      if (!key.endsWith('.zip')) staged.set(key, Buffer.concat(open.get(key) ?? []))
      return infoOf(key, 0)
    },
    abortMultipart: async () => {},
    deletePrefix: async () => 0,
  } as unknown as ObjectStore
}

async function exporter(): Promise<void> {
  const log = quietLog()
  const db = openDatabase({ url, role: 'keepsake_worker', statementTimeoutMs: 60_000, maxConnections: 4, log })
  const worker = dataExportWorker(
    { db, store: emptyStore(), log, clock: systemClock, counterOf: () => () => {} },
    contentsOf(FEATURES.map((feature) => feature.export)),
  )
  await eventually('the export', async () => {
    const { rows } = await db.pool.query('select state from data_exports order by created_at desc limit 1')
    return rows[0]?.state === 'completed'
  })
  await worker.stop?.()
  await db.close()
}

async function bare(): Promise<void> {
  const zip = new ZipFile()
  for (let n = 0; n < Number(fileCount); n++) {
    zip.addReadStreamLazy(`2026/2026-07/${n}.jpg`, { compress: false, size }, (use) => use(null, source(size)))
  }
  zip.end()
  for await (const _ of zip.outputStream) void _
}

const atRest = process.memoryUsage().rss
const started = performance.now()
const before = process.cpuUsage()
await (mode === 'bare' ? bare() : exporter())
const cpu = process.cpuUsage(before)
const result = {
  seconds: (performance.now() - started) / 1000,
  atRest,
  cpu: (cpu.user + cpu.system) / 1e6,
  // Not maxRSS of getrusage, which begins with that of the process that started this one.
  peak: Number(/VmHWM:\s+(\d+)/.exec(await readFile('/proc/self/status', 'utf8'))?.[1]) * 1024,
}
console.log(JSON.stringify(result))
