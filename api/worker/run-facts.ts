import type { RunProgress, RunStatus } from '../../crds/run.ts'
import type { ConversionProgress } from '../db/schema/media.ts'
import type { Run } from '../features/media/conversion/plan.ts'

/** What every kind that runs a program says of its run. */
export const runOf = ({ attempts, startTime }: RunStatus): Run => ({
  attempts: attempts ?? 0,
  startedAt: startTime ? new Date(startTime) : null,
})

/** Null without a report. */
export const progressOf = (progress: RunProgress | undefined): ConversionProgress | null =>
  progress
    ? {
        percent: progress.percent,
        speed: progress.speed ?? null,
        eta_sec: progress.etaSeconds ?? null,
        stage: progress.stage ?? null,
      }
    : null

/** The message comes from a pod that has read an untrusted file. One that Postgres refuses could never be recorded. */
export const keepable = (message: string) => message.replaceAll('\0', '').toWellFormed()
