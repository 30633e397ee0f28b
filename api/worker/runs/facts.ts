import { type RunOutput, type RunProgress, type RunStatus, succeededOf } from '../../../crds/run.ts'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Progress } from '../../db/schema/progress.ts'
import type { Run, Running } from './progress-plan.ts'

/** What a resource says about the run of a row, in the API's terms. `Failure`: what the row says when it failed. */
export type RunState<Failure> =
  | { state: 'queued' }
  | ({ state: 'running'; playable: boolean } & Running)
  | { state: 'succeeded'; run?: Run }
  /** `sharedBy`: the name of a resource that failed as a whole, with other outputs, and says nothing about this one. */
  | { state: 'failed'; error: Failure; run: Run; sharedBy: string | null }

/** The prefix of the output identifies the generation of the row. */
export type RunFact<Failure> = { id: Uuid; prefix: string } & RunState<Failure>

/** Why an output, or the resource as a whole, failed. */
export type Failed = Pick<RunOutput, 'reason' | 'message' | 'item'>

interface OutputSeen<Failure> {
  /** The id of the output in the status. */
  id: string
  status: RunStatus
  /** The name of the resource when it has other outputs too. */
  sharedBy: string | null
  errorOf(failed: Failed): Failure
}

/** The checks stand in order of precedence: an output that is done stays done when others fail. */
export function runStateOf<Failure>({ id, status, sharedBy, errorOf }: OutputSeen<Failure>): RunState<Failure> {
  const run: Run = { attempts: status.attempts ?? 0, startedAt: status.startTime ? new Date(status.startTime) : null }
  const condition = succeededOf(status)
  const output = status.outputs?.find((o) => o.id === id)
  if (output?.state === 'Failed') return { state: 'failed', error: errorOf(output), run, sharedBy: null }
  // The manifest is the commit, even when the status does not list the output.
  if (output?.state === 'Succeeded' || condition?.status === 'True') return { state: 'succeeded', run }
  if (condition?.status === 'False') return { state: 'failed', error: errorOf(condition), run, sharedBy }
  if (status.phase !== 'Running') return { state: 'queued' }
  const playable = status.progress?.playable?.includes(id) ?? false
  return { state: 'running', ...run, progress: progressOf(status.progress), playable }
}

/** Null without a report. */
const progressOf = (progress: RunProgress | undefined): Progress | null =>
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
