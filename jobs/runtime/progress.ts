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
  playable(): void
  finished(): void
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

  function send(stage: Stage, share: number, speed: number | null) {
    percent = Math.max(percent, Math.min(100, share * 100))
    const elapsed = (now() - startedAt) / 1000
    report({
      percent,
      speed,
      // The first percents are download and start-up, too early for an estimate.
      etaSeconds: percent >= 8 ? Math.round((elapsed * (100 - percent)) / percent) : null,
      stage,
      ...(accelerator && { accelerator: accelerator.kind, acceleratorReason: accelerator.reason }),
      playable: [...playable],
    })
  }

  function speedSince(first: { at: number; fraction: number } | undefined, fraction: number, mediaSeconds?: number) {
    const seconds = first ? (now() - first.at) / 1000 : 0
    return first && mediaSeconds && seconds > 0
      ? (mediaSeconds * Math.max(0, fraction - first.fraction)) / seconds
      : null
  }

  return {
    accelerator: (chosen: Accelerator) => {
      accelerator = chosen
    },
    input: (index: number, id: string): InputProgress => {
      /** The first report: what an earlier attempt has left counts for the percent, and not for the speed. */
      let first: { at: number; fraction: number } | undefined
      let last: [Stage, number, number | null] = ['Downloading', index / inputs, null]
      const resend = () => send(...last)
      return {
        at(stage, fraction, mediaSeconds) {
          const [from, width] = SPAN[stage]
          if (stage === 'Encoding') first ??= { at: now(), fraction }
          last = [
            stage,
            (index + from + width * Math.min(1, fraction)) / inputs,
            speedSince(first, fraction, mediaSeconds),
          ]
          resend()
        },
        accelerator: (chosen) => {
          accelerator = chosen
          resend()
        },
        playable: () => {
          if (!playable.includes(id)) playable.push(id)
          resend()
        },
        finished: () => send('Publishing', (index + 1) / inputs, null),
      }
    },
  }
}
export type ProgressTracker = ReturnType<typeof trackProgress>
