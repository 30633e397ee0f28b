import type { KubeObject } from '../../lib/runtime/cluster.ts'

/**
 * What we wrote and the cache has not shown us yet. A cache is always a little behind; deciding on what was true before
 * our own last write would do things twice. Versions of the API server are numbers that grow; where they are not, the
 * cache is believed.
 */
export class OwnWrites<T extends KubeObject> {
  readonly #written = new Map<string, T>()
  readonly #trim: (object: T) => T

  constructor(trim: (object: T) => T = (object) => object) {
    this.#trim = trim
  }

  /** Remembers what the server answered to a write. */
  remember(object: T): void {
    if (object.metadata.uid) this.#written.set(object.metadata.uid, this.#trim(object))
  }

  /** The cached object, or ours if that is newer. */
  freshest(cached: T): T {
    const uid = cached.metadata.uid ?? ''
    const ours = this.#written.get(uid)
    if (!ours) return cached
    if (isNewer(ours, cached)) return ours
    this.#written.delete(uid)
    return cached
  }

  /** Whether this is exactly what we last wrote. */
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
