import type { Readable } from 'node:stream'
import { type CopyOptions, StoreError } from './object-store.ts'

/** So small that a reader that has to wait for its turn after each part is not taken for one that has gone. */
const PART_BYTES = 8 * 1024 ** 2

/** The bytes of an object, read no faster than `onPart` allows, which is asked before each 8 MiB. */
export async function* inParts(
  { size, body }: { size: number; body: Readable },
  { signal, onPart }: CopyOptions,
): AsyncGenerator<Buffer, void, void> {
  let [asked, read] = [0, 0]
  for await (const chunk of storedBytes(body, signal)) {
    read += chunk.length
    while (asked < read) {
      const part = Math.max(Math.min(PART_BYTES, size - asked), read - asked)
      asked += part
      await onPart?.(part)
    }
    yield chunk
  }
}

/** A connection that breaks is the store's failure, and not one of the work that reads. */
async function* storedBytes(body: Readable, signal: AbortSignal | undefined): AsyncGenerator<Buffer, void, void> {
  try {
    yield* body as AsyncIterable<Buffer>
  } catch (error) {
    signal?.throwIfAborted()
    if (error instanceof StoreError) throw error
    throw new StoreError('Unavailable', `The object store broke off: ${(error as Error).message}`, { cause: error })
  }
}
