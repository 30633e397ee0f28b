import type { Observed } from './observed.ts'
import type { Verdict } from './verdict.ts'

/** Most pods start soon. For this long after a resource's creation, its waiting is not worth a status write. */
export const QUIET_MS = 3000

/** Reasons of a resource whose pod has not started and of which nothing is wrong: worth no event, and no status yet. */
export const isQuiet = (reason: string | undefined): boolean => reason === 'Creating' || reason === 'Queued'

/**
 * Milliseconds to defer the status: only for a resource without a status that waits for its first pod. An impossible
 * age, caused by clocks that differ, is not deferred.
 */
export function quietFor({ resource, now }: Observed, { reason }: Verdict): number {
  if (!isQuiet(reason) || resource.status?.conditions) return 0
  const { creationTimestamp = '', uid } = resource.metadata
  const age = now.getTime() - Date.parse(creationTimestamp) - spreadOverSecond(uid)
  return age > -2000 && age < QUIET_MS ? QUIET_MS - age : 0
}

/**
 * Pseudo-random milliseconds of a resource, 0 to 999. The API server's times are whole seconds; without these, the
 * status of all resources created within a second would be written at the same moment and delay new resources.
 */
const spreadOverSecond = (uid: string): number => Number.parseInt(uid.slice(-4), 16) % 1000 || 0
