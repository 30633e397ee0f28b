import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { EXIT } from '../../lib/contract/job-result.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { download } from '../runtime/download.ts'
import { TransientError } from '../runtime/failure.ts'

export interface SourceFile {
  /** Holds the file as `source`; further files may be written there. */
  folder: string
  path: string
  etag: string
}

export interface Sources {
  /**
   * The file of a source, downloaded unless it is still on disk. It stays until all that use it have ended. Throws a
   * TransientError (SourceChanged) when it is no longer what was downloaded first: the highlight would show both.
   */
  use<T>(key: string, maxBytes: number, work: (file: SourceFile) => Promise<T>): Promise<T>
}

interface Kept extends SourceFile {
  bytes: number
  users: number
}

/**
 * Sources on disk, at most `budgetBytes` of them besides those in use: thirty videos may be larger than the node's disk.
 * The one that was not used for the longest time is removed first, and downloaded again when it is needed again.
 */
export function openSources({
  store,
  folder,
  budgetBytes,
  signal,
}: {
  store: ObjectStore
  folder: string
  budgetBytes: number
  signal: AbortSignal
}): Sources {
  /** In order of their last use. */
  const kept = new Map<string, Kept>()
  const etags = new Map<string, string>()
  let count = 0

  async function fetched(key: string, maxBytes: number): Promise<Kept> {
    const own = join(folder, `source-${count++}`)
    await mkdir(own, { recursive: true })
    const path = join(own, 'source')
    const { etag, size } = await download(store, key, path, { maxBytes, signal })
    if (etag !== (etags.get(key) ?? etag)) {
      throw new TransientError(EXIT.transient, 'SourceChanged', 'The uploaded file was replaced while it was in use')
    }
    etags.set(key, etag)
    return { folder: own, path, etag, bytes: size, users: 0 }
  }

  async function makeRoom(): Promise<void> {
    let bytes = [...kept.values()].reduce((sum, k) => sum + k.bytes, 0)
    for (const [key, source] of kept) {
      if (bytes <= budgetBytes) return
      if (source.users > 0) continue
      kept.delete(key)
      bytes -= source.bytes
      await rm(source.folder, { recursive: true, force: true })
    }
  }

  return {
    async use(key, maxBytes, work) {
      const source = kept.get(key) ?? (await fetched(key, maxBytes))
      kept.delete(key)
      kept.set(key, source)
      source.users += 1
      try {
        await makeRoom()
        return await work(source)
      } finally {
        source.users -= 1
        await makeRoom()
      }
    },
  }
}
