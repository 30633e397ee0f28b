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
 * once, at its time, and all parts are of one codec. `begun` is what the first pass has made of the smallest rendition,
 * where chunks hold the rest of it. Returns what is wrong instead. Pure.
 */
export function stitch(plan: SharedPlan, parts: readonly ChunkPart[], begun?: VerifiedVideo): Stitched | string {
  const videos: StitchedVideo[] = []
  for (const rendition of begun ? plan.renditions : plan.renditions.slice(1)) {
    const video = stitchOne(plan, rendition, parts, rendition === plan.renditions[0] ? begun : undefined)
    if (typeof video === 'string') return `${rendition.name}: ${video}`
    videos.push(video)
  }
  const damaged = parts.reduce((sum, part) => sum + part.damaged, 0)
  return { videos, complaints: { damaged, endedEarly: parts.some((p) => p.endedEarly), tail: '' } }
}

/**
 * The segments of the smallest rendition that players may have: those of the first pass, and of the chunks that are done
 * behind it without a gap. What does not fit ends them. Pure.
 */
export function joined(
  plan: SharedPlan,
  parts: ReadonlyMap<number, ChunkPart>,
  begun: VerifiedVideo,
): VerifiedVideo['segments'] {
  let video = begun
  for (let k = nextChunk(plan, begun); parts.has(k); k++) {
    const [rendition, part] = [plan.renditions[0], parts.get(k)]
    const more = rendition && append(plan, rendition, { k, part, video })
    if (!more || typeof more === 'string') break
    video = more
  }
  return video.segments
}

/** The chunk of the first segment that `begun` does not have. */
export const nextChunk = ({ chunks }: SharedPlan, { segments }: VerifiedVideo) =>
  Math.max(
    0,
    chunks.findLastIndex(({ firstSegment }) => firstSegment <= segments.length),
  )

const NOTHING: VerifiedVideo = { segments: [], frames: 0, first: 0, codec: '' }

function stitchOne(
  plan: SharedPlan,
  rendition: Rendition,
  parts: readonly ChunkPart[],
  begun: VerifiedVideo = NOTHING,
): StitchedVideo | string {
  let video = begun
  for (let k = nextChunk(plan, begun); k < plan.chunks.length; k++) {
    const more = append(plan, rendition, { k, part: parts[k], video })
    if (typeof more === 'string') return more
    video = more
  }
  return { rendition, ...video }
}

interface Appended {
  k: number
  part: ChunkPart | undefined
  /** All before; it may end within the chunk. */
  video: VerifiedVideo
}

function append(plan: SharedPlan, rendition: Rendition, { k, part, video }: Appended): VerifiedVideo | string {
  const timeline: Timeline = { segmentSeconds: plan.segmentSeconds, grid: plan.grid }
  const { num, den } = rendition.frameRate
  const made = part?.renditions.find((r) => r.name === rendition.name)
  const { firstSegment = 0 } = plan.chunks[k] ?? {}
  if (!made) return `chunk ${k} does not have it`
  const { first, codec } = video === NOTHING ? made : video
  const has = Math.max(0, video.segments.length - firstSegment)
  const frameOf = (segment: number) => firstFrameOf(timeline, rendition.frameRate, segment)
  const [begins, next] = [frameOf(firstSegment), frameOf(firstSegment + has)]
  if (next !== video.frames) return `chunk ${k} begins with frame ${next} after ${video.frames}`
  if (Math.abs(made.first - first - (begins * den) / num) > TOLERANCE) return `chunk ${k} begins at ${made.first} s`
  if (made.codec !== codec) return `chunk ${k} is ${made.codec}, not ${codec}`
  const isNext = (uri: string, i: number) => uri.startsWith(`${rendition.name}x`) && numberOf(uri) === firstSegment + i
  if (!made.segments.every(({ uri }, i) => isNext(uri, i))) return `chunk ${k} has gaps`
  return {
    segments: [...video.segments, ...made.segments.slice(has)],
    frames: video.frames + made.frames - (next - begins),
    first,
    codec,
  }
}

const numberOf = (uri: string) => Number(/_(\d{5})\.ts$/.exec(uri)?.[1])
