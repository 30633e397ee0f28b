import { parseRetentionPolicy, type RetentionPolicy } from '../../crds/retention-policy.ts'
import { type Cluster, JOBS, PODS } from '../../lib/runtime/kube/cluster.ts'
import { isJobFinished, isOwnedBy, type Job, type Pod } from '../jobs/batch.ts'
import type { JobCaches } from '../jobs/caches.ts'
import { OUR_LABELS, OWNER_UID } from '../jobs/labels.ts'
import { trimJob, trimPod } from '../jobs/trim.ts'
import { openRun, type Seen } from './plan.ts'
import type { PolicyCache, RawPolicy } from './resources.ts'

/** Keeps a policy that is deleted until its run has ended. */
export const FINALIZER = 'media.keepsake.dev/retention'

export interface ObserverDeps {
  cluster: Pick<Cluster, 'get' | 'list'>
  caches: PolicyCache & Pick<JobCaches, 'jobsOf' | 'podsOf'>
  /** Digest of the template of pods; undefined: there is none. */
  template: string | undefined
  now(): Date
}

/** Stands for a spec that is none: nothing starts, and a run that has started can end. */
const NO_SPEC: RetentionPolicy['spec'] = {
  target: 'MediaTrash',
  schedule: '0 0 1 1 *',
  rules: [],
  batchSize: 1,
  parallelism: 1,
  suspend: false,
  dryRun: true,
  maxDuePercent: 1,
}

/** Collects what a decision about a policy is based on. While nothing runs, that is the caches alone. */
export function observer({ cluster, caches, template, now }: ObserverDeps) {
  /** `isFresh`: read the Jobs from the API server, because the cache may not show one that was just created. */
  async function observe(object: RawPolicy, isFresh = false): Promise<Seen> {
    const parsed = parseRetentionPolicy(object)
    const policy = 'resource' in parsed ? parsed.resource : ({ ...object, spec: NO_SPEC } as unknown as RetentionPolicy)
    const { metadata } = policy
    const first = caches.inForce(object)
    const jobs = await jobsOf(policy, isFresh || metadata.deletionTimestamp !== undefined)
    const open = openRun({ policy, jobs })
    const pods = open ? await podsOf(policy, open) : []
    caches.noteResults(pods)
    return {
      policy,
      ...('problem' in parsed && { problem: parsed.problem }),
      hasFinalizer: object.metadata.finalizers?.includes(FINALIZER) ?? false,
      rival: 'problem' in parsed || first.metadata.uid === metadata.uid ? undefined : first.metadata.name,
      jobs,
      pods,
      result: open && caches.resultOf(open.metadata.uid ?? ''),
      template,
      now: now(),
    }
  }

  async function jobsOf({ metadata, status }: RetentionPolicy, isFresh: boolean): Promise<Job[]> {
    const { namespace, uid } = metadata
    const cached = isFresh
      ? (await cluster.list<Job>(JOBS, { namespace, labelSelector: `${OUR_LABELS},${OWNER_UID}=${uid}` })).map(trimJob)
      : caches.jobsOf(uid)
    const own = cached.filter((job) => isOwnedBy(job, uid))
    const active = status?.active
    if (active === undefined || own.some((job) => job.metadata.name === active)) return own
    // Before the run counts as lost: the cache may not show its Job yet.
    const job = await cluster.get<Job>(JOBS, { namespace, name: active })
    return job && isOwnedBy(job, uid) ? [...own, trimJob(job)] : own
  }

  /** After a start of the operator the cache lacks pods that had succeeded, and it may show fewer than still run. */
  async function podsOf({ metadata }: RetentionPolicy, open: Job): Promise<Pod[]> {
    const { namespace, uid } = metadata
    const mine = (pods: Pod[]) => pods.filter((pod) => isOwnedBy(pod, open.metadata.uid ?? ''))
    const hasSucceeded = (open.status?.succeeded ?? 0) > 0
    if (!isJobFinished(open) && !open.spec.suspend && !hasSucceeded) return mine(caches.podsOf(uid))
    const labelSelector = `${OUR_LABELS},${OWNER_UID}=${uid}`
    return mine((await cluster.list<Pod>(PODS, { namespace, labelSelector })).map(trimPod))
  }

  return { observe }
}
