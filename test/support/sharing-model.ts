import { chooseChunk, startOf } from '../../jobs/hls/chunks/choose.ts'
import { type Cut, isFirstPassEnough } from '../../jobs/hls/chunks/cut.ts'

/** What a video costs one pod beside its renditions, in seconds of wall time; a second of those is `cut.costs`. */
export interface SharedTimes {
  /** Of the video. */
  seconds: number
  segmentSeconds: number
  pods: number
  /** Beside the encoding of each chunk: its claim, its start, its seek. */
  chunk: number
  /** Until the plan is there: the helpers begin then. */
  plan: number
}

/** Seconds between two looks of the pod that leads, while it makes the first pass. */
const LOOK = 5
const LEAD = 'pod-0'

interface World {
  cut: Cut
  times: SharedTimes
  claims: Map<number, string>
  /** When each chunk is done. */
  ends: Map<number, number>
}

/**
 * When all is made, where all pods are alike and take chunks as the programs do, and how many segments the first pass has
 * made. The sound has half of the pod that leads until it is there. Pure.
 */
export function sharedWall(cut: Cut, times: SharedTimes): { wall: number; covered: number } {
  const { pods, plan } = times
  const world: World = { cut, times, claims: new Map(), ends: new Map() }
  const free = Array.from({ length: pods }, (_, place) => (place === 0 ? 0 : plan))
  const first = { isMade: false, covered: 0, end: 0 }
  for (;;) {
    const place = free.indexOf(Math.min(...free))
    const now = free[place] ?? 0
    if (place === 0 && !first.isMade) {
      Object.assign(first, lookAt(world, now))
      free[0] = first.isMade ? first.end : now + LOOK
      continue
    }
    const end = takeOne(world, { me: `pod-${place}`, start: startAt(world, place, first.covered), now })
    // The others have nothing left to take.
    if (end === undefined && first.isMade)
      return { wall: Math.max(first.end, ...world.ends.values()), covered: first.covered }
    free[place] = end ?? Number.POSITIVE_INFINITY
  }
}

/** The pod that leads begins where its first pass has ended. */
const startAt = ({ cut: { chunks, segments }, times }: World, place: number, covered: number) =>
  place === 0 && covered < segments
    ? chunks.findLastIndex(({ firstSegment }) => firstSegment <= covered)
    : startOf(place, times.pods, chunks.length)

/** The first pass at this moment: whether it is made, or ends here. */
function lookAt({ cut, times, claims, ends }: World, now: number) {
  const { ahead, sound } = cut.costs
  const soundFor = sound * times.seconds
  const busy = now < 2 * soundFor ? now / 2 : now - soundFor
  const all = soundFor + ahead * times.seconds
  if (now >= all) return { isMade: true, covered: cut.segments, end: all }
  const covered = Math.floor(busy / ahead / times.segmentSeconds)
  const done = new Set([...ends].filter(([, at]) => at <= now).map(([chunk]) => chunk))
  const states = { claims: new Map([...claims].filter(([chunk]) => !done.has(chunk))), done }
  // Only once the sound is whole, which says that the source can be read to its end.
  const isMade = now >= 2 * soundFor && isFirstPassEnough(cut, states, LEAD, covered)
  return { isMade, covered, end: isMade ? now : 0 }
}

/** When the chunk is done that the pod takes; undefined: there is none. */
function takeOne({ cut, times, claims, ends }: World, { me, start, now }: { me: string; start: number; now: number }) {
  const { chunks, fullFrom, costs } = cut
  const chooser = { me, chunks: chunks.length, start, isOverdue: () => false }
  const chunk = chooseChunk({ claims, done: new Set(claims.keys()) }, chooser)
  if (chunk === undefined) return undefined
  claims.set(chunk, me)
  const { firstSegment, segments } = chunks[chunk] ?? { firstSegment: 0 }
  const { seconds, segmentSeconds } = times
  const length = segments === undefined ? seconds - firstSegment * segmentSeconds : segments * segmentSeconds
  const end = now + times.chunk + (chunk >= fullFrom ? costs.all : costs.others) * length
  ends.set(chunk, end)
  return end
}

/** The same for one pod that makes everything in two passes. */
export const aloneWall = ({ costs: { ahead, sound, others } }: Pick<Cut, 'costs'>, seconds: number): number =>
  seconds * (ahead + sound + others)
