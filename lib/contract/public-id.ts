import * as z from 'zod'
import { formatId, type Id, type IdKind, idPattern, PREFIXES, type PublicId, type Uuid, uuidOfSuffix } from './ids.ts'

/**
 * An id in what leaves the program, in answers and events: given as a UUID, it leaves as `med_…`. What has been parsed
 * stays as it is when it is parsed again: payloads of events wait in Postgres with the ids of consumers.
 */
export function publicId<K extends IdKind>(kind: K): z.ZodType<PublicId<K>, Id<K>> {
  const pattern = idPattern(kind)
  const text = z.string().check((given) => {
    if (looksLikeUuid(given.value)) given.value = formatId(kind, given.value)
    else if (!pattern.test(given.value)) {
      given.issues.push({ code: 'custom', message: `is not the id of a ${kind}`, input: given.value })
    }
  })
  ids.add(text)
  return text as unknown as z.ZodType<PublicId<K>, Id<K>>
}

/** An id whose kind another field says. */
export function publicIdOfAnyKind(): z.ZodType<PublicId, PublicId> {
  const text = z.string()
  ids.add(text)
  return text as unknown as z.ZodType<PublicId, PublicId>
}

const ids = new WeakSet<z.ZodType>()

/**
 * The reverse, for what arrives: `data`, which the schema has parsed, with UUIDs in the places of its ids. Throws for
 * text in the place of an id that is none.
 */
export function withUuids(schema: z.ZodType, data: unknown): unknown {
  if (data === null || data === undefined) return data
  if (ids.has(schema)) return uuidIn(String(data))
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodOptional) {
    return withUuids(schema.unwrap() as z.ZodType, data)
  }
  if (schema instanceof z.ZodArray) return (data as unknown[]).map((one) => withUuids(schema.element as z.ZodType, one))
  if (!(schema instanceof z.ZodObject)) return data
  const shape = schema.shape as Record<string, z.ZodType>
  return Object.fromEntries(
    Object.entries(data).map(([name, value]) => [name, shape[name] ? withUuids(shape[name], value) : value]),
  )
}

function uuidIn(text: string): Uuid {
  const [prefix = '', suffix = ''] = text.split('_', 2)
  const uuid = PREFIX_SET.has(prefix) ? uuidOfSuffix(suffix) : undefined
  if (uuid === undefined) throw new TypeError(`${text} is not an id`)
  return uuid
}

const PREFIX_SET = new Set<string>(Object.values(PREFIXES))

/** Not a regular expression: a page of an album has two thousand ids, and they come from columns of type uuid. */
const looksLikeUuid = (text: string) => text.length === 36 && HYPHENS.every((at) => text.charCodeAt(at) === HYPHEN)
const HYPHENS = [8, 13, 18, 23]
const HYPHEN = 45
