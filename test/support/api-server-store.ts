import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { KubeObject, ObjectMeta } from '../../lib/runtime/cluster.ts'

type Json = Record<string, unknown>
interface StoredMeta extends ObjectMeta {
  managedFields?: { manager: string; fields: string[] }[]
}
export interface Stored extends KubeObject {
  metadata: StoredMeta
}
export interface StoredEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED'
  version: number
  object: Stored
}

/** A Status as an exception: what the server answers with. */
export class Refusal extends Error {
  readonly code: number
  readonly reason: string
  constructor(code: number, reason: string, message: string) {
    super(message)
    this.code = code
    this.reason = reason
  }
}

const copy = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T
const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

function merge(target: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch
  const out: Json = isObject(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete out[key]
    else out[key] = merge(out[key], value)
  }
  return out
}

/** One kind's objects with versions, generations, preconditions and field managers, as an API server keeps them. */
export class Collection {
  readonly objects = new Map<string, Stored>()
  readonly events: StoredEvent[] = []
  readonly #nextVersion: () => number
  readonly #announce: (event: StoredEvent) => void
  readonly #validate: (object: Stored) => string | undefined

  constructor(
    nextVersion: () => number,
    announce: (event: StoredEvent) => void,
    validate: (object: Stored) => string | undefined,
  ) {
    this.#nextVersion = nextVersion
    this.#announce = announce
    this.#validate = validate
  }

  get(key: string): Stored {
    const found = this.objects.get(key)
    if (!found) throw new Refusal(404, 'NotFound', `"${key}" not found`)
    return found
  }

  create(namespace: string, body: Stored): Stored {
    const key = `${namespace}/${body.metadata.name}`
    if (this.objects.has(key)) throw new Refusal(409, 'AlreadyExists', `"${key}" already exists`)
    const { status: _, ...rest } = copy(body)
    const metadata = {
      ...rest.metadata,
      namespace,
      uid: randomUUID(),
      generation: 1,
      creationTimestamp: new Date().toISOString(),
    }
    return this.#save('ADDED', { ...rest, metadata })
  }

  replace(key: string, body: Stored): Stored {
    const old = this.get(key)
    this.#guard(old, body.metadata)
    return this.#update(old, { ...copy(body), status: old.status })
  }

  mergePatch(key: string, patch: Json): Stored {
    const old = this.get(key)
    this.#guard(old, (patch['metadata'] ?? {}) as StoredMeta)
    const { status: _, ...rest } = patch
    return this.#update(old, merge(old, rest) as Stored)
  }

  /** Server-side apply of top-level fields of status, forced. */
  applyStatus(key: string, body: Stored, manager: string): Stored {
    const old = this.get(key)
    this.#guard(old, body.metadata)
    const given = copy((body.status ?? {}) as Json)
    const others = (old.metadata.managedFields ?? []).filter((m) => m.manager !== manager)
    const mine = old.metadata.managedFields?.find((m) => m.manager === manager)?.fields ?? []
    const status = { ...(old.status as Json | undefined) }
    for (const field of mine) if (!others.some((m) => m.fields.includes(field))) delete status[field]
    Object.assign(status, given)
    const fields = Object.keys(given)
    const left = others.map((m) => ({ ...m, fields: m.fields.filter((f) => !fields.includes(f)) }))
    const managedFields = [...left, { manager, fields }]
    return this.#update(old, { ...old, metadata: { ...old.metadata, managedFields }, status })
  }

  setStatus(key: string, status: unknown): Stored {
    const old = this.get(key)
    return this.#update(old, { ...old, status: copy(status) })
  }

  remove(key: string, uid: string | undefined): Stored {
    const old = this.get(key)
    if (uid) this.#guard(old, { name: old.metadata.name, uid })
    this.objects.delete(key)
    return this.#record('DELETED', old)
  }

  #guard(old: Stored, given: Partial<StoredMeta>): void {
    const conflict = (what: string) => new Refusal(409, 'Conflict', `the ${what} is another one now`)
    if (given.uid && given.uid !== old.metadata.uid) throw conflict('uid')
    if (given.resourceVersion && given.resourceVersion !== old.metadata.resourceVersion) throw conflict('version')
  }

  #update(old: Stored, next: Stored): Stored {
    const { name, namespace, uid, creationTimestamp, resourceVersion } = old.metadata
    const generation =
      (old.metadata.generation ?? 1) + (isDeepStrictEqual(copy(old.spec ?? {}), next.spec ?? {}) ? 0 : 1)
    const fixed = { name, namespace, uid, creationTimestamp, resourceVersion, generation }
    const object = copy({ ...next, metadata: { ...next.metadata, ...fixed } }) as Stored
    if (isDeepStrictEqual(object, old)) return old // an update that changes nothing is no update
    return this.#save('MODIFIED', object)
  }

  #save(type: 'ADDED' | 'MODIFIED', object: Stored): Stored {
    const problem = this.#validate(object)
    if (problem) throw new Refusal(422, 'Invalid', problem)
    return this.#record(type, object)
  }

  #record(type: StoredEvent['type'], object: Stored): Stored {
    const version = this.#nextVersion()
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } }
    if (type !== 'DELETED') this.objects.set(`${stored.metadata.namespace}/${stored.metadata.name}`, stored)
    const event = { type, version, object: stored }
    this.events.push(event)
    this.#announce(event)
    return stored
  }
}
