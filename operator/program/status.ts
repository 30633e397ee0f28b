import { type Condition, withCondition } from '../../crds/kind.ts'
import { type Run, type RunStatus, SUCCEEDED, succeededOf } from '../../crds/run.ts'
import { jobCondition } from '../jobs/batch.ts'
import { lastEnded, resultOf, successOf } from '../jobs/evidence.ts'
import { childName } from './child.ts'
import { attemptsSoFar, type Observed } from './observed.ts'
import { outcomeOf, playableOf } from './outputs.ts'
import { finalProgress, type ProgressFields, withoutProgress } from './progress.ts'
import type { Learned, Verdict } from './verdict.ts'

/** The number of the resource's current Job. */
export const currentNumber = ({ status }: Pick<Run, 'status'>): number => (status?.restarts ?? 0) + 1

/** The status that a verdict leads to. The same observation always gives the same status. */
export function statusFor(seen: Observed, verdict: Verdict): RunStatus {
  const { kind, resource, job, now } = seen
  const old = resource.status
  const observedGeneration = resource.metadata.generation ?? 0
  const { status, reason, step } = verdict
  const message = verdict.message.slice(0, 1024)
  const condition = { type: SUCCEEDED, status, reason, message, observedGeneration }
  const isStartedOver = step?.do === 'replace' && step.how === 'StartOver'
  const restarts = (old?.restarts ?? 0) + (isStartedOver ? 1 : 0)
  const jobName = isStartedOver || !job ? childName(kind, resource, restarts + 1) : job.metadata.name
  const attempts = attemptsSoFar(seen)
  return {
    observedGeneration,
    phase: verdict.phase,
    conditions: withCondition(old?.conditions ?? [], condition, now),
    ...(reason !== 'NameTaken' && { jobName }),
    attempts,
    ...(restarts > 0 && { restarts }),
    ...learnedOf(old),
    ...(step && 'learned' in step && step.learned),
    // No startTime before the first attempt, because it would cost a write of its own.
    ...((attempts > 0 || old?.startTime) && startOf(seen)),
    ...(status !== 'Unknown' && endOf(seen, status)),
  }
}

/** Status fields that the next Job depends on; every status write must keep them. */
function learnedOf(status: RunStatus | undefined): Learned {
  const { memory, gpuGivenUp } = status ?? {}
  return { ...(memory !== undefined && { memory }), ...(gpuGivenUp !== undefined && { gpuGivenUp }) }
}

function startOf({ resource, job }: Observed): Pick<RunStatus, 'startTime'> {
  const startTime = resource.status?.startTime ?? job?.status?.startTime
  return startTime ? { startTime } : {}
}

function endOf(
  { kind, resource, job, pods, now }: Observed,
  status: Condition['status'],
): Pick<RunStatus, 'completionTime' | 'outputs'> {
  const failed = job && jobCondition(job, 'Failed')
  const ended = job?.status?.completionTime ?? failed?.lastTransitionTime ?? now.toISOString()
  const result = status === 'True' ? (successOf(pods) ?? { ok: true }) : resultOf(lastEnded(pods))
  return {
    completionTime: resource.status?.completionTime ?? ended,
    ...outcomeOf(kind, resource, result),
  }
}

/** Progress of a success that this status completes; undefined when it is recorded already. */
export function successProgress({ kind, resource, pods }: Observed, status: RunStatus): ProgressFields | undefined {
  const { accelerator, acceleratorReason, planReason } = successOf(pods) ?? {}
  const used = {
    ...(accelerator && { accelerator }),
    ...(acceleratorReason && { acceleratorReason }),
    ...(kind.hasPlanReason && planReason && { planReason }),
  }
  return finalProgress(resource, { ...finalOf(status), ...used })
}

/** What the last progress of a resource with this final status has to say. */
export const finalOf = (status: RunStatus | undefined) => ({
  playable: playableOf(status),
  at: status?.completionTime ?? succeededOf(status)?.lastTransitionTime ?? '',
})

type Bare = Pick<Run, 'metadata' | 'status'>
interface Cause {
  reason: string
  message: string
}

/** The status for a problem that the resource did not cause: visible but never final, so that no media item fails. */
export const trouble = (resource: Bare, cause: Cause, now: Date): RunStatus => ({
  ...bareStatus(resource, cause, now),
  phase: 'Pending',
})

/**
 * The status of a resource whose spec this operator cannot read. The API server has accepted it, so an operator of a newer
 * version may: never final. What that one has recorded stays, because its Job may be running.
 */
export const notUnderstood = (resource: Bare, problem: string, now: Date): RunStatus => {
  const message = `This version of the operator does not understand the resource and waits for one that does: ${problem}`
  return {
    phase: 'Pending',
    ...withoutProgress(resource.status),
    ...bareStatus(resource, { reason: 'NotUnderstood', message }, now),
  }
}

function bareStatus(resource: Bare, { reason, message }: Cause, now: Date) {
  const { attempts, restarts, conditions = [] } = resource.status ?? {}
  const observedGeneration = resource.metadata.generation ?? 0
  const condition = {
    type: SUCCEEDED,
    status: 'Unknown',
    reason,
    message: message.slice(0, 1024),
    observedGeneration,
  } as const
  return {
    observedGeneration,
    conditions: withCondition(conditions, condition, now),
    ...(attempts !== undefined && { attempts }),
    ...(restarts !== undefined && { restarts }), // the number of the Job depends on it
    ...learnedOf(resource.status),
  }
}
