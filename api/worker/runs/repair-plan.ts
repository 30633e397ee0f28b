import { isFinished, type RunStatus, succeededOf } from '../../../crds/run.ts'
import type { RunFields, RunObject } from './kind.ts'

export interface ResourceSeen {
  creationTimestamp: string | undefined
  spec: RunFields
  status: RunStatus | undefined
  /** The resource has the name but other inputs: its state says nothing about the row. */
  isForeign: boolean
}

/**
 * What to do about a row that has been processing for a while. `project`: the cluster is done and no worker
 * recorded it. `create`: no resource works on it. `replace`: the resource with its name works on something else.
 * `give-up`: its resource has shown no sign of life for longer than all of its attempts could take, and neither has the
 * queue before it. Times in a status are old after every pause of the cluster, and so this is a reason to watch the
 * resource for `WATCHED_SECONDS`, not yet to end the run.
 */
export type Repair = 'wait' | 'project' | 'create' | 'replace' | 'give-up'

/** For how long a worker must have seen for itself that nothing moves: nodes and operator come back within it. */
export const WATCHED_SECONDS = 3600

export interface RepairSeen {
  resource: ResourceSeen | undefined
  /** The manifest exists: a resource finished its work and has been cleaned up since. */
  isCommitted: boolean
  marginSeconds: number
  now: Date
  /** Since this process last saw the resource suspended: nothing in its status dates the resumption. */
  secondsSinceSuspended?: number | undefined
  /** All known resources of all kinds; called only where they matter. */
  others?: () => Iterable<Queued>
}

type Queued = Pick<ResourceSeen, 'creationTimestamp' | 'status'>

/** A resource in the queue for nodes, which all kinds share: one may have to wait for a long backlog of another. */
export const queued = ({ metadata, status }: RunObject): Queued => ({
  creationTimestamp: metadata.creationTimestamp,
  status,
})

export function repairOf(seen: RepairSeen): Repair {
  const { resource, isCommitted, marginSeconds, now } = seen
  if (!resource) return isCommitted ? 'project' : 'create'
  if (resource.isForeign) return 'replace'
  if (isFinished(resource.status)) return 'project'
  if (resource.spec.suspend) return 'wait'
  const budgetSeconds = resource.spec.attemptDeadlineSeconds * resource.spec.maxAttempts + marginSeconds
  if (seen.secondsSinceSuspended !== undefined && seen.secondsSinceSuspended <= budgetSeconds) return 'wait'
  const isSilent = (sign: number) => now.getTime() - sign > budgetSeconds * 1000
  if (!isSilent(lastSignOf(resource))) return 'wait'
  return isSilent(lastMoveOfQueue(resource, seen.others?.() ?? [])) ? 'give-up' : 'wait'
}

/** Changes with every sign of life of the resource, and of the queue before it. */
export const signsOf = (uid: string | undefined, resource: ResourceSeen, others: Iterable<Queued>): string =>
  [uid, resource.status?.phase, lastSignOf(resource), lastMoveOfQueue(resource, others)].join(' ')

/**
 * When the resources created no later than this pending one last worked, in milliseconds since the epoch. Later ones do
 * not count: a resource that all others overtake waits for something else.
 */
function lastMoveOfQueue(resource: ResourceSeen, others: Iterable<Queued>) {
  const created = Date.parse(resource.creationTimestamp ?? '')
  if (resource.status?.phase !== 'Pending') return 0
  let last = 0
  for (const { creationTimestamp, status } of others) {
    if (Date.parse(creationTimestamp ?? '') > created) continue
    for (const sign of [status?.startTime, status?.progress?.updatedAt, status?.completionTime]) {
      if (sign) last = Math.max(last, Date.parse(sign))
    }
  }
  return last
}

function lastSignOf({ creationTimestamp, status }: ResourceSeen): number {
  const signs = [
    creationTimestamp,
    status?.startTime,
    status?.progress?.updatedAt,
    succeededOf(status)?.lastTransitionTime,
  ]
  return Math.max(0, ...signs.flatMap((sign) => (sign ? [Date.parse(sign)] : [])))
}
