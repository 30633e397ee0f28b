import { isFinished, succeededOf, type TranscodeJobSpec, type TranscodeJobStatus } from '../../crds/transcode-job.ts'

export interface ResourceSeen {
  creationTimestamp: string | undefined
  spec: Pick<TranscodeJobSpec, 'attemptDeadlineSeconds' | 'maxAttempts' | 'suspend'>
  status: TranscodeJobStatus | undefined
  /** It bears the name, but its inputs are others: whatever becomes of it says nothing about the media. */
  isForeign: boolean
}

/**
 * What to do about a media that has been processing for a while. `project`: the cluster is done and nobody wrote it
 * down. `create`: nothing works on it. `replace`: what has its name works on something else. `give-up`: something does, but
 * without a sign of life for longer than all of its attempts could take, and neither does the queue before it move.
 */
export type Repair = 'wait' | 'project' | 'create' | 'replace' | 'give-up'

export interface RepairSeen {
  resource: ResourceSeen | undefined
  /** The manifest is there: a resource that has been cleaned up since finished its work. */
  isCommitted: boolean
  marginSeconds: number
  now: Date
  /** All resources that are known: asked for only where it matters. */
  others?: () => Iterable<Pick<ResourceSeen, 'creationTimestamp' | 'status'>>
}

export function repairOf(seen: RepairSeen): Repair {
  const { resource, isCommitted, marginSeconds, now } = seen
  if (!resource) return isCommitted ? 'project' : 'create'
  if (resource.isForeign) return 'replace'
  if (isFinished(resource.status)) return 'project'
  if (resource.spec.suspend) return 'wait'
  const budgetSeconds = resource.spec.attemptDeadlineSeconds * resource.spec.maxAttempts + marginSeconds
  const isSilent = (sign: number) => now.getTime() - sign > budgetSeconds * 1000
  if (!isSilent(lastSignOf(resource))) return 'wait'
  return isSilent(lastMoveOfQueue(resource, seen.others?.() ?? [])) ? 'give-up' : 'wait'
}

/**
 * When one that came no later than this one, which waits for its place, was last at work. What came later does not
 * count: a resource that all others overtake waits for something else.
 */
function lastMoveOfQueue(resource: ResourceSeen, others: Iterable<Pick<ResourceSeen, 'creationTimestamp' | 'status'>>) {
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
