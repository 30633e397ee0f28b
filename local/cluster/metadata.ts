import { randomBytes, randomUUID } from 'node:crypto'
import type { KubeObject } from '../../lib/runtime/kube/cluster.ts'
import { invalid, type ResourceRules } from './admission.ts'
import { type StoredMeta, timeOf } from './types.ts'

const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/
const LABEL_KEY = /^([a-z0-9.-]{1,253}\/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?$/
const LABEL_VALUE = /^([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?$/
/** Without vowels and characters that look alike, as in names that the API server generates. */
const ALPHABET = 'bcdfghjklmnpqrstvwxz2456789'

export const randomSuffix = (): string => Array.from(randomBytes(5), (b) => ALPHABET[b % ALPHABET.length]).join('')

/** Metadata of a new object: the client's fields, and those that the server sets. */
export function newMetadata(given: StoredMeta, rules: ResourceRules, nowMs: number): StoredMeta {
  if (!given.namespace) throw invalid('metadata.namespace: Required value')
  if (given.resourceVersion) throw invalid('metadata.resourceVersion: must not be set on objects to be created')
  // The prefix is validated like a name that may end with a hyphen.
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

/** Metadata after an update: fields of the server are unchanged, whatever the client sent. */
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

/** The client's fields of the metadata, validated; empty lists and maps are omitted, as by the API server. */
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

/** Throws Invalid when the kind of the object is not that of the resource. */
export function refuseOtherKind(object: KubeObject, rules: ResourceRules): void {
  if (object.kind !== undefined && object.kind !== rules.resource.kind) {
    throw invalid(`kind: ${object.kind} was sent to ${rules.resource.plural}`)
  }
  if (object.apiVersion !== undefined && object.apiVersion !== rules.apiVersion) {
    throw invalid(`apiVersion: ${object.apiVersion} does not match ${rules.apiVersion}`)
  }
}
