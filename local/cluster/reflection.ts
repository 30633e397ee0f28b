import type {
  KubeObject,
  ObjectKey,
  ReflectHandlers,
  Reflection,
  ReflectOptions,
  Resource,
} from '../../lib/runtime/kube/cluster.ts'
import { deepFreeze } from './json.ts'
import { parseFieldSelector, parseSelector } from './selector.ts'
import type { Change, Store } from './store.ts'

const textOf = (key: ObjectKey) => `${key.namespace}/${key.name}`
const keyOf = (object: KubeObject): string => `${object.metadata.namespace ?? ''}/${object.metadata.name}`

/**
 * A cache that follows the store one turn of the event loop later, as a cache across a network does: a reader that has
 * just written still sees the old object. Its objects are frozen.
 */
export function reflectStore<T extends KubeObject>(
  store: Store,
  resource: Resource,
  handlers: ReflectHandlers<T>,
  options: ReflectOptions<T>,
): Reflection<T> {
  const { namespace, trim } = options
  const hasLabels = parseSelector(options.labelSelector)
  const cache = new Map<string, T>()
  const synced = Promise.withResolvers<void>()
  const isListed = parseFieldSelector(options.listFieldSelector)
  const listed = store.all<T>(resource).filter(isListed)
  let waiting: Change[] = listed.map((object) => ({ resource, object, old: undefined }))
  let stopped = false
  let scheduled: NodeJS.Immediate | undefined = setImmediate(deliver)

  const stopListening = store.listen((change) => {
    if (change.resource.plural !== resource.plural || change.resource.group !== resource.group) return
    waiting.push(change)
    scheduled ??= setImmediate(deliver)
  })

  function deliver(): void {
    scheduled = undefined
    const changes = waiting
    waiting = []
    for (const change of changes) {
      if (stopped) return
      apply(change)
    }
    synced.resolve()
  }

  const isWanted = (object: KubeObject) =>
    (namespace === undefined || object.metadata.namespace === namespace) && hasLabels(object.metadata.labels ?? {})

  function apply({ object, old }: Change): void {
    const key = keyOf((object ?? old) as KubeObject)
    const cached = cache.get(key)
    if (object && isWanted(object)) {
      const kept = trim ? deepFreeze(trim(structuredClone(object) as T)) : (object as T)
      cache.set(key, kept)
      notify(() => handlers.onSet(kept, cached))
    } else if (cached) {
      cache.delete(key)
      notify(() => handlers.onDelete(cached))
    }
  }

  /** An error in one handler must not keep the others from being called. */
  function notify(call: () => void): void {
    try {
      call()
    } catch (error) {
      handlers.onError?.(error, 0)
    }
  }

  return {
    get: (key) => cache.get(textOf(key)),
    list: () => [...cache.values()],
    synced: () => synced.promise,
    async stop() {
      stopped = true
      stopListening()
      clearImmediate(scheduled)
      synced.resolve()
    },
  }
}
