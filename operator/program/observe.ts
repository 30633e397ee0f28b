import { isFinished, type Run, succeededOf } from '../../crds/run.ts'
import { type Cluster, PODS } from '../../lib/runtime/kube/cluster.ts'
import { isOwnedBy, type Job, type Pod } from '../jobs/batch.ts'
import type { JobCaches } from '../jobs/caches.ts'
import { isConclusive } from '../jobs/evidence.ts'
import { OUR_LABELS, OWNER_UID } from '../jobs/labels.ts'
import { trimPod } from '../jobs/trim.ts'
import { childName, type ProgramConfig } from './child.ts'
import type { ProgramKind } from './kind.ts'
import type { Observed } from './observed.ts'
import { currentNumber } from './status.ts'

export interface ObserverDeps {
  kind: ProgramKind
  cluster: Pick<Cluster, 'list'>
  caches: Pick<JobCaches, 'jobs' | 'jobsOf' | 'podsOf'>
  config: ProgramConfig
  now(): Date
}

/** Collects what a decision about a resource is based on. */
export function observer({ kind, cluster, caches, config, now }: ObserverDeps) {
  async function observe(resource: Run): Promise<Observed> {
    const { namespace, uid } = resource.metadata
    const name = childName(kind, resource, currentNumber(resource))
    const job = caches.jobs.get({ namespace, name })
    const leftovers = caches.jobsOf(uid).filter((j) => j.metadata.name !== name && isOwnedBy(j, uid))
    return { kind, resource, job, pods: await podsOf(resource, job), leftovers, config, now: now() }
  }

  /**
   * The pods of this Job only: a pod of an earlier Job with the same name may still be ending. Where the cache is not
   * conclusive, the verdict could be wrong and final, so the pods are read from the API server.
   */
  async function podsOf({ metadata, status }: Run, job: Job | undefined): Promise<Pod[]> {
    const jobUid = job?.metadata.uid
    if (!job || !jobUid) return []
    const { namespace, uid } = metadata
    const mine = (pods: Pod[]) => pods.filter((p) => isOwnedBy(p, jobUid))
    const known = mine(caches.podsOf(uid))
    const wasRunning = succeededOf(status)?.reason === 'Running'
    if (isFinished(status) || isConclusive(job, known, now(), wasRunning)) return known
    const labelSelector = `${OUR_LABELS},${OWNER_UID}=${uid}`
    return mine((await cluster.list<Pod>(PODS, { namespace, labelSelector })).map(trimPod))
  }

  return {
    observe,
    /** The same with a Job that the cache does not know yet. */
    async observeWith(seen: Observed, job: Job): Promise<Observed> {
      return { ...seen, job, pods: await podsOf(seen.resource, job) }
    },
  }
}
