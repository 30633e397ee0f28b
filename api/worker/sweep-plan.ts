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
 * down. `create`: nothing works on it. `replace`: what has its name works on something else. `give-up`: something does, but without a sign of life for longer than all of its
 * attempts could take.
 */
export type Repair = 'wait' | 'project' | 'create' | 'replace' | 'give-up'

export interface RepairSeen {
  resource: ResourceSeen | undefined
  /** The manifest is there: a resource that has been cleaned up since finished its work. */
  isCommitted: boolean
  marginSeconds: number
  now: Date
}

export function repairOf({ resource, isCommitted, marginSeconds, now }: RepairSeen): Repair {
  if (!resource) return isCommitted ? 'project' : 'create'
  if (resource.isForeign) return 'replace'
  if (isFinished(resource.status)) return 'project'
  if (resource.spec.suspend) return 'wait'
  const budgetSeconds = resource.spec.attemptDeadlineSeconds * resource.spec.maxAttempts + marginSeconds
  return now.getTime() - lastSignOf(resource) > budgetSeconds * 1000 ? 'give-up' : 'wait'
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
