import { isDeepStrictEqual } from 'node:util'
import { GROUP } from '../../crds/kind.ts'
import type { KubeObject, ObjectMeta, OwnerReference } from '../../lib/runtime/cluster.ts'
import type { ContainerStatus, Job, Pod } from './batch.ts'
import { OWNER_UID } from './child.ts'

// What the caches keep: memory is objects × size, and a change of what nobody reads is no change.

type Own = Pick<ObjectMeta, 'labels' | 'annotations' | 'ownerReferences'>

/** A resource without the notes of others: labels, annotations and managedFields. */
export const trimResource = <T extends KubeObject>(object: T): T => ({
  ...object,
  metadata: trimMetadata(object.metadata),
})

/** Of a Job only what the plan reads or may change. */
export function trimJob({ apiVersion, kind, metadata, spec, status }: Job): Job {
  const { suspend, ttlSecondsAfterFinished, parallelism, activeDeadlineSeconds } = spec
  const { conditions, startTime, completionTime, succeeded } = status ?? {}
  const failed = (status?.failed ?? 0) + (status?.uncountedTerminatedPods?.failed?.length ?? 0)
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
      ...(succeeded && { succeeded }),
      ...(failed > 0 && { failed }),
    },
  }
}

/** Conditions of pods that the plan looks at. */
const TELLING = ['PodScheduled', 'DisruptionTarget', 'Ready', 'ContainersReady']

/** Of a pod only how it is. */
export function trimPod({ metadata, status }: Pod): Pod {
  const { phase, reason, message, conditions, containerStatuses } = status ?? {}
  const telling = conditions?.filter((c) => TELLING.includes(c.type))
  const containers = containerStatuses?.map(trimContainer)
  // Whether its Job still holds it is asked of failures alone; for the others it would be a change that says nothing.
  const held = phase === 'Failed' && metadata.finalizers?.length && { finalizers: metadata.finalizers }
  return {
    metadata: { ...trimMetadata(metadata), ...ownParts(metadata), ...held },
    status: {
      ...(phase && { phase }),
      ...(reason && { reason }),
      ...(message && { message }),
      ...(telling && { conditions: telling }),
      ...(containers && { containerStatuses: containers }),
    },
  }
}

function trimContainer({ name, state, containerID, lastState }: ContainerStatus): ContainerStatus {
  // That it was there once is asked only of one that has ended.
  const was = state?.terminated && containerID && { containerID }
  return { name, ...(state && { state }), ...was, ...(lastState?.terminated && { lastState }) }
}

/** Whether two trimmed objects differ in nothing but their version: a plan made of either is the same. */
export function isSame(old: KubeObject | undefined, fresh: KubeObject): boolean {
  if (!old) return false
  const { resourceVersion: _, ...before } = old.metadata
  const { resourceVersion: __, ...after } = fresh.metadata
  return isDeepStrictEqual([before, old.spec, old.status], [after, fresh.spec, fresh.status])
}

function trimMetadata(m: ObjectMeta): ObjectMeta {
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

/** Whom it belongs to, and what this operator itself wrote on it. */
function ownParts({ labels, annotations, ownerReferences }: ObjectMeta): Own {
  const uid = labels?.[OWNER_UID]
  const notes = Object.entries(annotations ?? {}).filter(([key]) => key.startsWith(`${GROUP}/`))
  return {
    ...(uid !== undefined && { labels: { [OWNER_UID]: uid } }),
    ...(notes.length > 0 && { annotations: Object.fromEntries(notes) }),
    ...(ownerReferences && { ownerReferences: ownerReferences.map(trimOwner) }),
  }
}

const trimOwner = ({ apiVersion, kind, name, uid }: OwnerReference): OwnerReference => ({ apiVersion, kind, name, uid })
