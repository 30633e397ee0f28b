import { isFinished } from '../../crds/run.ts'
import { isOwnedBy, type Job } from '../jobs/batch.ts'
import { livePod } from '../jobs/evidence.ts'
import { waitingOf } from '../jobs/waiting.ts'
import { configurationOf, helpedBy, helperJob, madeOf } from './child.ts'
import type { Observed } from './observed.ts'
import { shapeOf } from './shape.ts'
import { currentNumber } from './status.ts'
import type { Verdict } from './verdict.ts'

/** How long the pod of an attempt may wait for room that helpers of its resource may take. */
const GIVE_WAY_MS = 60_000

export interface HelperPlan {
  create?: Job
  remove: readonly Job[]
  /** Decide again after this time, even if nothing changes. */
  againMs?: number
}

/**
 * What becomes of the helpers of a resource. They are created beside an attempt that runs, and end with the resource, its
 * suspension, or the Job that they help. Nothing else depends on them: a Job of helpers that has ended, however it did,
 * is left as it is, and so is one that a user has edited.
 */
export function planHelpers(seen: Observed, verdict: Verdict): HelperPlan {
  const { resource, job, helpers } = seen
  const there = helpers.filter((h) => h.metadata.deletionTimestamp === undefined)
  const isOver = verdict.status !== 'Unknown' || resource.spec.suspend || verdict.step?.do === 'replace'
  const waitMs = isOver ? 0 : patienceOf(seen, verdict)
  if (!job || waitMs === 0) return { remove: there }
  const remove = there.filter((h) => helpedBy(h) !== job.metadata.uid)
  // One that is still being deleted has the name of the next.
  const create = helpers.length === 0 && isAtWork(seen, verdict, job) ? newHelpers(seen, job) : undefined
  const { againMs = there.length > 0 ? waitMs : undefined } = create ?? {}
  return { remove, ...(create?.job && { create: create.job }), ...(againMs !== undefined && { againMs }) }
}

/** Helpers of a resource that is over are not needed, also where an earlier leader could not remove them. */
export const helpersLeft = ({ resource, helpers }: Observed): readonly Job[] =>
  isFinished(resource.status) ? helpers.filter((h) => h.metadata.deletionTimestamp === undefined) : []

/** Milliseconds until helpers must make room for the attempt, which cannot start; undefined when it needs no room. */
function patienceOf({ job, pods, config, now }: Observed, { reason }: Verdict): number | undefined {
  if (reason === 'PodNotCreated') return 0
  if (reason !== 'Unschedulable') return undefined
  // Its helpers hold GPUs, and an attempt that waits for one too long goes on without for good.
  if (job && shapeOf(job, config).gpu) return 0
  const live = livePod(pods)
  const since = live && waitingOf(live, now)?.unschedulableSince
  return Math.max(0, Date.parse(since ?? now.toISOString()) + GIVE_WAY_MS - now.getTime())
}

/**
 * Whether an attempt runs, and its program is the one that helpers would run: after an upgrade, an older attempt may
 * divide its work in another way.
 */
function isAtWork({ resource, pods, config }: Observed, { reason }: Verdict, job: Job): boolean {
  const isOurs = isOwnedBy(job, resource.metadata.uid) && madeOf(job) === configurationOf(config)
  return reason === 'Running' && livePod(pods) !== undefined && isOurs // without a live one, the attempt has just ended
}

/** The Job to create, or how long not to. */
function newHelpers(seen: Observed, job: Job): { job?: Job; againMs?: number } {
  const { kind, resource, config, now, helpersNotBefore } = seen
  const made = helperJob(kind, resource, { number: currentNumber(resource), job }, config)
  if (!made) return {}
  const waitMs = (helpersNotBefore?.getTime() ?? 0) - now.getTime()
  return waitMs > 0 ? { againMs: waitMs } : { job: made }
}
