import { setTimeout as sleep } from 'node:timers/promises'
import { EXIT } from '../../lib/contract/job-result.ts'
import { type Complaints, FfmpegFailed, filters, runFfmpeg } from '../ffmpeg/ffmpeg.ts'
import { guardedInput } from '../ffmpeg/input.ts'
import { presentationSeconds, type Source } from '../ffmpeg/source.ts'
import { badInput, PermanentError, TransientError } from '../runtime/failure.ts'
import { passArguments } from './args.ts'
import { type EncodePass, streamNames } from './encode-pass.ts'
import type { Inspect, Publisher } from './publisher.ts'

export interface EncodePassRun {
  pass: EncodePass
  sourcePath: string
  folder: string
  publisher: Publisher
  signal: AbortSignal
  /** `fraction`: 0 to 1; `frames`: of its first rendition. */
  onProgress: (fraction: number, frames: number) => void
  /** While it holds, nothing is published. */
  isSilent?: () => boolean
  /** Milliseconds until the next look for new segments. */
  lookMs?: () => number
  /** Sees each segment before it is published. */
  inspect?: Inspect
  /** Called after every scan of the folder, when new segments may have been published. */
  onPublished?: () => Promise<void>
  /** Asked after that: whether what is published is enough, so that the pass stops where it is. */
  isEnough?: (() => boolean | Promise<boolean>) | undefined
}

export const LOOK_MS = 250
/** The reason for which a pass is stopped that has made enough. */
const ENOUGH = Symbol('enough')

/**
 * Runs one pass and publishes its segments while it runs. If the encoder or the publisher fails, the other one stops
 * too. The published playlists have no ENDLIST yet: verification comes before that. `stopped`: it made enough.
 */
export async function runEncodePass(run: EncodePassRun): Promise<Complaints & { frames: number; stopped: boolean }> {
  const { pass, publisher } = run
  await refuseMissingToneMap(pass.source)
  const stop = new AbortController()
  const signal = AbortSignal.any([run.signal, stop.signal])
  const seconds = presentationSeconds(pass.source)
  const ended = new AbortController()
  let frames = 0
  const encoding = runFfmpeg({
    args: passArguments(pass, (options) => guardedInput('upload', run.sourcePath, options), run.folder),
    signal,
    limitMs: limitFor(seconds),
    onProgress: (p) => {
      frames = p.frames
      run.onProgress(Math.min(1, (p.seconds ?? 0) / Math.max(0.1, seconds)), frames)
    },
  }).finally(() => ended.abort())
  const publishing = publishUntil(ended.signal, run.lookMs ?? (() => LOOK_MS), async () => {
    if (run.isSilent?.()) return
    await publisher.publishNew(streamNames(pass), run.inspect)
    await run.onPublished?.()
    if (await run.isEnough?.()) stop.abort(ENOUGH)
  }).catch((error: unknown) => {
    stop.abort(error)
    throw error
  })
  const [encoded, published] = await Promise.allSettled([encoding, publishing])
  run.signal.throwIfAborted()
  if (published.status === 'rejected') throw explainRefusal(published.reason, pass)
  if (encoded.status === 'fulfilled') return { ...encoded.value, frames, stopped: false }
  if (encoded.reason === ENOUGH) return { damaged: 0, endedEarly: false, tail: '', frames, stopped: true }
  throw explainPass(encoded.reason, pass)
}

/** Milliseconds; enough for the slowest node and the heaviest source. The attempt's deadline normally comes first. */
export const limitFor = (seconds: number) => Math.min(86_400, 600 + 60 * seconds) * 1000

async function publishUntil(ended: AbortSignal, lookMs: () => number, publish: () => Promise<void>): Promise<void> {
  let wasEnded = false
  while (!wasEnded) {
    await sleep(lookMs(), undefined, { signal: ended }).catch(() => undefined)
    // Read before the look: a look that began while the encoder ran may have missed the last segments.
    wasEnded = ended.aborted
    await publish()
  }
}

/** What a GPU has encoded and no player could play is a fault of the GPU, for which the CPU may take its place. */
export function explainRefusal(error: unknown, { accelerator }: Pick<EncodePass, 'accelerator'>): unknown {
  const isRefused = error instanceof TransientError && error.code === EXIT.verificationFailed
  if (accelerator !== 'gpu' || !isRefused) return error
  return new TransientError(EXIT.gpuBusy, 'GpuFailed', `The GPU encoded what cannot be played: ${error.message}`, {
    cause: error,
  })
}

/** Throws ToneMapMissing for HDR when the installed ffmpeg cannot map it. */
export async function refuseMissingToneMap({ hdr }: Pick<Source, 'hdr'>): Promise<void> {
  if (!hdr) return
  const known = await filters()
  const missing = ['zscale', 'tonemap'].filter((filter) => !known.has(filter))
  if (missing.length === 0) return
  const message = `HDR video needs the filters ${missing.join(' and ')}, which this ffmpeg was built without`
  throw new PermanentError(EXIT.encoderMissing, 'ToneMapMissing', message)
}

const UNREADABLE =
  /Invalid data found when processing input|Cannot determine format of input stream|moov atom not found/

/** ffmpeg exits with 1 for every error, so its messages decide: only messages that name bad data blame the file. */
export function explainPass(error: unknown, pass: EncodePass): unknown {
  if (!(error instanceof FfmpegFailed)) return error
  const { tail } = error.complaints
  if (pass.accelerator === 'gpu') {
    return new TransientError(EXIT.gpuBusy, 'GpuFailed', `The GPU could not encode: ${lastLine(tail)}`, {
      cause: error,
    })
  }
  return explainDecoding(error)
}

const corruptVideo = (cause: FfmpegFailed) => badInput('CorruptInput', 'The video cannot be decoded', { cause })

/** The same for a run on the CPU; `refusal` is the error that blames the file. */
export function explainDecoding(error: FfmpegFailed, refusal: (cause: FfmpegFailed) => Error = corruptVideo): Error {
  const { tail } = error.complaints
  if (UNREADABLE.test(tail)) return refusal(error)
  return new TransientError(EXIT.transient, 'EncodeFailed', `ffmpeg failed: ${lastLine(tail)}`, { cause: error })
}

const lastLine = (tail: string) => (tail.trim().split('\n').at(-1) ?? '').slice(0, 300)
