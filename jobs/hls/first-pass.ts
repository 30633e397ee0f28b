import type { ProbedSource } from '../ffmpeg/probe.ts'
import { toNumber } from '../ffmpeg/rational.ts'
import { presentationSeconds } from '../ffmpeg/source.ts'
import { streamNames } from './encode-pass.ts'
import type { Rendition } from './ladder.ts'
import { type PassPlan, passCosts, type Shown } from './pass-plan.ts'
import type { Publisher } from './publisher.ts'
import { mayStop, openSpeedometer, type RunAhead, speedOfAll } from './run-ahead.ts'

interface WatchedLadder {
  source: ProbedSource
  ladder: readonly Rendition[]
  segmentSeconds: number
  publisher: Publisher
}

/** A first pass that is watched: how fast it is, and whether it has run far enough ahead. */
export interface FirstPass {
  /** So many frames of its rendition are made. */
  progressed(frames: number): void
  /** Players can begin. */
  playable(): void
  /** Whether one process for all renditions may take over. */
  isEnough(): boolean
  /** What it has shown; `isOvertaken`: it was stopped where it was enough. */
  shown(isOvertaken: boolean): Shown
}

/**
 * What a GPU makes in a second says nothing about the CPU that decodes and scales for it, and HDR is mapped at the size of
 * the largest rendition, which a first pass does not have: how fast one process for all would be is then not known.
 */
export const canBeWatched = (
  run: { accelerator: 'gpu' | 'cpu'; source: ProbedSource },
  plans: readonly PassPlan[],
): boolean =>
  plans.length === 2 &&
  plans[0]?.publishesEarly === true &&
  !plans[0].copied &&
  run.accelerator === 'cpu' &&
  !run.source.hdr

/** Watches the first of two passes. Takes the time from `now`, in milliseconds. */
export function watchFirstPass(
  { source, ladder, segmentSeconds, publisher }: WatchedLadder,
  { renditions, withAudio }: PassPlan,
  now: () => number,
): FirstPass {
  const run: RunAhead = {
    seconds: presentationSeconds(source),
    segmentSeconds,
    frameRate: Math.min(...ladder.map((r) => toNumber(r.frameRate))),
    costs: passCosts(ladder, { ...source, hasAudio: source.audio !== null }),
  }
  const names = streamNames({ renditions, withAudio })
  const rate = Math.min(...renditions.map((r) => toNumber(r.frameRate)))
  const speedometer = openSpeedometer()
  let [made, ranAhead, playableAt]: [number, number, number?] = [0, 0]
  const covered = () =>
    Math.min(...names.map((name) => publisher.published(name).reduce((sum, { seconds }) => sum + seconds, 0)))
  return {
    progressed(frames) {
      made = frames / rate
      speedometer.add(now() / 1000, made)
    },
    playable() {
      playableAt ??= now()
    },
    isEnough() {
      const playableFor = playableAt === undefined ? undefined : (now() - playableAt) / 1000
      ranAhead = covered()
      // Reports of the encoder may be older than what it has completed.
      const reached = Math.max(made, ranAhead)
      return mayStop(run, { covered: ranAhead, made: reached, speed: speedometer.speed(), playableFor })
    },
    shown(isOvertaken) {
      const speed = speedometer.speed()
      return {
        ranAhead: isOvertaken ? ranAhead : undefined,
        speedOfAll: speed === undefined ? undefined : speedOfAll(run, speed),
      }
    },
  }
}
