import type { KubeObject } from '../../lib/runtime/kube/cluster.ts'
import type { Change, Store } from './store.ts'

/**
 * Garbage collection with background propagation: deletes an object when all of its owners are gone, also when the
 * owner was deleted before the object was created.
 */
export function runCollector(store: Store): { close(): void } {
  let suspects: Change[] = []
  let scheduled: NodeJS.Immediate | undefined

  const stop = store.listen((change) => {
    const owned = change.object?.metadata.ownerReferences
    if (change.object && !owned) return
    suspects.push(change)
    scheduled ??= setImmediate(collect)
  })

  function collect(): void {
    scheduled = undefined
    const changes = suspects
    suspects = []
    for (const { resource, object, old } of changes) {
      if (object) deleteOrphan(resource, object)
      else collectOwnedBy(old?.metadata.uid)
    }
  }

  function collectOwnedBy(uid: string | undefined): void {
    for (const resource of store.resources()) {
      for (const object of store.all(resource)) {
        if (object.metadata.ownerReferences?.some((owner) => owner.uid === uid)) deleteOrphan(resource, object)
      }
    }
  }

  function deleteOrphan(resource: Change['resource'], object: KubeObject): void {
    const { name, namespace = '', uid, ownerReferences, deletionTimestamp } = object.metadata
    if (deletionTimestamp || !uid || !store.isAlive(uid)) return
    if (ownerReferences?.some((owner) => store.isAlive(owner.uid))) return
    store.delete(resource, { namespace, name }, { uid })
  }

  return {
    close() {
      stop()
      clearImmediate(scheduled)
    },
  }
}
