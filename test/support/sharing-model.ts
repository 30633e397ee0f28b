import { chooseChunk, startOf } from '../../jobs/hls/chunks/choose.ts'
import type { Chunk } from '../../jobs/hls/chunks/layout.ts'

/** What a video costs one pod, in seconds of wall time. */
export interface SharedCosts {
  /** Of the video. */
  seconds: number
  /** Of the pass that the lead makes alone, for a second of the video. */
  first: number
  /** Of all other renditions, for a second of the video. */
  others: number
  /** Beside the encoding of each chunk: its claim, its start, its seek. */
  chunk: number
  /** Until the plan is there: the helpers begin then. */
  plan: number
}

/** When the last chunk is done, where all pods are alike and take chunks as the programs do. Pure. */
export function sharedWall(chunks: readonly Chunk[], segmentSeconds: number, pods: number, costs: SharedCosts): number {
  const free = Array.from({ length: pods }, (_, place) => (place === 0 ? costs.first * costs.seconds : costs.plan))
  const claims = new Map<number, string>()
  let end = costs.first * costs.seconds
  for (;;) {
    const place = free.indexOf(Math.min(...free))
    const chooser = {
      me: `pod-${place}`,
      chunks: chunks.length,
      start: startOf(place, pods, chunks.length),
      isOverdue: () => false,
    }
    const chunk = chooseChunk({ claims, done: new Set(claims.keys()) }, chooser)
    if (chunk === undefined) return end
    claims.set(chunk, chooser.me)
    const { firstSegment, segments } = chunks[chunk] ?? { firstSegment: 0 }
    const length = segments === undefined ? costs.seconds - firstSegment * segmentSeconds : segments * segmentSeconds
    free[place] = (free[place] ?? 0) + costs.chunk + costs.others * length
    end = Math.max(end, free[place] ?? 0)
  }
}

/** The same for one pod that makes everything in two passes. */
export const aloneWall = ({ seconds, first, others }: SharedCosts): number => seconds * (first + others)
