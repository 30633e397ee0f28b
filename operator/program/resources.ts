import { isDeepStrictEqual } from 'node:util'
import { isFinished } from '../../crds/run.ts'
import type { Cluster, KubeObject, ObjectKey, Reflection } from '../../lib/runtime/kube/cluster.ts'
import { trimResource } from '../jobs/trim.ts'
import { OwnWrites } from '../runtime/own-writes.ts'
import type { ProgramKind, RawResource } from './kind.ts'
import { withoutProgress } from './progress.ts'

export interface ResourceCacheOptions {
  cluster: Pick<Cluster, 'reflect'>
  kind: Pick<ProgramKind, 'resource'>
  /** All namespaces when undefined. */
  namespace: string | undefined
  /** The resource, its Job or a pod has changed. `urgency`: 10 interactive, 0 normal, -10 backfill. */
  onChange(key: ObjectKey, urgency: number): void
  onGone(uid: string): void
  onInterrupted?(): void
}

/** The operator's view of the resources of one kind, trimmed. */
export interface ResourceCache {
  resources: Reflection<RawResource>
  /** The operator's last writes, for resources whose cache has not caught up. */
  written: OwnWrites<RawResource>
  /** Call when a Job or a pod of this resource has changed. */
  childChanged(owner: ObjectKey): void
}

const URGENCY = { interactive: 10, normal: 0, backfill: -10 } as const
const urgencyOf = (object: RawResource) => URGENCY[object.spec?.priority ?? 'normal'] ?? 0

export function openResourceCache(options: ResourceCacheOptions): ResourceCache {
  const { cluster, kind, namespace, onChange } = options
  const written = new OwnWrites<RawResource>(trimResource)
  const resources = cluster.reflect<RawResource>(
    kind.resource,
    {
      onSet(object, old) {
        // The operator's own write needs no reconcile, except the final one, after which cleanup remains.
        const isEcho = written.isEcho(object) && !isFinished(object.status)
        if (!old || (!isEcho && concernsUs(old, object))) onChange(keyOf(object), urgencyOf(object))
      },
      onDelete(object) {
        written.forget(object)
        options.onGone(object.metadata.uid ?? '')
      },
      onError: () => options.onInterrupted?.(),
    },
    { ...(namespace !== undefined && { namespace }), trim: trimResource },
  )
  return {
    resources,
    written,
    childChanged(key) {
      const owner = resources.get(key)
      onChange(key, owner ? urgencyOf(owner) : 0)
    },
  }
}

/** Whether a change needs a reconcile. Progress of running work does not; after the end it must be corrected. */
function concernsUs(old: RawResource, object: RawResource): boolean {
  if (old.metadata.uid !== object.metadata.uid || isFinished(object.status)) return true
  const decided = ({ metadata, status }: RawResource) => [
    metadata.generation,
    metadata.deletionTimestamp,
    withoutProgress(status),
  ]
  return !isDeepStrictEqual(decided(old), decided(object))
}

const keyOf = ({ metadata }: KubeObject): ObjectKey => ({ namespace: metadata.namespace ?? '', name: metadata.name })
