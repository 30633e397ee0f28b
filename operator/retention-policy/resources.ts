import { isDeepStrictEqual } from 'node:util'
import {
  byAge,
  CONFIRM_RUN,
  RETENTION_POLICIES,
  type RetentionPolicy,
  RUN_REQUESTED,
} from '../../crds/retention-policy.ts'
import type { Cluster, KubeObject, ObjectKey, Reflection } from '../../lib/runtime/kube/cluster.ts'
import type { Pod } from '../jobs/batch.ts'
import type { OwnerChanged } from '../jobs/caches.ts'
import { OwnWrites } from '../runtime/own-writes.ts'
import { further, type PodResult, resultOf } from './result.ts'

/** A policy as the API server returns it, not yet validated. */
export interface RawPolicy extends KubeObject {
  spec?: Partial<RetentionPolicy['spec']>
  status?: RetentionPolicy['status']
}

export interface PolicyCacheOptions {
  cluster: Pick<Cluster, 'reflect'>
  /** All namespaces when undefined. */
  namespace: string | undefined
  /** The policy, its Job or a pod has changed. */
  onChange(key: ObjectKey): void
  onInterrupted?(): void
}

/** The operator's view of the policies, trimmed. */
export interface PolicyCache {
  policies: Reflection<RawPolicy>
  /** The operator's last writes, for policies whose cache has not caught up. */
  written: OwnWrites<RawPolicy>
  /** Call when a Job or a pod of this policy has changed. */
  childChanged: OwnerChanged
  /** The policy that is in force for the target of this one; itself, unless an older one is. */
  inForce(policy: RawPolicy): RawPolicy
  /** The furthest result that the pods of a Job left. The Job may remove a pod before it is looked at. */
  resultOf(jobUid: string): PodResult | undefined
  noteResults(pods: readonly Pod[]): void
  forgetResult(jobUid: string): void
}

export function openPolicyCache({ cluster, namespace, onChange, onInterrupted }: PolicyCacheOptions): PolicyCache {
  const written = new OwnWrites<RawPolicy>(trimPolicy)
  const results = new Map<string, PodResult>()
  const policies = cluster.reflect<RawPolicy>(
    RETENTION_POLICIES,
    {
      onSet(object, old) {
        if (!old) for (const other of sameTarget(object)) onChange(keyOf(other)) // which of them is in force may change
        if (!old || (!written.isEcho(object) && concernsUs(old, object))) onChange(keyOf(object))
      },
      onDelete(object) {
        written.forget(object)
        for (const other of sameTarget(object)) onChange(keyOf(other))
      },
      onError: () => onInterrupted?.(),
    },
    { ...(namespace !== undefined && { namespace }), trim: trimPolicy },
  )

  function sameTarget({ metadata, spec }: RawPolicy): RawPolicy[] {
    return policies
      .list()
      .filter(
        (other) =>
          other.metadata.uid !== metadata.uid &&
          other.metadata.namespace === metadata.namespace &&
          other.spec?.target === spec?.target,
      )
  }

  function noteResults(pods: readonly Pod[]): void {
    for (const pod of pods) {
      const jobUid = jobOf(pod)?.uid
      const best = jobUid && further(results.get(jobUid), resultOf(pod))
      if (best) results.set(jobUid, best)
    }
  }

  return {
    policies,
    written,
    childChanged(key, child) {
      // Not of a run that is recorded, whose pods end much later.
      const policy = policies.get(key)
      const { active } = (policy && written.freshest(policy).status) ?? {}
      if (active !== undefined && jobOf(child)?.name === active) noteResults([child as Pod])
      onChange(key)
    },
    inForce: (policy) => [policy, ...sameTarget(policy)].sort(byAge)[0] ?? policy,
    resultOf: (jobUid) => results.get(jobUid),
    noteResults,
    forgetResult: (jobUid) => void results.delete(jobUid),
  }
}

const jobOf = ({ metadata }: KubeObject) => metadata.ownerReferences?.find((o) => o.kind === 'Job')

/** Only what the plan reads. */
export function trimPolicy(policy: RawPolicy): RawPolicy {
  const { name, namespace, uid, resourceVersion, generation, creationTimestamp, deletionTimestamp, finalizers } =
    policy.metadata
  const annotations = Object.fromEntries(
    Object.entries(policy.metadata.annotations ?? {}).filter(([key]) => key === RUN_REQUESTED || key === CONFIRM_RUN),
  )
  return {
    ...policy,
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(generation !== undefined && { generation }),
      ...(creationTimestamp !== undefined && { creationTimestamp }),
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
      ...(finalizers && { finalizers }),
      ...(Object.keys(annotations).length > 0 && { annotations }),
    },
  }
}

/** Whether a change needs a reconcile: also that of a status which another client wrote. */
function concernsUs(old: RawPolicy, fresh: RawPolicy): boolean {
  const decided = ({ metadata, status }: RawPolicy) => {
    const { resourceVersion: _, ...rest } = metadata
    return [rest, status]
  }
  return !isDeepStrictEqual(decided(old), decided(fresh))
}

const keyOf = ({ metadata }: KubeObject): ObjectKey => ({ namespace: metadata.namespace ?? '', name: metadata.name })
