import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import * as z from 'zod'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'

/**
 * Pieces of earlier films of the same sources, in the store: below the prefix of each item, so that they are deleted with
 * its source. Each piece is a folder named by the digest of all that it depends on; `piece.json` is written last and
 * names its files by their content, so that two jobs that store the same piece at once do not mix theirs.
 */
export interface PieceCache {
  /** Fills `folder` with the files of a piece; false when there is no intact one. Never throws, unless aborted. */
  find(prefix: string, digest: string, folder: string): Promise<boolean>
  /** Stores the files of a piece, named as in `folder`. Never throws, unless aborted. */
  keep(
    source: { cachePrefix: string; sourceKey: string },
    digest: string,
    folder: string,
    names: readonly string[],
  ): Promise<void>
}

const StoredPiece = z.object({
  files: z
    .array(
      z.object({
        name: z.string().regex(/^[a-z0-9]+\.ts$/),
        bytes: z.int().positive(),
        sha256: z.string().regex(/^[0-9a-f]{64}$/),
      }),
    )
    .min(1)
    .max(8),
})
type StoredFile = z.infer<typeof StoredPiece>['files'][number]

const INDEX = 'piece.json'

export function openPieceCache({
  store,
  signal,
  log,
  limitBytes,
}: {
  store: ObjectStore
  signal: AbortSignal
  log: Log
  /** Of the pieces of one source; the oldest are removed above it. */
  limitBytes: number
}): PieceCache {
  /** The film is made without the cache when the store fails here. */
  async function tolerant<T>(what: string, fallback: T, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      log.warn({ err: error }, what)
      return fallback
    }
  }

  const keyOf = (at: string, file: StoredFile) => `${at}${file.sha256.slice(0, 16)}-${file.name}`

  async function fetchFile(at: string, file: StoredFile, folder: string): Promise<boolean> {
    const path = join(folder, file.name)
    const { size } = await store.download(keyOf(at, file), path, signal)
    return size === file.bytes && (await sha256Of(path)) === file.sha256
  }

  /** What `limitBytes` does not hold, piece by piece, those written first first. Never the one just written. */
  async function evict(prefix: string, newest: string): Promise<void> {
    const pieces = new Map<string, { at: number; bytes: number }>()
    for await (const { key, size, lastModified } of store.list(prefix)) {
      const digest = key.slice(prefix.length).split('/')[0] ?? ''
      const seen = pieces.get(digest) ?? { at: 0, bytes: 0 }
      pieces.set(digest, { at: Math.max(seen.at, lastModified.getTime()), bytes: seen.bytes + size })
    }
    let total = [...pieces.values()].reduce((sum, p) => sum + p.bytes, 0)
    for (const [digest, { bytes }] of [...pieces].sort(([, a], [, b]) => a.at - b.at)) {
      if (total <= limitBytes) return
      if (digest === newest) continue
      await store.deletePrefix(`${prefix}${digest}/`)
      total -= bytes
    }
  }

  return {
    find: (prefix, digest, folder) =>
      tolerant('a stored piece could not be read', false, async () => {
        const at = `${prefix}${digest}/`
        if (!(await store.head(`${at}${INDEX}`))) return false
        const { body } = await store.get(`${at}${INDEX}`, undefined, signal)
        const { files } = StoredPiece.parse(JSON.parse(await text(body)))
        await mkdir(folder, { recursive: true })
        for (const file of files) {
          if (await fetchFile(at, file, folder)) continue
          await rm(folder, { recursive: true, force: true })
          log.warn({ digest }, 'a stored piece is damaged and is made again')
          return false
        }
        return true
      }),

    keep: ({ cachePrefix, sourceKey }, digest, folder, names) =>
      tolerant('a piece could not be stored for later films', undefined, async () => {
        const at = `${cachePrefix}${digest}/`
        const files: StoredFile[] = []
        for (const name of names) {
          const path = join(folder, name)
          const file = { name, bytes: 0, sha256: await sha256Of(path) }
          const { size } = await store.upload(path, keyOf(at, file), { contentType: 'video/mp2t', signal })
          files.push({ ...file, bytes: size })
        }
        const index = JSON.stringify({ files })
        await store.put(`${at}${INDEX}`, index, { contentType: 'application/json', size: Buffer.byteLength(index) })
        // The source may have been deleted meanwhile, and its pieces with it: these must not outlive it.
        if (await store.head(sourceKey)) await evict(cachePrefix, digest)
        else await store.deletePrefix(cachePrefix)
      }),
  }
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}
