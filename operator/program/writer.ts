import { isDeepStrictEqual } from 'node:util'
import type { RunStatus } from '../../crds/run.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import { type Cluster, isClusterError, JOBS } from '../../lib/runtime/kube/cluster.ts'
import type { Job } from '../jobs/batch.ts'
import { trimJob } from '../jobs/trim.ts'
import type { OwnWrites } from '../runtime/own-writes.ts'
import type { ProgramKind, RawResource } from './kind.ts'
import type { Plan } from './plan.ts'
import { PROGRESS_MANAGER, type ProgressFields, withoutProgress } from './progress.ts'

export const STATUS_MANAGER = 'keepsake-operator'

export interface WriterDeps {
  cluster: Pick<Cluster, 'get' | 'create' | 'patch' | 'applyStatus' | 'delete'>
  written: OwnWrites<RawResource>
  /** Called before every write; throws when this process may no longer write. */
  check(): void
}

/** The writes for one resource. Each may be repeated and is guarded by the version or uid of its object. */
export function writerFor(
  kind: Pick<ProgramKind, 'resource'>,
  object: RawResource,
  { cluster, written, check }: WriterDeps,
) {
  const { namespace = '', name, uid = '' } = object.metadata
  // The version guards the write: a verdict must never reach a resource that was re-created under the same name.
  let resourceVersion = object.metadata.resourceVersion ?? ''

  async function applyStatus(fields: object, manager: string): Promise<boolean> {
    check()
    const after = await cluster
      .applyStatus<RawResource>(kind.resource, { namespace, name, resourceVersion }, fields, manager)
      .catch(undefinedIfGone)
    if (after) {
      written.remember(after)
      resourceVersion = after.metadata.resourceVersion ?? ''
    }
    return after !== undefined
  }

  return {
    /** Undefined when the Job was created; otherwise the existing Job of that name. */
    async createJob(job: Job): Promise<Job | undefined> {
      check()
      failpoint('operator.create-job')
      try {
        await cluster.create(JOBS, job)
      } catch (error) {
        const existing = isClusterError(error, 'AlreadyExists')
          ? await cluster.get<Job>(JOBS, { namespace, name: job.metadata.name })
          : undefined
        if (!existing) throw error // also when it was deleted in between: requeue
        return trimJob(existing) // trimmed as in the cache, so that the plan sees the same fields
      }
      failpoint('operator.job-created')
      return undefined
    },

    /** Throws when the API server refuses it, also when it exists. */
    async createHelpers(job: Job): Promise<void> {
      check()
      failpoint('operator.create-helpers')
      await cluster.create(JOBS, job)
      failpoint('operator.helpers-created')
    },

    /** One write, so that a Job never ends without the annotation that says why. */
    async patchJob({ name: jobName, spec, annotations }: NonNullable<Plan['patchJob']>): Promise<void> {
      check()
      const change = { ...(annotations && { metadata: { annotations } }), spec }
      failpoint('operator.patch-job')
      await cluster.patch(JOBS, { namespace, name: jobName }, change).catch(undefinedIfGone)
      failpoint('operator.job-patched')
    },

    async writeProgress(fields: ProgressFields): Promise<void> {
      failpoint('operator.apply-progress')
      await applyStatus(fields, PROGRESS_MANAGER)
      failpoint('operator.progress-applied')
    },

    /** Writes status unless it is unchanged. False when nothing was written. */
    async writeStatus(next: RunStatus): Promise<boolean> {
      if (isDeepStrictEqual(withoutProgress(object.status), next)) return false
      failpoint('operator.apply-status')
      const isWritten = await applyStatus(next, STATUS_MANAGER)
      failpoint('operator.status-applied')
      return isWritten
    },

    async deleteJob({ metadata }: Job): Promise<void> {
      check()
      const tie = metadata.uid ? { uid: metadata.uid } : {}
      failpoint('operator.delete-job')
      await cluster.delete(JOBS, { namespace, name: metadata.name }, tie)
      failpoint('operator.job-deleted')
    },

    async deleteResource(): Promise<void> {
      check()
      failpoint('operator.delete-resource')
      await cluster.delete(kind.resource, { namespace, name }, { uid })
      failpoint('operator.resource-deleted')
    },
  }
}
export type Writer = ReturnType<typeof writerFor>

function undefinedIfGone(error: unknown): undefined {
  if (!isClusterError(error, 'NotFound')) throw error
}
