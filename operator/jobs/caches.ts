import {
  type Cluster,
  JOBS,
  type KubeObject,
  type ObjectKey,
  PODS,
  type ReflectHandlers,
  type Reflection,
  type Resource,
} from '../../lib/runtime/kube/cluster.ts'
import { LabelIndex } from '../runtime/label-index.ts'
import type { Job, Pod } from './batch.ts'
import { NO_HELPERS, OUR_LABELS, OWNER_UID } from './labels.ts'
import { isHelperJob, isSame, trimJob, trimPod } from './trim.ts'

/** Is told that a Job or a pod of this resource has changed, or is gone. */
export type OwnerChanged = (owner: ObjectKey, child: KubeObject) => void

export interface JobCacheOptions {
  cluster: Pick<Cluster, 'reflect'>
  /** All namespaces when undefined. */
  namespace: string | undefined
  /** For each kind, the annotation that holds the name of the resource, and who is told. */
  owners: ReadonlyMap<string, OwnerChanged>
  onInterrupted?(resource: Resource): void
}

/** The Jobs and pods of all kinds, trimmed to the fields that the operator reads. The pods of helpers are not among them. */
export interface JobCaches {
  jobs: Reflection<Job>
  pods: Reflection<Pod>
  /** Without the Jobs of helpers. */
  jobsOf(ownerUid: string): Job[]
  /** The Jobs of helpers alone. */
  helpersOf(ownerUid: string): Job[]
  podsOf(ownerUid: string): Pod[]
  stop(): Promise<void>
}

export function openJobCaches({ cluster, namespace, owners, onInterrupted }: JobCacheOptions): JobCaches {
  const jobIndex = new LabelIndex<Job>(OWNER_UID)
  const helperIndex = new LabelIndex<Job>(OWNER_UID)
  const podIndex = new LabelIndex<Pod>(OWNER_UID)
  const scope = { ...(namespace !== undefined && { namespace }), labelSelector: OUR_LABELS }

  function changed(child: KubeObject): void {
    const { namespace: ns = '', annotations = {} } = child.metadata
    for (const [annotation, tell] of owners) {
      const name = annotations[annotation]
      if (name) tell({ namespace: ns, name }, child)
    }
  }

  const indexed = <T extends KubeObject>(
    indexFor: (object: T) => LabelIndex<T>,
    resource: Resource,
  ): ReflectHandlers<T> => ({
    onSet(object, old) {
      if (old && indexFor(old) !== indexFor(object)) indexFor(old).delete(old) // a user has edited the label
      indexFor(object).set(object, old)
      if (!isSame(old, object)) changed(object)
    },
    onDelete(object) {
      indexFor(object).delete(object)
      changed(object)
    },
    onError: () => onInterrupted?.(resource),
  })

  const indexOf = ({ metadata }: Job) => (isHelperJob(metadata) ? helperIndex : jobIndex)
  const jobs = cluster.reflect<Job>(JOBS, indexed(indexOf, JOBS), { ...scope, trim: trimJob })
  // Do not list the thousands of succeeded pods. Where the result is not recorded yet, podsOf() in observe.ts reads them
  // directly.
  const listFieldSelector = 'status.phase!=Succeeded'
  const pods = cluster.reflect<Pod>(
    PODS,
    indexed(() => podIndex, PODS),
    { ...scope, labelSelector: `${OUR_LABELS},${NO_HELPERS}`, listFieldSelector, trim: trimPod },
  )
  return {
    jobs,
    pods,
    jobsOf: (uid) => jobIndex.list(uid),
    helpersOf: (uid) => helperIndex.list(uid),
    podsOf: (uid) => podIndex.list(uid),
    async stop() {
      await Promise.all([jobs.stop(), pods.stop()])
    },
  }
}
