import type { Complaints } from '../../ffmpeg/ffmpeg.ts'
import type { Rendition } from '../ladder.ts'
import { firstFrameOf, type Timeline } from '../timeline.ts'
import type { VerifiedVideo } from '../verify.ts'
import type { ChunkPart, SharedPlan } from './protocol.ts'

export type StitchedVideo = VerifiedVideo & { rendition: Rendition }

export interface Stitched {
  videos: StitchedVideo[]
  complaints: Complaints
}

/** Seconds, see `verifyVideo`. */
const TOLERANCE = 0.002

/**
 * Joins the parts of all chunks. Each was verified by the pod that made it; this checks the seams: every frame is there
 * once, at its time, and all parts are of one codec. Returns what is wrong instead. Pure.
 */
export function stitch(plan: SharedPlan, parts: readonly ChunkPart[]): Stitched | string {
  const videos: StitchedVideo[] = []
  for (const rendition of plan.renditions) {
    const video = stitchOne(plan, rendition, parts)
    if (typeof video === 'string') return `${rendition.name}: ${video}`
    videos.push(video)
  }
  const damaged = parts.reduce((sum, part) => sum + part.damaged, 0)
  return { videos, complaints: { damaged, endedEarly: parts.some((p) => p.endedEarly), tail: '' } }
}

function stitchOne(plan: SharedPlan, rendition: Rendition, parts: readonly ChunkPart[]): StitchedVideo | string {
  const timeline: Timeline = { segmentSeconds: plan.segmentSeconds, grid: plan.grid }
  const { num, den } = rendition.frameRate
  const segments: VerifiedVideo['segments'] = []
  let [frames, first, codec] = [0, 0, '']
  for (const [k, chunk] of plan.chunks.entries()) {
    const made = parts[k]?.renditions.find((r) => r.name === rendition.name)
    if (!made) return `chunk ${k} does not have it`
    if (k === 0) [first, codec] = [made.first, made.codec]
    const begins = firstFrameOf(timeline, rendition.frameRate, chunk.firstSegment)
    if (begins !== frames) return `chunk ${k} begins with frame ${begins} after ${frames}`
    if (Math.abs(made.first - first - (begins * den) / num) > TOLERANCE) return `chunk ${k} begins at ${made.first} s`
    if (made.codec !== codec) return `chunk ${k} is ${made.codec}, not ${codec}`
    const isNext = (uri: string, i: number) =>
      uri.startsWith(`${rendition.name}x`) && numberOf(uri) === chunk.firstSegment + i
    if (!made.segments.every(({ uri }, i) => isNext(uri, i))) return `chunk ${k} has gaps`
    segments.push(...made.segments)
    frames += made.frames
  }
  return { rendition, segments, frames, first, codec }
}

const numberOf = (uri: string) => Number(/_(\d{5})\.ts$/.exec(uri)?.[1])
