import type { ProbedSource } from '../../ffmpeg/probe.ts'
import { toNumber } from '../../ffmpeg/rational.ts'
import { presentationSeconds } from '../../ffmpeg/source.ts'
import { sharedCosts } from '../pass-plan.ts'
import { timelineOf } from '../timeline.ts'
import { type Chunk, chunksOf, firstPassChunks, type SharedCosts, segmentsOf } from './layout.ts'
import type { ChunkStates } from './protocol.ts'
import type { LeadOptions, Sharing } from './sharing.ts'

/** A video that is cut into chunks, of which those from `fullFrom` on hold the smallest rendition too. */
export interface Cut {
  chunks: readonly Chunk[]
  /** The number of chunks where the first pass makes all of that rendition. */
  fullFrom: number
  /** Of the whole video. */
  segments: number
  costs: SharedCosts
}

/**
 * Whether the first pass may end with so many segments: where all that follows is made, or where the pods that have come
 * carry the rest of the smallest rendition, this one has a chunk to make, and the list that players follow goes on at once.
 * Without helpers it goes on to the end. Pure.
 */
export function isFirstPassEnough(cut: Cut, { claims, done }: ChunkStates, me: string, covered: number): boolean {
  const { chunks, fullFrom } = cut
  const next = chunks.findLastIndex(({ firstSegment }) => firstSegment <= covered)
  if (next < fullFrom || !done.has(next)) return false
  const open = [...chunks.keys()].filter((chunk) => !done.has(chunk))
  if (open.every((chunk) => chunk < next)) return true
  const helpers = new Set([...claims.values()].filter((by) => by !== '' && by !== me))
  const isFree = (chunk: number) => (claims.get(chunk) ?? me) === me
  return open.some(isFree) && next >= firstPassChunks(chunks, cut.segments, 1 + helpers.size, cut.costs)
}

/**
 * How a video is shared, before anything is read or made; undefined where it is too short, or cannot be cut. Pure.
 */
export function cutOf({ source, ladder, segmentSeconds, sharing }: CutOptions): Cut | undefined {
  if (!canBeCut(source)) return undefined
  const timeline = timelineOf(ladder, segmentSeconds)
  const frames = Math.round(presentationSeconds(source) * toNumber(timeline.grid))
  const chunks = chunksOf(timeline, frames, sharing.pods)
  if (chunks.length === 0) return undefined
  const segments = segmentsOf(timeline, frames)
  const costs = sharedCosts(ladder, { ...source, hasAudio: source.audio !== null })
  return { chunks, segments, costs, fullFrom: firstPassChunks(chunks, segments, sharing.pods, costs) }
}
type CutOptions = Pick<LeadOptions, 'source' | 'ladder' | 'segmentSeconds'> & { sharing: Pick<Sharing, 'pods'> }

/** Where pictures are shown longer than they last, a chunk may have none of its own to show. */
const canBeCut = (source: ProbedSource): boolean =>
  presentationSeconds(source) <= source.videoSeconds + 1 && source.stream.startSeconds <= 1
