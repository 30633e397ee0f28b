import type { KubeObject } from '../../lib/runtime/kube/cluster.ts'

/**
 * This process's own writes that the cache does not show yet. A cache lags behind; a decision on the state before the
 * process's last write would repeat actions. Resource versions are compared as growing numbers; when a version is not a
 * number, the cached object wins.
 */
export class OwnWrites<T extends KubeObject> {
  readonly #written = new Map<string, T>()
  readonly #trim: (object: T) => T

  constructor(trim: (object: T) => T = (object) => object) {
    this.#trim = trim
  }

  /** Remembers the server's answer to a write. */
  remember(object: T): void {
    if (object.metadata.uid) this.#written.set(object.metadata.uid, this.#trim(object))
  }

  /** The cached object, or the written one if that is newer. */
  freshest(cached: T): T {
    const uid = cached.metadata.uid ?? ''
    const ours = this.#written.get(uid)
    if (!ours) return cached
    if (isNewer(ours, cached)) return ours
    this.#written.delete(uid)
    return cached
  }

  /** Whether this is exactly the last write of this process. */
  isEcho({ metadata: { uid = '', resourceVersion } }: T): boolean {
    return this.#written.get(uid)?.metadata.resourceVersion === resourceVersion
  }

  forget(object: T): void {
    this.#written.delete(object.metadata.uid ?? '')
  }
}

function isNewer(a: KubeObject, b: KubeObject): boolean {
  const [x, y] = [a, b].map((o) => o.metadata.resourceVersion ?? '') as [string, string]
  return /^\d+$/.test(x) && /^\d+$/.test(y) && BigInt(x) > BigInt(y)
}
