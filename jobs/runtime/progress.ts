import type { ProgressReport } from '../../lib/contract/progress.ts'
import type { Accelerator } from '../ffmpeg/accelerator.ts'

type Stage = ProgressReport['stage']

/** Start and width of each stage as fractions of one input. Encoding includes verification. */
const SPAN: Record<Stage, readonly [number, number]> = {
  Downloading: [0, 0.04],
  Probing: [0.04, 0.01],
  Encoding: [0.05, 0.92],
  Verifying: [0.97, 0.01],
  Publishing: [0.98, 0.02],
}

export interface InputProgress {
  /** `fraction` of the stage is done; `mediaSeconds` is the length of the video to encode. */
  at(stage: Stage, fraction: number, mediaSeconds?: number): void
  accelerator(accelerator: Accelerator): void
  /** How the video is encoded, and why. */
  planned(reason: string): void
  playable(): void
  finished(): void
}

/** Too short to measure: one piece that was still on disk would look like a thousand times the speed. */
const MEASURABLE_MS = 500

/** How many seconds of video are encoded in a second, measured since encoding began, or began again. */
function speedometer() {
  /** The first report: what an earlier attempt has left counts for the percent, and not for the speed. */
  let first: { at: number; fraction: number } | undefined
  let reached = 0
  return (at: number, fraction: number, mediaSeconds: number | undefined): number | null => {
    if (!first || fraction < reached) first = { at, fraction }
    reached = fraction
    if (!mediaSeconds || at - first.at < MEASURABLE_MS) return null
    return (mediaSeconds * (fraction - first.fraction)) / ((at - first.at) / 1000)
  }
}

/**
 * Computes the progress of a whole job. Percent never decreases, even when an input starts again on another
 * accelerator. `now` returns milliseconds.
 */
export function trackProgress(inputs: number, report: (r: ProgressReport) => void, now: () => number) {
  const startedAt = now()
  const playable: string[] = []
  let percent = 0
  let accelerator: Accelerator | undefined
  let planReason: string | undefined

  function send(time: number, stage: Stage, share: number, speed: number | null) {
    percent = Math.max(percent, Math.min(100, share * 100))
    const elapsed = (time - startedAt) / 1000
    report({
      percent,
      speed,
      // The first percents are download and start-up, too early for an estimate.
      etaSeconds: percent >= 8 ? Math.round((elapsed * (100 - percent)) / percent) : null,
      stage,
      ...(accelerator && { accelerator: accelerator.kind, acceleratorReason: accelerator.reason }),
      ...(planReason && { planReason }),
      playable: [...playable],
    })
  }

  return {
    accelerator: (chosen: Accelerator) => {
      accelerator = chosen
    },
    input: (index: number, id: string): InputProgress => {
      const speed = speedometer()
      let last: [Stage, number, number | null] = ['Downloading', index / inputs, null]
      const resend = () => send(now(), ...last)
      return {
        at(stage, fraction, mediaSeconds) {
          const [from, width] = SPAN[stage]
          const time = now()
          const share = (index + from + width * Math.min(1, fraction)) / inputs
          last = [stage, share, stage === 'Encoding' ? speed(time, fraction, mediaSeconds) : null]
          send(time, ...last)
        },
        accelerator: (chosen) => {
          accelerator = chosen
          resend()
        },
        planned: (reason) => {
          planReason = reason
          resend()
        },
        playable: () => {
          if (!playable.includes(id)) playable.push(id)
          resend()
        },
        finished: () => send(now(), 'Publishing', (index + 1) / inputs, null),
      }
    },
  }
}
export type ProgressTracker = ReturnType<typeof trackProgress>
