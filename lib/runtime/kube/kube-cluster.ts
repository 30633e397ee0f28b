import type { KubeConfig } from '@kubernetes/client-node'
import type { Log } from '../log.ts'
import { clientAccess, defaultKubeAccess } from './access.ts'
import {
  type Cluster,
  ClusterError,
  isClusterError,
  type KubeObject,
  type ObjectKey,
  type ReflectHandlers,
  type Reflection,
  type ReflectOptions,
  type Resource,
} from './cluster.ts'
import { KubeConnection } from './connection.ts'
import { KubeHttp, type KubeHttpOptions } from './http.ts'
import { Reflector, type ReflectorTimes } from './reflector.ts'
import { kubeSource, listPage } from './watch.ts'

export interface KubeClusterOptions extends KubeHttpOptions {
  log: Log
  /** Address and credentials of the cluster; by default those of kubectl, or the pod's service account. */
  config?: KubeConfig
  times?: Partial<ReflectorTimes>
}

/** The adapter to a real Kubernetes. Sends nothing to the server before the first call. */
export const openKubeCluster = (options: KubeClusterOptions): KubeCluster => new KubeCluster(options)

export class KubeCluster implements Cluster {
  readonly #connection: KubeConnection
  readonly #http: KubeHttp
  readonly #log: Log
  readonly #times: Partial<ReflectorTimes>
  readonly #reflections = new Set<{ stop(): Promise<void> }>()

  constructor(options: KubeClusterOptions) {
    this.#connection = new KubeConnection(options.config ? clientAccess(options.config) : defaultKubeAccess())
    this.#http = new KubeHttp(this.#connection, options)
    this.#log = options.log
    this.#times = options.times ?? {}
  }

  reflect<T extends KubeObject>(
    resource: Resource,
    handlers: ReflectHandlers<T>,
    options: ReflectOptions<T> = {},
  ): Reflection<T> {
    const source = kubeSource<T>(this.#http, collectionPath(resource, options.namespace), options)
    const told: ReflectHandlers<T> = {
      onSet: (object, old) => handlers.onSet(object, old),
      onDelete: (object) => handlers.onDelete(object),
      onError: (error, retryInMs) => {
        this.#log.warn({ err: error, resource: resource.plural, retryInMs }, 'reflection interrupted')
        handlers.onError?.(error, retryInMs)
      },
    }
    const reflection = new Reflector<T>(source, told, {
      ...(options.trim && { trim: options.trim }),
      times: this.#times,
    })
    this.#reflections.add(reflection)
    return reflection
  }

  async get<T extends KubeObject>(resource: Resource, key: ObjectKey): Promise<T | undefined> {
    try {
      return await this.#http.json<T>({ method: 'GET', path: objectPath(resource, key) })
    } catch (error) {
      if (isClusterError(error, 'NotFound')) return undefined
      throw error
    }
  }

  async list<T extends KubeObject>(
    resource: Resource,
    options: { namespace?: string; labelSelector?: string } = {},
  ): Promise<T[]> {
    const path = collectionPath(resource, options.namespace)
    const found: T[] = []
    let token: string | undefined
    do {
      const page = await listPage<T>(this.#http, path, { labelSelector: options.labelSelector, token })
      for (const object of page.items) found.push(object)
      token = page.continue
    } while (token)
    return found
  }

  async create<T extends KubeObject>(resource: Resource, object: T): Promise<T> {
    const path = collectionPath(resource, namespaceOf(object))
    return this.#http.json<T>({ method: 'POST', path, body: { ...headOf(resource), ...object } })
  }

  async replace<T extends KubeObject>(resource: Resource, object: T): Promise<T> {
    // Without a version the API server overwrites unconditionally, and two replicas could both become leader.
    if (!object.metadata.resourceVersion) throw new ClusterError('Invalid', 'replace needs a resourceVersion')
    const path = objectPath(resource, { namespace: namespaceOf(object), name: object.metadata.name })
    return this.#http.json<T>({ method: 'PUT', path, body: { ...headOf(resource), ...object } })
  }

  async patch<T extends KubeObject>(resource: Resource, key: ObjectKey, patch: object): Promise<T> {
    return this.#http.json<T>({
      method: 'PATCH',
      path: objectPath(resource, key),
      contentType: 'application/merge-patch+json',
      body: patch,
    })
  }

  async applyStatus<T extends KubeObject>(
    resource: Resource,
    key: ObjectKey & { resourceVersion?: string },
    status: object,
    manager: string,
  ): Promise<T> {
    const { namespace, name, resourceVersion } = key
    return this.#http.json<T>({
      method: 'PATCH',
      path: `${objectPath(resource, key)}/status`,
      query: { fieldManager: manager, force: 'true' },
      contentType: 'application/apply-patch+yaml', // JSON is YAML
      body: { ...headOf(resource), metadata: { name, namespace, ...(resourceVersion && { resourceVersion }) }, status },
    })
  }

  async delete(resource: Resource, key: ObjectKey, options: { uid?: string } = {}): Promise<void> {
    try {
      await this.#http.json({
        method: 'DELETE',
        path: objectPath(resource, key),
        // The default of batch/v1 is Orphan, which would leave the pods of a deleted Job running.
        body: {
          apiVersion: 'v1',
          kind: 'DeleteOptions',
          propagationPolicy: 'Background',
          ...(options.uid && { preconditions: { uid: options.uid } }),
        },
      })
    } catch (error) {
      if (!isClusterError(error, 'NotFound')) throw error
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#reflections].map((r) => r.stop()))
    this.#connection.close()
  }
}

const versionOf = ({ group, version }: Resource) => (group ? `${group}/${version}` : version)
const headOf = (resource: Resource) => ({ apiVersion: versionOf(resource), kind: resource.kind })

function collectionPath(resource: Resource, namespace: string | undefined): string {
  const root = `${resource.group ? '/apis' : '/api'}/${versionOf(resource)}`
  return namespace === undefined
    ? `${root}/${resource.plural}`
    : `${root}/namespaces/${encodeURIComponent(namespace)}/${resource.plural}`
}

const objectPath = (resource: Resource, key: ObjectKey) =>
  `${collectionPath(resource, key.namespace)}/${encodeURIComponent(key.name)}`

function namespaceOf(object: KubeObject): string {
  if (!object.metadata.namespace) throw new ClusterError('Invalid', `${object.metadata.name} has no namespace`)
  return object.metadata.namespace
}
