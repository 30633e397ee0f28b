import { isDeepStrictEqual } from 'node:util'
import { RETENTION_POLICIES, type RetentionPolicyStatus } from '../../crds/retention-policy.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import { type Cluster, isClusterError, JOBS } from '../../lib/runtime/kube/cluster.ts'
import { isOwnedBy, type Job } from '../jobs/batch.ts'
import { trimJob } from '../jobs/trim.ts'
import type { OwnWrites } from '../runtime/own-writes.ts'
import type { RawPolicy } from './resources.ts'

const STATUS_MANAGER = 'keepsake-operator'

export interface WriterDeps {
  cluster: Pick<Cluster, 'get' | 'create' | 'patch' | 'applyStatus' | 'delete'>
  written: OwnWrites<RawPolicy>
  /** Called before every write; throws when this process may no longer write. */
  check(): void
}

/** The writes for one policy. Each may be repeated and is guarded by the version or uid of its object. */
export function writerFor(object: RawPolicy, { cluster, written, check }: WriterDeps) {
  const { namespace = '', name, uid = '' } = object.metadata
  let { resourceVersion = '' } = object.metadata

  function remember(after: RawPolicy): void {
    written.remember(after)
    resourceVersion = after.metadata.resourceVersion ?? ''
  }

  return {
    /** The Job of that name, whether it was there or not; undefined if it is another owner's. */
    async createJob(job: Job): Promise<{ job: Job; isNew: boolean } | undefined> {
      check()
      failpoint('operator.create-run')
      try {
        const made = await cluster.create(JOBS, job)
        failpoint('operator.run-created')
        return { job: trimJob(made), isNew: true }
      } catch (error) {
        const existing = isClusterError(error, 'AlreadyExists')
          ? await cluster.get<Job>(JOBS, { namespace, name: job.metadata.name })
          : undefined
        if (!existing) throw error // also when it was deleted in between: requeue
        return isOwnedBy(existing, uid) ? { job: trimJob(existing), isNew: false } : undefined
      }
    },

    async patchJob({ metadata }: Job, spec: object): Promise<void> {
      check()
      const change = { ...(metadata.uid && { metadata: { uid: metadata.uid } }), spec }
      await cluster.patch(JOBS, { namespace, name: metadata.name }, change).catch(ignoreGone)
    },

    async deleteJob({ metadata }: Job): Promise<void> {
      check()
      const tie = metadata.uid ? { uid: metadata.uid } : {}
      await cluster.delete(JOBS, { namespace, name: metadata.name }, tie).catch(ignoreGone)
    },

    /** False when the policy is gone. */
    async setFinalizers(change: (finalizers: readonly string[]) => string[]): Promise<boolean> {
      check()
      const finalizers = change(object.metadata.finalizers ?? [])
      const patch = { metadata: { resourceVersion, finalizers } }
      const after = await cluster.patch<RawPolicy>(RETENTION_POLICIES, { namespace, name }, patch).catch(ignoreGone)
      if (after) remember(after)
      return after !== undefined
    },

    /** Writes status unless it is unchanged. False when nothing was written. */
    async writeStatus(next: RetentionPolicyStatus): Promise<boolean> {
      if (isDeepStrictEqual(object.status, next)) return false
      check()
      failpoint('operator.apply-policy-status')
      const key = { namespace, name, resourceVersion }
      const after = await cluster
        .applyStatus<RawPolicy>(RETENTION_POLICIES, key, next, STATUS_MANAGER)
        .catch(ignoreGone)
      if (after) remember(after)
      failpoint('operator.policy-status-applied')
      return after !== undefined
    },
  }
}
export type Writer = ReturnType<typeof writerFor>

/** Gone, or another object has the name now. */
function ignoreGone(error: unknown): undefined {
  if (!isClusterError(error, 'NotFound')) throw error
}
