import type { ObjectKey } from '../../lib/runtime/kube/cluster.ts'
import { PRIORITY, type Work, type WorkQueue } from './queue.ts'

/**
 * The objects of one kind that wait for a reconcile. Caches fill it from their first list on; what they list before
 * they are complete waits behind live changes.
 */
export class ObjectQueue {
  readonly work: WorkQueue
  #isLive = false

  constructor(work: WorkQueue) {
    this.work = work
  }

  /** An object, or something that it owns, has changed. `urgency` orders live changes, the highest first. */
  changed(key: ObjectKey, urgency = 0): void {
    this.work.add(textOf(key), { priority: this.#isLive ? PRIORITY.live + urgency : PRIORITY.initial })
  }

  /** Reconciles an object that has not changed, behind those that have. */
  resync(key: ObjectKey): void {
    this.work.add(textOf(key), { priority: PRIORITY.initial })
  }

  /** The caches are complete: from now on every change is live. */
  goLive(): void {
    this.#isLive = true
  }
}

const textOf = ({ namespace, name }: ObjectKey) => `${namespace}/${name}`

export const keyOf = ({ key }: Pick<Work, 'key'>): ObjectKey => {
  const at = key.indexOf('/')
  return { namespace: key.slice(0, at), name: key.slice(at + 1) }
}
