import { EXIT } from '../../lib/contract/job-result.ts'
import { PermanentError } from '../runtime/failure.ts'
import { FfmpegFailed, installed, runFfmpeg } from './ffmpeg.ts'

export interface Accelerator {
  kind: 'gpu' | 'cpu'
  /** Shown in the resource's status; explains the choice. */
  reason: string
}

/** Longer than any driver takes to start; a hanging driver must not block the job. */
const LIMIT_MS = 30_000

/**
 * Chooses the accelerator by encoding a tenth of a second of test picture: ffmpeg lists NVENC also on nodes without a
 * GPU. Throws EncoderMissing (13) when a GPU is required and cannot encode, or when x264 itself is missing.
 */
export async function chooseAccelerator(wanted: 'auto' | 'gpu' | 'cpu', signal: AbortSignal): Promise<Accelerator> {
  if (wanted === 'cpu') return onCpu('as specified', signal)
  const obstacle = await tryNvenc(signal)
  if (obstacle === undefined) return { kind: 'gpu', reason: 'NVENC' }
  const reason = `no NVENC on this node: ${obstacle}`.slice(0, 256)
  if (wanted === 'gpu') throw new PermanentError(EXIT.encoderMissing, 'EncoderMissing', reason)
  return onCpu(reason, signal)
}

async function onCpu(reason: string, signal: AbortSignal): Promise<Accelerator> {
  const { encoders } = await installed(signal)
  for (const encoder of ['libx264', 'aac']) {
    if (encoders.has(encoder)) continue
    throw new PermanentError(EXIT.encoderMissing, 'EncoderMissing', `This ffmpeg was built without ${encoder}`)
  }
  return { kind: 'cpu', reason }
}

async function tryNvenc(signal: AbortSignal): Promise<string | undefined> {
  try {
    await runFfmpeg({
      args: ['-f', 'lavfi', '-i', 'testsrc2=d=0.1:s=256x256', '-c:v', 'h264_nvenc', '-f', 'null', '-'],
      signal,
      limitMs: LIMIT_MS,
    })
    return undefined
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof FfmpegFailed) return firstComplaint(error.complaints.tail)
    throw error
  }
}

/** `[h264_nvenc @ 0x5580] [error] Cannot load libcuda.so.1` → `Cannot load libcuda.so.1`. */
const firstComplaint = (tail: string): string =>
  (tail.split('\n').find((line) => line.includes('[error]')) ?? tail).replace(/^(\[[^\]]*\]\s*)+/, '').slice(0, 160)
