import { KINDS } from '../../crds/kinds.ts'
import type {
  Cluster,
  KubeObject,
  ObjectKey,
  ReflectHandlers,
  ReflectOptions,
  Resource,
} from '../../lib/runtime/kube/cluster.ts'
import { BUILT_IN, customResource } from '../../local/cluster/admission.ts'
import { reflectStore } from '../../local/cluster/reflection.ts'
import { parseSelector } from '../../local/cluster/selector.ts'
import { Store } from '../../local/cluster/store.ts'

export type Fault = 'before' | 'after'

/** The objects and rules of an API server and nothing that acts on them: tests play the Job controller. */
export function storeCluster() {
  const store = new Store([...BUILT_IN, ...KINDS.map(customResource)])
  const writes: string[] = []
  let fault: { at: number; when: Fault } | undefined

  /** Counts a write, and loses it or its answer when it is the one that was chosen. */
  async function write<T>(what: string, act: () => T): Promise<T> {
    writes.push(what)
    const isLost = fault?.at === writes.length
    if (isLost && fault?.when === 'before') throw new Error(`lost: ${what}`)
    const result = act()
    if (isLost) throw new Error(`answer lost: ${what}`)
    return result
  }

  const cluster: Cluster = {
    reflect: <T extends KubeObject>(
      resource: Resource,
      handlers: ReflectHandlers<T>,
      options: ReflectOptions<T> = {},
    ) => reflectStore(store, resource, handlers, options),
    get: async <T extends KubeObject>(resource: Resource, key: ObjectKey) => store.find<T>(resource, key),
    async list<T extends KubeObject>(resource: Resource, options: { namespace?: string; labelSelector?: string } = {}) {
      const test = parseSelector(options.labelSelector)
      return store.all<T>(resource).filter((o) => test(o.metadata.labels ?? {}))
    },
    create: (resource, object) => write(`create ${resource.kind}`, () => store.create(resource, object)),
    replace: (resource, object) => write(`replace ${resource.kind}`, () => store.replace(resource, object)),
    patch: (resource, key, patch) => write(`patch ${resource.kind}`, () => store.patch(resource, key, patch)),
    applyStatus: (resource, key, status, manager) =>
      write(`status ${resource.kind} ${manager}`, () => store.applyStatus(resource, key, status, manager)),
    delete: (resource, key, options) =>
      write(`delete ${resource.kind}`, () => void store.delete(resource, key, options)),
    close: async () => {},
  }
  return {
    cluster,
    store,
    writes,
    /** The n-th write from the beginning does not happen, or happens and is not answered. */
    failWrite: (at: number, when: Fault) => {
      fault = { at, when }
    },
  }
}
