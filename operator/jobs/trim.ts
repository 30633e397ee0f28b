import { isDeepStrictEqual } from 'node:util'
import { GROUP } from '../../crds/kind.ts'
import type { KubeObject, ObjectMeta, OwnerReference } from '../../lib/runtime/kube/cluster.ts'
import type { ContainerStatus, Job, Pod } from './batch.ts'
import { HELPER, OWNER_UID, ROLE } from './labels.ts'

// The fields that the caches keep: this saves memory, and a change of any other field triggers no reconcile.

type Own = Pick<ObjectMeta, 'labels' | 'annotations' | 'ownerReferences'>

/** A resource without labels, annotations and managedFields. */
export const trimResource = <T extends KubeObject>(object: T): T => ({
  ...object,
  metadata: trimMetadata(object.metadata),
})

/** A Job with only the fields that the plan reads or changes. */
export function trimJob({ apiVersion, kind, metadata, spec, status }: Job): Job {
  const { suspend, ttlSecondsAfterFinished, parallelism, activeDeadlineSeconds } = spec
  const { conditions, startTime, completionTime, succeeded } = status ?? {}
  const failed = (status?.failed ?? 0) + (status?.uncountedTerminatedPods?.failed?.length ?? 0)
  const counts = { ...(succeeded && { succeeded }), ...(failed > 0 && { failed }) }
  return {
    ...(apiVersion && { apiVersion }),
    ...(kind && { kind }),
    metadata: { ...trimMetadata(metadata), ...ownParts(metadata) },
    spec: {
      ...(suspend !== undefined && { suspend }),
      ...(ttlSecondsAfterFinished !== undefined && { ttlSecondsAfterFinished }),
      ...(parallelism !== undefined && { parallelism }),
      ...(activeDeadlineSeconds !== undefined && { activeDeadlineSeconds }),
    },
    status: {
      ...(conditions && { conditions }),
      ...(startTime && { startTime }),
      ...(completionTime && { completionTime }),
      ...(!isHelperJob(metadata) && counts), // each of many pods would change them, and the plan reads them of no helpers
    },
  }
}

/** Whether this is a Job of helpers, by its label. */
export const isHelperJob = ({ labels }: Pick<ObjectMeta, 'labels'>): boolean => labels?.[ROLE] === HELPER

/** The pod conditions that the plan reads. */
const TELLING = ['PodScheduled', 'DisruptionTarget', 'Ready', 'ContainersReady']

/** A pod with only the fields that the plan reads. */
export function trimPod({ metadata, status }: Pod): Pod {
  const { phase, reason, message, conditions, containerStatuses, initContainerStatuses } = status ?? {}
  const telling = conditions?.filter((c) => TELLING.includes(c.type))
  const containers = containerStatuses?.map(trimContainer)
  // Of the sidecar the plan reads only why it cannot start.
  const waiting = initContainerStatuses?.flatMap(({ name, state }) =>
    state?.waiting ? [{ name, state: { waiting: state.waiting } }] : [],
  )
  // Only for failed pods does the plan read finalizers; for others their removal would be a change without effect.
  const held = phase === 'Failed' && metadata.finalizers?.length && { finalizers: metadata.finalizers }
  return {
    metadata: { ...trimMetadata(metadata), ...ownParts(metadata), ...held },
    status: {
      ...(phase && { phase }),
      ...(reason && { reason }),
      ...(message && { message }),
      ...(telling && { conditions: telling }),
      ...(containers && { containerStatuses: containers }),
      ...(waiting?.length && { initContainerStatuses: waiting }),
    },
  }
}

function trimContainer({ name, state, containerID, lastState }: ContainerStatus): ContainerStatus {
  // The plan reads containerID only for containers that have ended.
  const was = state?.terminated && containerID && { containerID }
  return { name, ...(state && { state }), ...was, ...(lastState?.terminated && { lastState }) }
}

/** Whether two trimmed objects differ only in their version: both give the same plan. */
export function isSame(old: KubeObject | undefined, fresh: KubeObject): boolean {
  if (!old) return false
  const { resourceVersion: _, ...before } = old.metadata
  const { resourceVersion: __, ...after } = fresh.metadata
  return isDeepStrictEqual([before, old.spec, old.status], [after, fresh.spec, fresh.status])
}

/** Names, versions and times, without labels, annotations and owners. */
export function trimMetadata(m: ObjectMeta): ObjectMeta {
  const { name, namespace, uid, resourceVersion, generation, creationTimestamp, deletionTimestamp } = m
  return {
    name,
    ...(namespace !== undefined && { namespace }),
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
    ...(generation !== undefined && { generation }),
    ...(creationTimestamp !== undefined && { creationTimestamp }),
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
  }
}

/** The owner references and the operator's own labels and annotations. */
function ownParts({ labels, annotations, ownerReferences }: ObjectMeta): Own {
  const kept = Object.entries(labels ?? {}).filter(([key]) => key === OWNER_UID || key === ROLE)
  const notes = Object.entries(annotations ?? {}).filter(([key]) => key.startsWith(`${GROUP}/`))
  return {
    ...(kept.length > 0 && { labels: Object.fromEntries(kept) }),
    ...(notes.length > 0 && { annotations: Object.fromEntries(notes) }),
    ...(ownerReferences && { ownerReferences: ownerReferences.map(trimOwner) }),
  }
}

const trimOwner = ({ apiVersion, kind, name, uid }: OwnerReference): OwnerReference => ({ apiVersion, kind, name, uid })
