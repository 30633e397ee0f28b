import type { ProbedSource } from '../ffmpeg/probe.ts'
import { timingFault } from './copied-top.ts'
import type { Rendition } from './ladder.ts'

/**
 * Whether the HEVC of an upload can be served as it is, beside the renditions that are encoded. Pure. What only a look at
 * every packet can tell is decided by `openCopyScan`.
 */

const PROFILES = ['Main', 'Main 10']
/** Thirty times the level: 5.1, which 4K needs at 60 frames a second. */
const MAX_LEVEL = 153
const PIXELS = ['yuv420p', 'yuv420p10le']

/** Why the stream cannot be copied, as the container says; undefined: its packets decide. `own`: it, as a rendition. */
export function hevcFault(source: ProbedSource, own: Rendition): string | undefined {
  const { video, stream, hdr, rotation } = source
  const { profile, level, hasSquarePixels, isMirrored } = stream
  const faults: [boolean, string][] = [
    [video.codec !== 'hevc', `it is ${video.codec}`],
    // Safari shows it as it lies (immich-app/immich#30010).
    [rotation !== 0, 'it is rotated'],
    [isMirrored, 'it is mirrored'],
    [!PROFILES.includes(profile ?? ''), `its profile is ${profile ?? 'unknown'}`],
    [level === null || level <= 0 || level > MAX_LEVEL, 'its level is above 5.1'],
    [!PIXELS.includes(video.pixelFormat), `its pixels are ${video.pixelFormat}`],
    [hdr !== null || (video.colorSpace?.startsWith('bt2020') ?? false), 'its colors are not those of SDR'],
    [video.interlaced, 'it is interlaced'],
    [!hasSquarePixels, 'its pixels are not square'],
  ]
  return faults.find(([is]) => is)?.[1] ?? timingFault(source, own)
}

const MAX_REASON = 256

/** Completes the reason of a plan, which gives way to it. `name`: what it is added as; `fault`: why it is not. */
export function withHevc(reason: string, hevc: { name: string } | { fault: string } | undefined): string {
  if (!hevc) return reason
  const what = 'name' in hevc ? `; it is added as ${hevc.name}` : `; nor is it added as HEVC: ${hevc.fault}`
  return reason.slice(0, MAX_REASON - what.length) + what
}
