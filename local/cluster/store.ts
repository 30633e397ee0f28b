import { isDeepStrictEqual } from 'node:util'
import { ClusterError, type KubeObject, type ObjectKey, type Resource } from '../../lib/runtime/kube/cluster.ts'
import { type Body, invalid, type ResourceRules } from './admission.ts'
import type { PodSpec } from './batch-schemas.ts'
import { applyFields, type Ownership } from './field-ownership.ts'
import { deepFreeze, isPlainObject, mergePatch, overTheWire } from './json.ts'
import { newMetadata, refuseOtherKind, updatedMetadata } from './metadata.ts'
import { type StoredMeta, timeOf } from './types.ts'

/** `object` is undefined after a deletion. Objects are frozen: they can be kept, shared and compared by identity. */
export interface Change {
  resource: Resource
  object: KubeObject | undefined
  old: KubeObject | undefined
}
export type Listener = (change: Change) => void

interface Entry {
  object: KubeObject
  owners: Ownership
}

const keyText = (key: { namespace?: string | undefined; name: string }) => `${key.namespace ?? ''}/${key.name}`
const resourceText = (r: Resource) => `${r.group}/${r.version}/${r.plural}`
const metaOf = (object: KubeObject) => object.metadata as StoredMeta

/**
 * The objects of the cluster and the rules of the API server, in memory. Every operation is synchronous, hence atomic.
 * Listeners are called after a change is complete, in order, and must not change the store.
 */
export class Store {
  readonly #tables = new Map<string, { rules: ResourceRules; entries: Map<string, Entry> }>()
  readonly #listeners = new Set<Listener>()
  readonly #uids = new Set<string>()
  #version = 0

  constructor(rules: readonly ResourceRules[]) {
    for (const r of rules) this.#tables.set(resourceText(r.resource), { rules: r, entries: new Map() })
  }

  /** Calls `listener` after every change of every resource, until the returned function is called. */
  listen(listener: Listener): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  isAlive(uid: string): boolean {
    return this.#uids.has(uid)
  }

  find<T extends KubeObject>(resource: Resource, key: ObjectKey): T | undefined {
    return this.#table(resource).entries.get(keyText(key))?.object as T | undefined
  }

  /** In the order of creation. */
  all<T extends KubeObject>(resource: Resource): T[] {
    return Array.from(this.#table(resource).entries.values(), (e) => e.object as T)
  }

  resources(): Resource[] {
    return Array.from(this.#tables.values(), (t) => t.rules.resource)
  }

  create<T extends KubeObject>(resource: Resource, given: T): T {
    const { rules, entries } = this.#table(resource)
    const { apiVersion, kind, metadata: givenMetadata, status: _status, ...body } = overTheWire<KubeObject>(given)
    refuseOtherKind({ ...(apiVersion && { apiVersion }), ...(kind && { kind }), metadata: givenMetadata }, rules)
    const metadata = newMetadata(givenMetadata, rules, Date.now())
    const key = keyText(metadata)
    if (entries.has(key))
      throw new ClusterError('AlreadyExists', `${rules.resource.plural} "${metadata.name}" already exists`)
    const admitted = overTheWire(rules.admit(body as Body, metadata, undefined))
    this.#forgetOld(rules, entries)
    return this.#put(rules, { ...identity(rules), ...admitted, metadata }, undefined, new Map()) as T
  }

  /** Changes everything but status. `change` gets the current object and returns JSON of the same shape. */
  update<T extends KubeObject>(resource: Resource, key: ObjectKey, change: (current: T) => unknown): T {
    const { rules, entry } = this.#entry(resource, key)
    const given = overTheWire(change(entry.object as T)) as KubeObject
    refuseOtherKind(given, rules)
    const metadata = updatedMetadata(given.metadata, metaOf(entry.object))
    const { apiVersion: _v, kind: _k, metadata: _m, status: _s, ...body } = given
    const { apiVersion: _ov, kind: _ok, metadata: _om, status, ...oldBody } = entry.object
    const admitted = overTheWire(rules.admit(body as Body, metadata, oldBody as Body))
    if (rules.hasGeneration && !isDeepStrictEqual(admitted, oldBody))
      metadata.generation = (metadata.generation ?? 0) + 1
    const next = { ...identity(rules), ...admitted, metadata, ...(status !== undefined && { status }) }
    return this.#put(rules, next, entry, entry.owners) as T
  }

  /** JSON merge patch (RFC 7386). A resourceVersion or uid in the patch is a precondition. */
  patch<T extends KubeObject>(resource: Resource, key: ObjectKey, patch: object): T {
    const { entry } = this.#entry(resource, key)
    const wanted = isPlainObject(patch) && isPlainObject((patch as Body)['metadata']) ? (patch as Body)['metadata'] : {}
    const { resourceVersion, uid } = wanted as StoredMeta
    guard(entry.object, resourceVersion, uid)
    return this.update<T>(resource, key, (current) => mergePatch(current, patch))
  }

  /** Throws Conflict unless `object` has the current resourceVersion. */
  replace<T extends KubeObject>(resource: Resource, object: T): T {
    const { name, namespace = '', resourceVersion, uid } = object.metadata
    if (!resourceVersion) throw invalid('metadata.resourceVersion: must be specified for an update')
    guard(this.#entry(resource, { namespace, name }).entry.object, resourceVersion, uid)
    return this.update<T>(resource, { namespace, name }, () => object)
  }

  /** For the cluster's own controllers, which own the whole status. */
  setStatus<T extends KubeObject>(resource: Resource, key: ObjectKey, status: T['status']): T {
    const { rules, entry } = this.#entry(resource, key)
    return this.#put(rules, { ...entry.object, status: overTheWire(status) }, entry, entry.owners) as T
  }

  applyStatus<T extends KubeObject>(
    resource: Resource,
    key: ObjectKey & { resourceVersion?: string },
    status: object,
    manager: string,
  ): T {
    const { rules, entry } = this.#entry(resource, key)
    if (!rules.hasStatus) throw new ClusterError('NotFound', `${rules.resource.plural} have no status`)
    guard(entry.object, key.resourceVersion, undefined)
    const current = isPlainObject(entry.object.status) ? entry.object.status : {}
    const applied = overTheWire(status)
    rules.checkStatus?.(applied)
    const { value, owners } = applyFields(current, entry.owners, applied as Body, manager)
    rules.checkStatus?.(value)
    return this.#put(rules, { ...entry.object, status: value }, entry, owners) as T
  }

  /** Removes the object, or marks it for deletion when finalizers or a kubelet remain. False when it does not exist. */
  delete(resource: Resource, key: ObjectKey, options: { uid?: string; graceSeconds?: number } = {}): boolean {
    const { rules, entries } = this.#table(resource)
    const entry = entries.get(keyText(key))
    if (!entry) return false
    guard(entry.object, undefined, options.uid)
    const metadata = { ...metaOf(entry.object) }
    if (!metadata.deletionTimestamp && rules.hasGeneration) metadata.generation = (metadata.generation ?? 0) + 1
    metadata.deletionTimestamp ??= timeOf(Date.now())
    if (rules.isDeletedGracefully) {
      const { terminationGracePeriodSeconds } = entry.object.spec as PodSpec
      const wanted = options.graceSeconds ?? terminationGracePeriodSeconds
      // A further call can only shorten the grace period.
      metadata.deletionGracePeriodSeconds = Math.min(metadata.deletionGracePeriodSeconds ?? wanted, wanted)
    }
    this.#put(rules, { ...entry.object, metadata }, entry, entry.owners)
    return true
  }

  #put(rules: ResourceRules, next: KubeObject, old: Entry | undefined, owners: Ownership): KubeObject {
    const { entries } = this.#table(rules.resource)
    const key = keyText(next.metadata)
    if (old && isDeepStrictEqual(next, old.object)) {
      entries.set(key, { object: old.object, owners })
      return old.object
    }
    this.#version += 1
    const metadata = { ...next.metadata, resourceVersion: String(this.#version) }
    const object = deepFreeze({ ...next, metadata })
    if (isGone(metadata, rules)) {
      entries.delete(key)
      this.#uids.delete(metadata.uid ?? '')
      this.#publish({ resource: rules.resource, object: undefined, old: object })
    } else {
      entries.set(key, { object, owners })
      this.#uids.add(metadata.uid ?? '')
      this.#publish({ resource: rules.resource, object, old: old?.object })
    }
    return object
  }

  #publish(change: Change): void {
    for (const listener of this.#listeners) listener(change)
  }

  /** Events would otherwise accumulate as long as the process runs. */
  #forgetOld(rules: ResourceRules, entries: ReadonlyMap<string, Entry>): void {
    if (rules.keepsForMs === undefined) return
    for (const { object } of entries.values()) {
      if (Date.parse(object.metadata.creationTimestamp ?? '') > Date.now() - rules.keepsForMs) return
      this.delete(rules.resource, { namespace: object.metadata.namespace ?? '', name: object.metadata.name })
    }
  }

  #table(resource: Resource) {
    const table = this.#tables.get(resourceText(resource))
    if (!table)
      throw new ClusterError(
        'Unavailable',
        `the server could not find the requested resource: ${resourceText(resource)}`,
        { isNotServed: true },
      )
    return table
  }

  #entry(resource: Resource, key: ObjectKey): { rules: ResourceRules; entry: Entry } {
    const { rules, entries } = this.#table(resource)
    const entry = entries.get(keyText(key))
    if (!entry) throw new ClusterError('NotFound', `${rules.resource.plural} "${key.name}" not found`)
    return { rules, entry }
  }
}

const identity = (rules: ResourceRules) => ({ apiVersion: rules.apiVersion, kind: rules.resource.kind })

function guard(object: KubeObject, resourceVersion: string | undefined, uid: string | undefined): void {
  const { name, resourceVersion: current, uid: own } = object.metadata
  if (resourceVersion !== undefined && resourceVersion !== current) {
    throw new ClusterError('Conflict', `${name}: the object has been modified; read it again`)
  }
  if (uid !== undefined && uid !== own) {
    throw new ClusterError('Conflict', `${name}: UID in precondition: ${uid}, UID in object meta: ${own}`)
  }
}

function isGone(metadata: StoredMeta, rules: ResourceRules): boolean {
  if (!metadata.deletionTimestamp || metadata.finalizers?.length) return false
  return !rules.isDeletedGracefully || metadata.deletionGracePeriodSeconds === 0
}
