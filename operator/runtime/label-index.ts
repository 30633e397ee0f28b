import type { KubeObject } from '../../lib/runtime/kube/cluster.ts'

/** An index of cached objects by the value of one label. The caller passes on the cache's changes. */
export class LabelIndex<T extends KubeObject> {
  readonly #label: string
  readonly #byValue = new Map<string, Map<string, T>>()

  constructor(label: string) {
    this.#label = label
  }

  set(object: T, old: T | undefined): void {
    if (old && this.#valueOf(old) !== this.#valueOf(object)) this.delete(old)
    const value = this.#valueOf(object)
    if (value === undefined) return
    const found = this.#byValue.get(value) ?? new Map<string, T>()
    this.#byValue.set(value, found)
    found.set(keyOf(object), object)
  }

  delete(object: T): void {
    const value = this.#valueOf(object) ?? ''
    const found = this.#byValue.get(value)
    found?.delete(keyOf(object))
    if (found?.size === 0) this.#byValue.delete(value)
  }

  list(value: string): T[] {
    return [...(this.#byValue.get(value)?.values() ?? [])]
  }

  #valueOf(object: T): string | undefined {
    return object.metadata.labels?.[this.#label]
  }
}

const keyOf = ({ metadata }: KubeObject) => `${metadata.namespace}/${metadata.name}`
