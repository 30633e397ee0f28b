import { isFinished, type Run, succeededOf } from '../../crds/run.ts'
import { type Cluster, JOBS, PODS } from '../../lib/runtime/kube/cluster.ts'
import { isOwnedBy, type Job, jobCondition, type Pod } from '../jobs/batch.ts'
import type { JobCaches } from '../jobs/caches.ts'
import { isConclusive, isTelling } from '../jobs/evidence.ts'
import { NO_HELPERS, OUR_LABELS, OWNER_UID } from '../jobs/labels.ts'
import { trimJob, trimPod } from '../jobs/trim.ts'
import { childName, formerName, type ProgramConfig } from './child.ts'
import type { ProgramKind } from './kind.ts'
import type { Observed } from './observed.ts'
import { currentNumber } from './status.ts'

export interface ObserverDeps {
  kind: ProgramKind
  cluster: Pick<Cluster, 'get' | 'list'>
  caches: Pick<JobCaches, 'jobs' | 'jobsOf' | 'helpersOf' | 'podsOf'>
  config: ProgramConfig
  /** Since when this process leads. */
  leadingSince(): Date
  now(): Date
}

/** Between this process and the API server. */
const CLOCK_SKEW_MS = 60_000
/** A watch that says nothing is given up after 150 s and resumed after at most 30 s; twice that is long enough. */
const CACHE_LAG_MS = 360_000

/** Collects what a decision about a resource is based on. */
export function observer({ kind, cluster, caches, config, leadingSince, now }: ObserverDeps) {
  async function observe(resource: Run): Promise<Observed> {
    const { namespace, uid } = resource.metadata
    const name = childName(kind, resource, currentNumber(resource))
    const cached = caches.jobs.get({ namespace, name }) ?? formerJob(resource)
    const current = cached?.metadata.name ?? name
    const isOther = (j: Job) => j.metadata.name !== current && isOwnedBy(j, uid)
    const leftovers = caches.jobsOf(uid).filter(isOther)
    const helpers = caches.helpersOf(uid).filter(isOther)
    const pods = await podsOf(resource, cached)
    const job = await recheck(resource, cached, pods)
    return { kind, resource, job, pods, leftovers, helpers, config, now: now() }
  }

  /**
   * A failed Job without a pod that says why is read again before the reason counts as lost: the cache may not show yet
   * that the Job is being collected, which deletes its pods first.
   */
  async function recheck({ metadata, status }: Run, job: Job | undefined, pods: Pod[]): Promise<Job | undefined> {
    if (!job || pods.some(isTelling) || !jobCondition(job, 'Failed') || isFinished(status)) return job
    if (!isOwnedBy(job, metadata.uid) || job.metadata.deletionTimestamp) return job
    const fresh = await cluster.get<Job>(JOBS, { namespace: metadata.namespace, name: job.metadata.name })
    return fresh && trimJob(fresh)
  }

  /** The current Job, if an earlier version of the operator made it under another name. */
  function formerJob(resource: Run): Job | undefined {
    const { namespace, uid } = resource.metadata
    const name = formerName(kind, resource, currentNumber(resource))
    const job = name === undefined ? undefined : caches.jobs.get({ namespace, name })
    return job && isOwnedBy(job, uid) ? job : undefined
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
    const labelSelector = `${OUR_LABELS},${NO_HELPERS},${OWNER_UID}=${uid}`
    return mine((await cluster.list<Pod>(PODS, { namespace, labelSelector })).map(trimPod))
  }

  return {
    observe,
    /**
     * Reads the Job that an earlier version of the operator may have made just before this process began to lead, while
     * the cache does not know it yet: under another name nothing else prevents a second one.
     */
    async readFormerJob(resource: Run): Promise<Job | undefined> {
      const { namespace, uid, creationTimestamp = '' } = resource.metadata
      const name = formerName(kind, resource, currentNumber(resource))
      const since = leadingSince().getTime()
      const isNewer = Date.parse(creationTimestamp) > since + CLOCK_SKEW_MS
      if (name === undefined || isNewer || now().getTime() > since + CACHE_LAG_MS) return undefined
      const job = await cluster.get<Job>(JOBS, { namespace, name })
      return job && isOwnedBy(job, uid) ? trimJob(job) : undefined
    },
    /** The same with a Job that the cache does not know yet. */
    async observeWith(seen: Observed, job: Job): Promise<Observed> {
      return { ...seen, job, pods: await podsOf(seen.resource, job) }
    },
  }
}
