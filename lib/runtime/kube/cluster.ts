/** Any Kubernetes object, as plain JSON: times are ISO strings everywhere. */
export interface KubeObject {
  apiVersion?: string
  kind?: string
  metadata: ObjectMeta
  spec?: unknown
  status?: unknown
}

export interface OwnerReference {
  apiVersion: string
  kind: string
  name: string
  uid: string
  controller?: boolean
  blockOwnerDeletion?: boolean
}

export interface ObjectMeta {
  name: string
  namespace?: string
  uid?: string
  resourceVersion?: string
  generation?: number
  creationTimestamp?: string
  deletionTimestamp?: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
  finalizers?: string[]
  ownerReferences?: OwnerReference[]
}

/** The path of a kind: `/apis/{group}/{version}/namespaces/{ns}/{plural}` (`/api/v1/…` for the core group, ''). */
export interface Resource {
  group: string
  version: string
  plural: string
  kind: string
}

export const JOBS: Resource = { group: 'batch', version: 'v1', plural: 'jobs', kind: 'Job' }
export const PODS: Resource = { group: '', version: 'v1', plural: 'pods', kind: 'Pod' }
export const NODES: Resource = { group: '', version: 'v1', plural: 'nodes', kind: 'Node' }
export const LEASES: Resource = { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', kind: 'Lease' }
export const EVENTS_V1: Resource = { group: 'events.k8s.io', version: 'v1', plural: 'events', kind: 'Event' }

export interface ObjectKey {
  namespace: string
  name: string
}

/** The API server's names (`reason` of a Status), plus Unavailable for all failures below HTTP. */
export type ClusterErrorReason =
  | 'NotFound'
  | 'AlreadyExists'
  | 'Conflict'
  | 'Invalid'
  | 'Forbidden'
  | 'Gone'
  | 'TooManyRequests'
  | 'Unavailable'

export class ClusterError extends Error {
  override readonly name = 'ClusterError'
  readonly reason: ClusterErrorReason
  readonly retryAfterSeconds: number | undefined
  /** The cluster does not know the kind: its CRD is not installed. Says nothing of any object. */
  readonly isNotServed: boolean
  constructor(
    reason: ClusterErrorReason,
    message: string,
    options: ErrorOptions & { retryAfterSeconds?: number; isNotServed?: boolean } = {},
  ) {
    super(message, options)
    this.reason = reason
    this.retryAfterSeconds = options.retryAfterSeconds
    this.isNotServed = options.isNotServed ?? false
  }
}

export const isClusterError = (e: unknown, reason: ClusterErrorReason): e is ClusterError =>
  e instanceof ClusterError && e.reason === reason

export interface ReflectHandlers<T> {
  /** Added or changed; `old` is the previous object in the cache. Must not throw or block: add a key to a queue. */
  onSet(object: T, old: T | undefined): void
  onDelete(object: T): void
  /** An interruption, for logs and metrics; the reflection recovers by itself. */
  onError?(error: unknown, retryInMs: number): void
}

/** A cache of one resource that follows the cluster until stopped: list, watch, bookmarks, 410, backoff. */
export interface Reflection<T> {
  get(key: ObjectKey): T | undefined
  list(): T[]
  /** Resolves after the first complete list. */
  synced(): Promise<void>
  stop(): Promise<void>
}

export interface ReflectOptions<T> {
  /** All namespaces when undefined. */
  namespace?: string
  labelSelector?: string
  /**
   * A field selector for lists only, which avoids reading thousands of objects at start. Objects that do not match may
   * be missing from the cache until they change.
   */
  listFieldSelector?: string
  /** Drops unused fields before an object enters the cache, to save memory. */
  trim?(object: T): T
}

/**
 * The part of the Kubernetes API that this project uses, on plain JSON. `lib/runtime/kube/kube-cluster.ts` talks to a real
 * API server, `local/cluster/` keeps all objects in this process; both pass `test/support/cluster-contract.ts`.
 * Failures are ClusterError.
 */
export interface Cluster {
  reflect<T extends KubeObject>(
    resource: Resource,
    handlers: ReflectHandlers<T>,
    options?: ReflectOptions<T>,
  ): Reflection<T>
  get<T extends KubeObject>(resource: Resource, key: ObjectKey): Promise<T | undefined>
  list<T extends KubeObject>(resource: Resource, options?: { namespace?: string; labelSelector?: string }): Promise<T[]>
  /** AlreadyExists when the name is taken; Invalid when the schema or a CEL rule rejects the object. */
  create<T extends KubeObject>(resource: Resource, object: T): Promise<T>
  /** Whole-object update guarded by `metadata.resourceVersion`: Conflict when it is stale. For leases. */
  replace<T extends KubeObject>(resource: Resource, object: T): Promise<T>
  /** JSON merge patch (RFC 7386) of any field except status. With `resourceVersion` in its metadata it is guarded. */
  patch<T extends KubeObject>(resource: Resource, key: ObjectKey, patch: object): Promise<T>
  /**
   * Forced server-side apply of `status`: `manager` then owns exactly the given fields. Fields that it applied before
   * and omits now are removed; fields of other managers stay. Managers must use disjoint top-level fields of status.
   * With `resourceVersion` in the key, Conflict when the object has changed or has been re-created since. (The API
   * server ignores a uid here, so the version is the only possible guard.)
   */
  applyStatus<T extends KubeObject>(
    resource: Resource,
    key: ObjectKey & { resourceVersion?: string },
    status: object,
    manager: string,
  ): Promise<T>
  /** Background propagation; NotFound counts as success. With `uid`, Conflict when another object has the name now. */
  delete(resource: Resource, key: ObjectKey, options?: { uid?: string }): Promise<void>
  close(): Promise<void>
}
