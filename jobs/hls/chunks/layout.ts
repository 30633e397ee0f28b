import { firstFrameOf, type Timeline } from '../timeline.ts'

/** A part of a video that one process encodes: whole segments of all renditions of a pass. */
export interface Chunk {
  /** The number of its first segment in the whole video. */
  firstSegment: number
  /** Undefined for the last one: to the end of the video, wherever that is. */
  segments: number | undefined
}

/** Seconds. Shorter ones would pay for their start and their seek; of longer ones a lost pod would lose more. */
const SHORTEST = 30
const LONGEST = 120
/** So that pods of different speed end at about the same time. */
const CHUNKS_PER_POD = 4

/**
 * Cuts a video of `frames` frames at the lowest rate into chunks for this many pods. Empty where fewer than two would come
 * of it: sharing does not pay then. Pure.
 */
export function chunksOf(timeline: Timeline, frames: number, pods: number): Chunk[] {
  const count = segmentsOf(timeline, frames)
  const [least, most] = [SHORTEST, LONGEST].map((seconds) => Math.ceil(seconds / timeline.segmentSeconds)) as [
    number,
    number,
  ]
  const each = Math.min(most, Math.max(least, Math.ceil(count / (CHUNKS_PER_POD * pods))))
  const chunks: Chunk[] = []
  // The last one is longer rather than too short: a container may promise a little more than there is.
  for (let from = 0; from + each < count - 1; from += each) chunks.push({ firstSegment: from, segments: each })
  const last = chunks.at(-1)
  const from = last ? last.firstSegment + each : 0
  chunks.push({ firstSegment: from, segments: undefined })
  return chunks.length > 1 ? chunks : []
}

/** The number of segments of a video with this many frames at the lowest rate. */
export function segmentsOf(timeline: Timeline, frames: number): number {
  let count = Math.max(0, Math.floor((frames * timeline.grid.den) / (timeline.grid.num * timeline.segmentSeconds)) - 1)
  while (firstFrameOf(timeline, timeline.grid, count) < frames) count += 1
  return count
}

/** What a second of the video costs, in a unit of its own. */
export interface SharedCosts {
  /** The smallest rendition in a pass of its own. */
  ahead: number
  /** The sound, which the lead encodes once. */
  sound: number
  /** All other renditions in one process. */
  others: number
  /** All renditions in one process. */
  all: number
}

/**
 * How many chunks, from the first one on, leave the smallest rendition to the first pass of the pod that leads: all where
 * that takes at most one pod's share of the work, else as many as its share allows, and at least one. The chunks behind them
 * hold all renditions. Pure.
 */
export function firstPassChunks(chunks: readonly Chunk[], segments: number, pods: number, costs: SharedCosts): number {
  const { ahead, sound, others, all } = costs
  const share = (work: number) => work / Math.min(pods, chunks.length)
  const whole = ahead + sound
  if (whole <= share(whole + others)) return chunks.length
  const isWithin = (from: number) => {
    const lead = ahead * from + sound * segments
    return lead <= share(lead + others * from + all * (segments - from))
  }
  const last = chunks.findLastIndex(({ firstSegment }) => isWithin(firstSegment))
  return Math.max(1, last)
}
