import { createWriteStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { pipeline } from 'node:stream/promises'
import { EXIT } from '../../lib/contract/job-result.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { ByteRange } from '../hls/chunks/protocol.ts'
import { TransientError } from '../runtime/failure.ts'

/** A file of the source's size that holds those of its bytes that were asked for; all others are zero. */
export interface SparseSource {
  path: string
  fetch(ranges: readonly ByteRange[]): Promise<void>
  /** Whether all its bytes are there. */
  isWhole(): boolean
}

export interface SparseSourceOptions {
  store: ObjectStore
  key: string
  bytes: number
  path: string
  signal: AbortSignal
}

export async function openSparseSource({
  store,
  key,
  bytes,
  path,
  signal,
}: SparseSourceOptions): Promise<SparseSource> {
  const handle = await open(path, 'w')
  await handle.truncate(bytes).finally(() => handle.close())
  let present: ByteRange[] = []

  async function fetchOne([start, end]: ByteRange): Promise<void> {
    const { info, body } = await store.get(key, { start, end: end - 1 }, signal)
    if (info.size !== bytes) {
      body.destroy()
      throw new TransientError(EXIT.transient, 'StoreUnavailable', `The source has ${info.size} of ${bytes} bytes`)
    }
    await pipeline(body, createWriteStream(path, { flags: 'r+', start }), { signal })
  }

  return {
    path,
    isWhole: () => missingOf([[0, bytes]], present).length === 0,
    async fetch(ranges) {
      for (const range of missingOf(ranges, present)) {
        await fetchOne(range)
        present = [...present, range]
      }
    },
  }
}

/** The parts of `wanted` that `present` does not cover, in order. Pure. */
export function missingOf(wanted: readonly ByteRange[], present: readonly ByteRange[]): ByteRange[] {
  let left = joined(wanted)
  for (const [from, to] of present) {
    left = left.flatMap(([a, b]): ByteRange[] => {
      if (to <= a || from >= b) return [[a, b]]
      return [
        [a, Math.min(b, from)],
        [Math.max(a, to), b],
      ]
    })
    left = left.filter(([a, b]) => a < b)
  }
  return left
}

function joined(ranges: readonly ByteRange[]): ByteRange[] {
  const result: ByteRange[] = []
  for (const [a, b] of ranges.filter(([from, to]) => from < to).sort(([x], [y]) => x - y)) {
    const last = result.at(-1)
    if (last && a <= last[1]) last[1] = Math.max(last[1], b)
    else result.push([a, b])
  }
  return result
}
