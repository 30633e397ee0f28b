import { isDeepStrictEqual } from 'node:util'
import type { Json } from './json.ts'

/** Which managers own which top-level fields of status. */
export type Ownership = ReadonlyMap<string, ReadonlySet<string>>

/**
 * Server-side apply, forced, at the granularity of top-level fields: `manager` owns exactly the fields of `applied`;
 * a different value takes a field from its owners, an equal one shares it; what nobody owns any more disappears.
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
