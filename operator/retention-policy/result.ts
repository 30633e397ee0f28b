import type { RunRecord } from '../../crds/retention-policy.ts'
import { parseRetentionResult, type RetentionResult } from '../../lib/contract/retention.ts'
import { type Job, jobCondition, type Pod } from '../jobs/batch.ts'
import { noteOf } from './run.ts'

/** What a pod left, and when. */
export interface PodResult extends RetentionResult {
  at: string
}

export function resultOf({ status }: Pod): PodResult | undefined {
  for (const { state } of status?.containerStatuses ?? []) {
    const result = parseRetentionResult(state?.terminated?.message)
    if (result) return { ...result, at: state?.terminated?.finishedAt ?? '' }
  }
  return undefined
}

type Figures = Pick<RetentionResult, 'moved' | 'purged' | 'bytes' | 'failures' | 'due'>
const handled = ({ moved, purged, failures }: Figures) => moved + purged + failures

/** Whether it says how the run ended: a pod that was stopped does not know. */
const known = ({ ended }: RetentionResult) => Number(ended !== 'Stopped')

/** Each result has the figures of the whole run, so that of the pod that ended last is complete. */
export function further(a: PodResult | undefined, b: PodResult | undefined): PodResult | undefined {
  if (!a || !b) return a ?? b
  const order = handled(b) - handled(a) || b.bytes - a.bytes || known(b) - known(a) || b.at.localeCompare(a.at)
  return order > 0 ? b : a
}

const NOTHING: Figures = { moved: 0, purged: 0, bytes: 0, failures: 0, due: 0 }

/** The figures that are known: those of the pods, or those that status has already when these have gone. */
function figuresOf(known: RunRecord | undefined, result: PodResult | undefined): Figures {
  const { moved, purged, bytes, failures, due } =
    result && handled(result) >= handled(known ?? NOTHING) ? result : (known ?? NOTHING)
  return { moved, purged, bytes, failures, due }
}

/** The record of a run that has not ended. */
export function runningRecord(job: Job, known: RunRecord | undefined, result: PodResult | undefined): RunRecord {
  const note = noteOf(job)
  const started = job.status?.startTime ?? known?.started ?? job.metadata.creationTimestamp
  return {
    name: job.metadata.name,
    ...(started && { started }),
    ...figuresOf(known, result),
    ...(note?.dryRun && { dryRun: true }),
    ...(note && { generation: note.generation }),
  }
}

/** The record of a run whose Job has finished, or that the operator has stopped. */
export function finalRecord(
  job: Job,
  known: RunRecord | undefined,
  result: PodResult | undefined,
  { now, isStopped }: { now: Date; isStopped: boolean },
): RunRecord {
  const failed = jobCondition(job, 'Failed')
  const finished = job.status?.completionTime ?? failed?.lastTransitionTime ?? now.toISOString()
  const { ended, reason } = endOf(result, failed, isStopped)
  return {
    ...runningRecord(job, known, result),
    finished,
    ended,
    ...(reason && { reason: reason.slice(0, 512) }),
    ...(result?.report && { report: result.report }),
  }
}

function endOf(
  result: PodResult | undefined,
  failed: { reason?: string; message?: string } | undefined,
  isStopped: boolean,
): { ended: NonNullable<RunRecord['ended']>; reason?: string | undefined } {
  if (isStopped) return { ended: 'Stopped', reason: result?.reason }
  const why = failed && `${failed.reason ?? 'Failed'}: ${failed.message ?? ''}`
  if (!result) return { ended: failed ? 'Failed' : 'Lost', reason: why ?? 'No pod said what it did' }
  if (!failed) return result
  // A pod that crashed may have been the one that would have said that something is wrong.
  if (result.ended === 'Finished') return { ended: 'Failed', reason: why }
  // Its pods were stopped, or gave up, until there were too many of them.
  if (result.ended === 'Stopped') return { ended: 'Failed', reason: result.reason ? `${why}. ${result.reason}` : why }
  return result
}

/** The record of a run whose pods cannot start, and in whose place another one is. */
export function replacedRecord(
  job: Job,
  known: RunRecord | undefined,
  o: { by: string; why: string; now: Date },
): RunRecord {
  const reason = `${o.why}; the template of pods has changed since, and run ${o.by} takes its place`
  return { ...runningRecord(job, known, undefined), finished: o.now.toISOString(), ended: 'Failed', reason }
}

/** The record of a run whose Job is gone. */
export const lostRecord = (name: string, known: RunRecord | undefined, now: Date): RunRecord => ({
  ...(known ?? { ...NOTHING, name }),
  finished: now.toISOString(),
  ended: 'Lost',
  reason: 'The Job was deleted before its end was recorded',
})
