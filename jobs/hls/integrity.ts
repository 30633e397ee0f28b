import type { Complaints } from '../ffmpeg/ffmpeg.ts'
import type { ProbedSource } from '../ffmpeg/probe.ts'
import { toNumber } from '../ffmpeg/rational.ts'
import { badInput } from '../runtime/failure.ts'
import { promisedFrames } from './encode-pass.ts'
import type { Rendition } from './ladder.ts'

/** The share of damaged frames that viewers do not notice; above it the video is refused. */
const TOLERABLE_DAMAGE = 0.01

/**
 * Refuses a source whose decoded length differs from what its container declares. ffmpeg conceals errors and exits 0 on
 * half a file, so its exit code does not prove that the file is whole. Pure.
 */
export function refuseBroken(
  source: ProbedSource,
  complaints: Complaints,
  made: { rendition: Rendition; frames: number },
): void {
  const { rendition, frames } = made
  const promised = promisedFrames(source, rendition)
  const missing = promised - frames
  const fps = toNumber(rendition.frameRate)
  // Containers round, and the duration of the last frame is often wrong.
  const slack = Math.max(3, 0.3 * fps, 0.001 * promised)
  if (missing > slack || (complaints.endedEarly && missing > 2)) {
    const [has, should] = [frames / fps, promised / fps]
    throw badInput('Truncated', `Only ${has.toFixed(1)} of ${should.toFixed(1)} seconds can be decoded`)
  }
  if (missing < -slack) throw badInput('CorruptInput', 'The video is longer than its container says')
  if (complaints.damaged > Math.max(2, TOLERABLE_DAMAGE * promised * rendition.step)) {
    throw badInput('CorruptInput', `${complaints.damaged} frames are damaged`)
  }
}
