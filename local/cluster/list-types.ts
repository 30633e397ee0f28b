import { ClusterError } from '../../lib/runtime/kube/cluster.ts'
import { isPlainObject, type Json } from './json.ts'

/** Throws Invalid when a list of type map or set has a key twice, which zod does not check. */
export function refuseDuplicates(schema: unknown, value: unknown, path: string): void {
  if (!isPlainObject(schema)) return
  if (Array.isArray(value)) {
    refuseInList(schema, value, path)
    for (const [i, item] of value.entries()) refuseDuplicates(schema['items'], item, `${path}[${i}]`)
  } else if (isPlainObject(value) && isPlainObject(schema['properties'])) {
    for (const [field, part] of Object.entries(value)) {
      refuseDuplicates(schema['properties'][field], part, `${path}.${field}`)
    }
  }
}

function refuseInList(schema: Json, list: readonly unknown[], path: string): void {
  const keys = keysOf(schema)
  if (!keys) return
  const seen = new Set<string>()
  for (const [i, item] of list.entries()) {
    const key = JSON.stringify(keys.length === 0 ? item : keys.map((k) => (isPlainObject(item) ? item[k] : undefined)))
    if (seen.has(key)) throw new ClusterError('Invalid', `${path}[${i}]: Duplicate value: ${key}`)
    seen.add(key)
  }
}

/** Undefined for an ordinary list, empty for a set. */
function keysOf(schema: Json): string[] | undefined {
  if (schema['x-kubernetes-list-type'] === 'set') return []
  const keys = schema['x-kubernetes-list-map-keys']
  return Array.isArray(keys) ? keys.map(String) : undefined
}
