import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import * as z from 'zod'
import { mayUse, pieceScope } from '../../lib/contract/piece-scope.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { saveBody } from '../../lib/runtime/object-store/file.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { readText } from '../../lib/runtime/object-store/read-text.ts'
import { excessOf, folderBelow, type PieceFolder } from './piece-limits.ts'

/**
 * Pieces of earlier highlights of the same items, in the store: below the prefix of each item, so that they are deleted with
 * its source, and there in the scope of the highlight that made them (see `pieceScope`). Each piece is a folder named by the
 * digest of all that it depends on; `piece.json` is written last and names its files by their content, so that two jobs
 * that store the same piece at once do not mix theirs.
 */
export interface PieceCache {
  /**
   * Fills `folder` with the files of a piece that `isWhole`; false when there is none. Never throws, unless aborted.
   */
  find(prefix: string, digest: string, folder: string, isWhole: () => Promise<boolean>): Promise<boolean>
  /** Stores the files of a piece, named as in `folder`. Never throws, unless aborted. */
  keep(
    source: { cachePrefix: string; sourceKey: string },
    digest: string,
    folder: string,
    names: readonly string[],
  ): Promise<void>
}

/** Twice what a minute in three renditions takes, the longest piece. A hostile job may have stored more. */
const MAX_PIECE_BYTES = 160 * 1024 ** 2
/** An index of eight files has one kibibyte. */
const MAX_INDEX_BYTES = 4096

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
    .max(8)
    .refine((files) => files.reduce((sum, { bytes }) => sum + bytes, 0) <= MAX_PIECE_BYTES, 'are too large together'),
})
type StoredFile = z.infer<typeof StoredPiece>['files'][number]

const INDEX = 'piece.json'
/** Damaged pieces are rare, and encoding one again is cheap beside reading many. */
const MAX_TRIED = 3
/** A source has 500 pieces of at most 18 objects each; a hostile job may leave a million, for which no highlight waits. */
const MAX_LISTED = 10_000

export function openPieceCache({
  store,
  items,
  signal,
  log,
  limitBytes,
}: {
  store: ObjectStore
  /** Of the highlight. */
  items: readonly { sourceKey: string }[]
  signal: AbortSignal
  log: Log
  /** Of the pieces of one source, in all scopes; see `excessOf`. */
  limitBytes: number
}): PieceCache {
  const scope = pieceScope(items)
  const sourceKeys = items.map(({ sourceKey }) => sourceKey)

  /** The highlight is made without the cache when the store fails here. */
  async function tolerant<T>(what: string, fallback: T, work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (error) {
      signal.throwIfAborted()
      log.warn({ err: error }, what)
      return fallback
    }
  }

  async function* listed(prefix: string) {
    let count = 0
    for await (const object of store.list(prefix)) {
      yield object
      if (++count === MAX_LISTED) return
    }
  }

  const keyOf = (at: string, file: StoredFile) => `${at}${file.sha256.slice(0, 16)}-${file.name}`

  async function fetchFile(at: string, file: StoredFile, folder: string): Promise<boolean> {
    const path = join(folder, file.name)
    // The range bounds what is written to disk even where the object has grown since.
    const { info, body } = await store.get(keyOf(at, file), { start: 0, end: file.bytes - 1 }, signal)
    if (info.size !== file.bytes) {
      body.destroy()
      return false
    }
    await saveBody(body, path, signal)
    return (await sha256Of(path)) === file.sha256
  }

  /** False when the piece is damaged. */
  async function fetchPiece(at: string, folder: string): Promise<boolean> {
    const index = await readText(store, `${at}${INDEX}`, { maxBytes: MAX_INDEX_BYTES, signal })
    const { files } = StoredPiece.parse(JSON.parse(index))
    await mkdir(folder, { recursive: true })
    for (const file of files) {
      if (await fetchFile(at, file, folder)) continue
      log.warn({ piece: at }, 'a stored piece is damaged')
      return false
    }
    return true
  }

  /** By digest: the folders of the pieces of a source that this highlight may use, its own first, then the newest. */
  async function listUsable(prefix: string): Promise<Map<string, string[]>> {
    const found: { at: string; digest: string; isOwn: boolean; writtenAt: Date }[] = []
    const isUsable = memoized((folder: string) => mayUse(sourceKeys, folder))
    for await (const { key, lastModified: writtenAt } of listed(prefix)) {
      const [folder = '', digest = '', name, ...more] = key.slice(prefix.length).split('/')
      if (name !== INDEX || more.length > 0 || !isUsable(`${folder}/`)) continue
      found.push({ at: `${prefix}${folder}/${digest}/`, digest, isOwn: `${folder}/` === scope, writtenAt })
    }
    found.sort((a, b) => Number(b.isOwn) - Number(a.isOwn) || b.writtenAt.getTime() - a.writtenAt.getTime())
    const byDigest = Map.groupBy(found, ({ digest }) => digest)
    return new Map([...byDigest].map(([digest, pieces]) => [digest, pieces.map(({ at }) => at)]))
  }
  const usable = memoized((prefix: string) =>
    tolerant('stored pieces could not be listed', undefined, () => listUsable(prefix)),
  )

  async function evict(prefix: string, newest: string): Promise<void> {
    const folders = new Map<string, PieceFolder>()
    for await (const { key, size, lastModified } of listed(prefix)) {
      const name = folderBelow(prefix, key)
      const { writtenAtMs, bytes, objects } = folders.get(name) ?? { writtenAtMs: 0, bytes: 0, objects: 0 }
      const latest = Math.max(writtenAtMs, lastModified.getTime())
      folders.set(name, { name, writtenAtMs: latest, bytes: bytes + size, objects: objects + 1 })
    }
    const excess = excessOf([...folders.values()], { bytes: limitBytes, nowMs: Date.now(), newest })
    for (const name of excess) await store.deletePrefix(name)
  }

  return {
    async find(prefix, digest, folder, isWhole) {
      for (const at of ((await usable(prefix))?.get(digest) ?? []).slice(0, MAX_TRIED)) {
        const isThere = await tolerant('a stored piece could not be read', false, () => fetchPiece(at, folder))
        if (isThere && (await isWhole())) return true
        await rm(folder, { recursive: true, force: true })
      }
      return false
    },

    keep: ({ cachePrefix, sourceKey }, digest, folder, names) =>
      tolerant('a piece could not be stored for later highlights', undefined, async () => {
        const at = `${cachePrefix}${scope}${digest}/`
        const files: StoredFile[] = []
        for (const name of names) {
          const path = join(folder, name)
          const file = { name, bytes: 0, sha256: await sha256Of(path) }
          const { size } = await store.upload(path, keyOf(at, file), { contentType: 'video/mp2t', signal })
          files.push({ ...file, bytes: size })
        }
        const index = JSON.stringify({ files })
        await store.put(`${at}${INDEX}`, index, { contentType: 'application/json', size: Buffer.byteLength(index) })
        // The highlight may show the source once more.
        const pieces = await usable(cachePrefix)
        pieces?.set(digest, [at])
        // The source may have been deleted meanwhile, and its pieces with it: these must not outlive it.
        if (await store.head(sourceKey)) await evict(cachePrefix, at)
        else await store.deletePrefix(cachePrefix)
      }),
  }
}

/** Calls `work` once for each argument. */
function memoized<T>(work: (argument: string) => T): (argument: string) => T {
  const results = new Map<string, T>()
  return (argument) => {
    const known = results.get(argument)
    if (known !== undefined) return known
    const result = work(argument)
    results.set(argument, result)
    return result
  }
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}
