import { extname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { EXIT } from '../../lib/contract/job-result.ts'
import { TransientError } from '../runtime/failure.ts'
import { corrupt, type ImageHeader, tooLarge } from './header.ts'

/** The decoder needs about 12 bytes a pixel and several seconds for 12 megapixels. */
const MAX_PIXELS = 50_000_000
const LIMIT_MS = 120_000

export interface LibheifRun {
  folder: string
  header: ImageHeader
  from: string
  to: string
  signal: AbortSignal
}

/** What the worker answers. */
export type LibheifAnswer = { ok: true } | { ok: false; message: string }

/**
 * Decodes a HEIC with libheif compiled to WebAssembly, where vips was built without HEIF. Decoding is synchronous, so it
 * runs in a thread, which is ended when it takes too long.
 */
export async function decodeWithLibheif({ folder, header, from, to, signal }: LibheifRun): Promise<void> {
  if (header.width * header.height > MAX_PIXELS)
    throw tooLarge('The image is too large for the decoder of this machine')
  const worker = new Worker(new URL(`./libheif-worker${extname(import.meta.url)}`, import.meta.url), {
    workerData: { from: join(folder, from), to: join(folder, to) },
    // As for the decoders that run as processes.
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: 512 },
  })
  const late = AbortSignal.timeout(LIMIT_MS)
  const stop = AbortSignal.any([signal, late])
  try {
    const answer = await new Promise<LibheifAnswer>((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', (cause) => reject(new TransientError(EXIT.transient, 'Killed', 'libheif failed', { cause })))
      stop.addEventListener('abort', () =>
        reject(signal.aborted ? signal.reason : tooLarge('The image takes too long')),
      )
    })
    if (!answer.ok) throw corrupt('The image cannot be decoded')
  } finally {
    await worker.terminate()
  }
}
