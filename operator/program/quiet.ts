import type { Observed } from './observed.ts'
import type { Verdict } from './verdict.ts'

/** Most pods start soon. For this long after the creation of its Job, a resource's waiting is not worth a status write. */
export const QUIET_MS = 3000

/** Reasons of a resource whose pod has not started and of which nothing is wrong: worth no event, and no status yet. */
export const isQuiet = (reason: string | undefined): boolean => reason === 'Creating' || reason === 'Queued'

/**
 * Milliseconds to defer the status: only for a resource without a status that waits for its first pod. They count from
 * the creation of the Job, and an urgent turn never writes it, so that many resources at once first get their Jobs and
 * then, where pods do not start, a status.
 */
export function quietFor(seen: Observed, { reason }: Verdict): number {
  if (!isQuiet(reason) || seen.resource.status?.conditions) return 0
  return Math.max(quietLeft(seen), seen.isUrgent ? 1 : 0)
}

/** An impossible age, caused by clocks that differ, is not deferred. */
function quietLeft({ resource, job, now }: Observed): number {
  const quietMs = QUIET_MS + spreadOverSecond(resource.metadata.uid)
  if (!job) return quietMs // it is created now
  const age = now.getTime() - Date.parse(job.metadata.creationTimestamp ?? '')
  return age > -2000 && age < quietMs ? quietMs - age : 0
}

/**
 * Pseudo-random milliseconds of a resource, 0 to 999. The API server's times are whole seconds; without these, the
 * status of all resources whose Jobs were created within a second would be written at the same moment and delay new
 * resources.
 */
const spreadOverSecond = (uid: string): number => Number.parseInt(uid.slice(-4), 16) % 1000 || 0
