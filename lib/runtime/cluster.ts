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

/** Where a kind lives in the API: `/apis/{group}/{version}/namespaces/{ns}/{plural}` (`/api/v1/…` for the core group, ''). */
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

/** As the API server names them (`reason` of a Status), plus Unavailable for everything below HTTP. */
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
  constructor(
    reason: ClusterErrorReason,
    message: string,
    options: ErrorOptions & { retryAfterSeconds?: number } = {},
  ) {
    super(message, options)
    this.reason = reason
    this.retryAfterSeconds = options.retryAfterSeconds
  }
}

export const isClusterError = (e: unknown, reason: ClusterErrorReason): e is ClusterError =>
  e instanceof ClusterError && e.reason === reason

export interface ReflectHandlers<T> {
  /** Added or changed; `old` is what the cache held. Must not throw and must not block: put a key on a queue. */
  onSet(object: T, old: T | undefined): void
  onDelete(object: T): void
  /** An interruption; it is repaired without help, this is for logs and metrics. */
  onError?(error: unknown, retryInMs: number): void
}

/** A cache of one resource that follows the cluster for ever: list, watch, bookmarks, 410, backoff. */
export interface Reflection<T> {
  get(key: ObjectKey): T | undefined
  list(): T[]
  /** Resolves after the first complete list. */
  synced(): Promise<void>
  stop(): Promise<void>
}

export interface ReflectOptions<T> {
  /** Undefined: all namespaces. */
  namespace?: string
  labelSelector?: string
  /**
   * A field selector that saves the reading of thousands of objects at start: what does not match may be missing from
   * the cache until it changes.
   */
  listFieldSelector?: string
  /** Drops what nobody reads before an object enters the cache: memory is objects × size. */
  trim?(object: T): T
}

/**
 * The Kubernetes API as far as this project uses it, on plain JSON. `lib/runtime/kube-cluster.ts` speaks to a real API server,
 * `local/cluster/` keeps everything in this process; both pass `test/support/cluster-contract.ts`. Failures are
 * ClusterError.
 */
export interface Cluster {
  reflect<T extends KubeObject>(
    resource: Resource,
    handlers: ReflectHandlers<T>,
    options?: ReflectOptions<T>,
  ): Reflection<T>
  get<T extends KubeObject>(resource: Resource, key: ObjectKey): Promise<T | undefined>
  list<T extends KubeObject>(resource: Resource, options?: { namespace?: string; labelSelector?: string }): Promise<T[]>
  /** AlreadyExists when the name is taken; Invalid when the schema or a CEL rule refuses it. */
  create<T extends KubeObject>(resource: Resource, object: T): Promise<T>
  /** Whole-object update guarded by `metadata.resourceVersion`: Conflict when it is stale. For leases. */
  replace<T extends KubeObject>(resource: Resource, object: T): Promise<T>
  /** JSON merge patch (RFC 7386) of anything but status. With `resourceVersion` in its metadata it is guarded. */
  patch<T extends KubeObject>(resource: Resource, key: ObjectKey, patch: object): Promise<T>
  /**
   * Server-side apply of `status`, forced: `manager` owns exactly the fields given; what it applied before and leaves
   * out now is removed, what other managers own stays. Managers keep to disjoint top-level fields of status.
   * With `resourceVersion` in the key, Conflict when the object has changed, or is another one, since. (An API server
   * ignores a uid here: the version is the only guard it knows.)
   */
  applyStatus<T extends KubeObject>(
    resource: Resource,
    key: ObjectKey & { resourceVersion?: string },
    status: object,
    manager: string,
  ): Promise<T>
  /** Background propagation; NotFound is success. With `uid`, Conflict when the name now belongs to another object. */
  delete(resource: Resource, key: ObjectKey, options?: { uid?: string }): Promise<void>
  close(): Promise<void>
}
