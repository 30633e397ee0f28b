import { EXIT } from '../../lib/contract/job-result.ts'
import { PermanentError } from '../failure.ts'
import { capabilities, FfmpegFailed, runFfmpeg } from '../ffmpeg.ts'

export interface Accelerator {
  kind: 'gpu' | 'cpu'
  /** Shown in the resource's status; says why it is not the other one. */
  reason: string
}

/** Longer than any driver takes to start; a hanging one must not hold the job. */
const LIMIT_MS = 30_000

/**
 * Decides what encodes, by encoding a tenth of a second: that ffmpeg lists an encoder proves nothing about the node.
 * Throws EncoderMissing (13) when a GPU is demanded and cannot encode, or when x264 itself is missing.
 */
export async function chooseAccelerator(wanted: 'auto' | 'gpu' | 'cpu', signal: AbortSignal): Promise<Accelerator> {
  if (wanted === 'cpu') return onCpu('as specified')
  const obstacle = await tryNvenc(signal)
  if (obstacle === undefined) return { kind: 'gpu', reason: 'NVENC' }
  const reason = `no NVENC on this node: ${obstacle}`.slice(0, 256)
  if (wanted === 'gpu') throw new PermanentError(EXIT.encoderMissing, 'EncoderMissing', reason)
  return onCpu(reason)
}

async function onCpu(reason: string): Promise<Accelerator> {
  const { encoders } = await capabilities()
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
