import { randomUUID } from 'node:crypto'
import { type FileHandle, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { type Body, chunksOf } from './http.ts'
import type { Release } from './object-store.ts'
import { asStoreError } from './s3-http.ts'

const PREFIX = 'keepsake-part-'
const PIECE = 64 * 1024

/** A file that buffers one part of a body, because S3 requires the length of a part before its first byte. */
export interface Spill {
  /** Yields the length of each part; the file holds that part until the caller requests the next one. */
  partsOf(body: Body, partSize: number, release: Release | undefined): AsyncGenerator<number, void, void>
  /** The first `length` bytes of the file; may be called again for a retry. */
  content(length: number): Readable
  close(): Promise<void>
}

/**
 * Unlinks the file as soon as it is open, so that the kernel removes it when this process ends, even when killed.
 * Failures of the disk are StoreErrors; errors of the body are rethrown unchanged.
 */
export async function openSpill(folder: string): Promise<Spill> {
  const path = join(folder, PREFIX + randomUUID())
  const handle = await onDisk(open(path, 'wx+', 0o600))
  await rm(path, { force: true }).catch(async (error: unknown) => {
    await handle.close()
    throw asStoreError(error)
  })
  return {
    async *partsOf(body, partSize, release) {
      let filled = 0
      for await (const chunk of chunksOf(body)) {
        for (let at = 0; at < chunk.length; ) {
          const length = Math.min(chunk.length - at, partSize - filled)
          const { bytesWritten } = await onDisk(handle.write(chunk, at, length, filled))
          at += bytesWritten
          filled += bytesWritten
          if (filled < partSize) continue
          yield filled
          filled = 0
        }
        release?.(chunk)
      }
      if (filled > 0) yield filled
    },
    content: (length) => Readable.from(pieces(handle, length), { objectMode: false }),
    close: () => handle.close(),
  }
}

async function* pieces(handle: FileHandle, length: number): AsyncGenerator<Buffer, void, void> {
  for (let at = 0; at < length; ) {
    const piece = Buffer.allocUnsafeSlow(Math.min(PIECE, length - at))
    const { bytesRead } = await onDisk(handle.read(piece, 0, piece.length, at))
    if (bytesRead === 0) throw new Error('a part on disk is shorter than the bytes written')
    yield piece.subarray(0, bytesRead)
    at += bytesRead
  }
}

/** Removes the empty files of processes that were killed between open and unlink. */
export async function removeLeftSpills(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (name.startsWith(PREFIX)) await rm(join(folder, name), { force: true })
  }
}

const onDisk = <T>(work: Promise<T>): Promise<T> =>
  work.catch((error: unknown) => {
    throw asStoreError(error)
  })
