import { isDeepStrictEqual } from 'node:util'
import { isFinished, type RunStatus } from '../../crds/run.ts'
import { TRANSCODE_JOBS, type TranscodeJobSpec } from '../../crds/transcode-job.ts'
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
import { OUR_LABELS, OWNER_NAME, OWNER_UID } from '../program/child.ts'
import { LabelIndex } from '../runtime/label-index.ts'
import { OwnWrites } from '../runtime/own-writes.ts'
import type { Job, Pod } from './batch.ts'
import { isSame, trimJob, trimPod, trimResource } from './trim.ts'

/** A TranscodeJob as the API server returns it, not yet validated. */
export interface RawTranscodeJob extends KubeObject {
  spec?: Partial<TranscodeJobSpec>
  status?: RunStatus
}

export interface CacheOptions {
  cluster: Pick<Cluster, 'reflect'>
  /** All namespaces when undefined. */
  namespace: string | undefined
  /** The resource, its Job or a pod has changed. `urgency`: 10 interactive, 0 normal, -10 backfill. */
  onChange(key: ObjectKey, urgency: number): void
  onGone(object: RawTranscodeJob): void
  onInterrupted?(resource: Resource): void
}

/** The operator's view of the cluster: resources, their Jobs and their pods, trimmed to the fields that it reads. */
export interface Caches {
  all: Reflection<KubeObject>[]
  resources: Reflection<RawTranscodeJob>
  /** The operator's last writes, for resources whose cache has not caught up. */
  written: OwnWrites<RawTranscodeJob>
  jobs: Reflection<Job>
  jobsOf(ownerUid: string): Job[]
  podsOf(ownerUid: string): Pod[]
  stop(): Promise<void>
}

const URGENCY = { interactive: 10, normal: 0, backfill: -10 } as const
const urgencyOf = (object: RawTranscodeJob) => URGENCY[object.spec?.priority ?? 'normal'] ?? 0

export function openCaches(options: CacheOptions): Caches {
  const { cluster, namespace, onChange, onGone } = options
  const written = new OwnWrites<RawTranscodeJob>(trimResource)
  const jobIndex = new LabelIndex<Job>(OWNER_UID)
  const podIndex = new LabelIndex<Pod>(OWNER_UID)
  const scope = namespace === undefined ? {} : { namespace }
  const ours = { ...scope, labelSelector: OUR_LABELS }
  const onError = (resource: Resource) => ({ onError: () => options.onInterrupted?.(resource) })

  function ownerChanged(object: KubeObject): void {
    const { namespace: ns = '', annotations } = object.metadata
    const name = annotations?.[OWNER_NAME]
    if (!name) return
    const key = { namespace: ns, name }
    const owner = resources?.get(key)
    onChange(key, owner ? urgencyOf(owner) : 0)
  }

  const indexed = <T extends KubeObject>(index: LabelIndex<T>, resource: Resource): ReflectHandlers<T> => ({
    onSet(object, old) {
      index.set(object, old)
      if (!isSame(old, object)) ownerChanged(object)
    },
    onDelete(object) {
      index.delete(object)
      ownerChanged(object)
    },
    ...onError(resource),
  })

  // Assigned before any handler can run: reflections call handlers in later turns of the event loop.
  let resources: Reflection<RawTranscodeJob> | undefined
  resources = cluster.reflect<RawTranscodeJob>(
    TRANSCODE_JOBS,
    {
      onSet(object, old) {
        // The operator's own write needs no reconcile, except the final one, after which cleanup remains.
        const isEcho = written.isEcho(object) && !isFinished(object.status)
        if (!old || (!isEcho && concernsUs(old, object))) onChange(keyOf(object), urgencyOf(object))
      },
      onDelete(object) {
        written.forget(object)
        onGone(object)
      },
      ...onError(TRANSCODE_JOBS),
    },
    { ...scope, trim: trimResource },
  )
  const jobs = cluster.reflect<Job>(JOBS, indexed(jobIndex, JOBS), { ...ours, trim: trimJob })
  // Do not list the thousands of succeeded pods. Where the result is not recorded yet, podsOf() in reconcile.ts reads
  // them directly.
  const listFieldSelector = 'status.phase!=Succeeded'
  const pods = cluster.reflect<Pod>(PODS, indexed(podIndex, PODS), { ...ours, listFieldSelector, trim: trimPod })
  const all = [resources, jobs, pods]
  return {
    all,
    resources,
    written,
    jobs,
    jobsOf: (uid) => jobIndex.list(uid),
    podsOf: (uid) => podIndex.list(uid),
    async stop() {
      await Promise.all(all.map((r) => r.stop()))
    },
  }
}

/** Whether a change needs a reconcile. Progress of running work does not; after the end it must be corrected. */
function concernsUs(old: RawTranscodeJob, object: RawTranscodeJob): boolean {
  if (old.metadata.uid !== object.metadata.uid || isFinished(object.status)) return true
  const decided = ({ metadata, status }: RawTranscodeJob) => {
    const { progress: _, accelerator: __, acceleratorReason: ___, ...rest } = status ?? {}
    return [metadata.generation, metadata.deletionTimestamp, rest]
  }
  return !isDeepStrictEqual(decided(old), decided(object))
}

const keyOf = ({ metadata }: KubeObject): ObjectKey => ({ namespace: metadata.namespace ?? '', name: metadata.name })
