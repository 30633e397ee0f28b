export type Json = Record<string, unknown>

/** A copy as after transport in JSON: without undefined and Date, and without references to the original. */
export const overTheWire = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T

/** Freezes `value` deeply, so that no user of a cached object can change it for the others. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.freeze(value)
  for (const part of Object.values(value)) deepFreeze(part)
  return value
}

export const isPlainObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** JSON merge patch (RFC 7386): null deletes, arrays are replaced whole. */
export function mergePatch(target: unknown, patch: unknown): unknown {
  if (!isPlainObject(patch)) return patch
  const merged: Json = isPlainObject(target) ? { ...target } : {}
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key]
    else merged[key] = mergePatch(merged[key], value)
  }
  return merged
}
