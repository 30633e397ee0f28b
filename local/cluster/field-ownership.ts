import { isDeepStrictEqual } from 'node:util'
import type { Json } from './json.ts'

/** The managers of each top-level field of status. */
export type Ownership = ReadonlyMap<string, ReadonlySet<string>>

/**
 * Forced server-side apply on top-level fields: afterwards `manager` owns exactly the fields of `applied`. A different
 * value takes a field from its owners, an equal value shares it, and a field without an owner is removed.
 */
export function applyFields(
  current: Json,
  owners: Ownership,
  applied: Json,
  manager: string,
): { value: Json; owners: Ownership } {
  const value: Json = { ...current }
  const next = new Map(owners)
  for (const [field, held] of owners) {
    if (field in applied || !held.has(manager)) continue
    const others = new Set([...held].filter((m) => m !== manager))
    if (others.size > 0) {
      next.set(field, others)
    } else {
      next.delete(field)
      delete value[field]
    }
  }
  for (const [field, part] of Object.entries(applied)) {
    const shared = isDeepStrictEqual(current[field], part)
    next.set(field, new Set([...(shared ? (owners.get(field) ?? []) : []), manager]))
    value[field] = part
  }
  return { value, owners: next }
}
