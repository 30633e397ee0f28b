import { createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { MAX_BYTES, tooLarge } from './commands.ts'

/**
 * Calls `use` with the path of a file that has what was read, and removes the file. A pod has no shell and no `tar`, so
 * `kubectl exec -i` is the way for a file into it; ffprobe needs to seek in it.
 */
export async function withInput<T>(
  input: Readable,
  use: (path: string) => Promise<T>,
  maxBytes = MAX_BYTES,
): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-track-'))
  try {
    const path = join(folder, 'audio')
    await pipeline(input, (chunks) => bounded(chunks, maxBytes), createWriteStream(path))
    return await use(path)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** The folder for temporary files of a pod is small. */
async function* bounded(chunks: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const chunk of chunks) {
    bytes += chunk.length
    if (bytes > maxBytes) throw tooLarge()
    yield chunk
  }
}
