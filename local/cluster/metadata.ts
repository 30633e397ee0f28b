import { randomBytes, randomUUID } from 'node:crypto'
import type { KubeObject } from '../../lib/runtime/cluster.ts'
import { invalid, type ResourceRules } from './admission.ts'
import { type StoredMeta, timeOf } from './types.ts'

const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const LABEL_KEY = /^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?$/
const LABEL_VALUE = /^([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?$/
/** No vowels and nothing that looks alike, as the API server does it. */
const ALPHABET = 'bcdfghjklmnpqrstvwxz2456789'

export const randomSuffix = (): string => Array.from(randomBytes(5), (b) => ALPHABET[b % ALPHABET.length]).join('')

/** Metadata of an object that comes into being: what the client may say of it, and what the server says. */
export function newMetadata(given: StoredMeta, rules: ResourceRules, nowMs: number): StoredMeta {
  if (!given.namespace) throw invalid('metadata.namespace: Required value')
  if (given.resourceVersion) throw invalid('metadata.resourceVersion: must not be set on objects to be created')
  // The prefix is judged like a name of its own that may end in a hyphen.
  if (given.generateName && !SUBDOMAIN.test(given.generateName.replace(/-$/, 'a'))) {
    throw invalid(`metadata.generateName: Invalid value: ${JSON.stringify(given.generateName)}`)
  }
  const generated = given.generateName ? given.generateName + randomSuffix() : ''
  const name = given.name || generated
  if (!SUBDOMAIN.test(name) || name.length > 253) throw invalid(`metadata.name: Invalid value: ${JSON.stringify(name)}`)
  return {
    ...clientMetadata(given),
    ...(given.generateName && { generateName: given.generateName }),
    name,
    namespace: given.namespace,
    uid: randomUUID(),
    creationTimestamp: timeOf(nowMs),
    ...(rules.hasGeneration && { generation: 1 }),
  }
}

/** Metadata after an update: what belongs to the server stays as it is, whatever the client sent. */
export function updatedMetadata(given: StoredMeta, current: StoredMeta): StoredMeta {
  if (given.name !== current.name || (given.namespace ?? current.namespace) !== current.namespace) {
    throw invalid('metadata.name: Invalid value: field is immutable')
  }
  const { labels: _l, annotations: _a, finalizers: _f, ownerReferences: _o, ...fixed } = current
  const next = clientMetadata(given)
  const added = next.finalizers?.find((f) => !current.finalizers?.includes(f))
  if (current.deletionTimestamp && added) {
    throw invalid(
      `metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted: ${added}`,
    )
  }
  return { ...fixed, ...next }
}

/** What of the metadata is the client's, checked; empty lists and maps are left out, as on the wire. */
function clientMetadata({ labels, annotations, finalizers, ownerReferences }: StoredMeta): Partial<StoredMeta> {
  refuseBadLabels(labels ?? {})
  for (const owner of ownerReferences ?? []) {
    if (!owner.uid || !owner.name || !owner.kind || !owner.apiVersion) {
      throw invalid('metadata.ownerReferences: apiVersion, kind, name and uid must not be empty')
    }
  }
  const given = { labels, annotations, finalizers, ownerReferences }
  return Object.fromEntries(Object.entries(given).filter(([, part]) => part && Object.keys(part).length > 0))
}

function refuseBadLabels(labels: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(labels)) {
    if (!LABEL_KEY.test(key)) throw invalid(`metadata.labels: Invalid value: ${JSON.stringify(key)}`)
    if (typeof value !== 'string' || !LABEL_VALUE.test(value)) {
      throw invalid(`metadata.labels: Invalid value: ${JSON.stringify(value)}: a label has at most 63 characters`)
    }
  }
}

/** Invalid when the object says that it is of another kind than the path it was sent to. */
export function refuseOtherKind(object: KubeObject, rules: ResourceRules): void {
  if (object.kind !== undefined && object.kind !== rules.resource.kind) {
    throw invalid(`kind: ${object.kind} was sent to ${rules.resource.plural}`)
  }
  if (object.apiVersion !== undefined && object.apiVersion !== rules.apiVersion) {
    throw invalid(`apiVersion: ${object.apiVersion} does not match ${rules.apiVersion}`)
  }
}
