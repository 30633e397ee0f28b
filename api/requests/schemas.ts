import * as z from 'zod'
import {
  formatId,
  givenIdPattern,
  type Id,
  type IdKind,
  idPattern,
  PREFIXES,
  type PublicId,
  parseId,
  type Uuid,
} from '../../lib/contract/ids.ts'
import { publicId } from '../../lib/contract/public-id.ts'
import { isKeepable, tidyText } from './text.ts'

/** Marks an issue that means 404 (no such resource) instead of 400 (invalid). */
export const NOT_FOUND_ISSUE = 'not-found'

/** The id in all examples of the document, whatever it is the id of. */
export const EXAMPLE_ID = '01932c07-209c-7c3e-8a5a-3f1d2b4c5d6e'
/** With its prefix. */
export const exampleId = <K extends IdKind>(kind: K): PublicId<K> => formatId(kind, EXAMPLE_ID)

const givenId = (kind: IdKind) => ({
  description: `Identifier of the ${kind}, with its prefix or as a bare UUID`,
  pattern: givenIdPattern(kind).source,
  example: exampleId(kind),
})

const inPath = <T>(meta: z.core.GlobalMeta, parse: (text: string) => T | undefined) =>
  z
    .string()
    .meta(meta)
    .transform((value, ctx): T => {
      const parsed = parse(value)
      if (parsed !== undefined) return parsed
      ctx.addIssue({ code: 'custom', message: 'does not exist', params: { means: NOT_FOUND_ISSUE } })
      return z.NEVER
    })

/** An id in the path: `med_…` or a bare UUID, parsed to a UUID. Anything else is 404. */
export const pathId = <K extends IdKind>(kind: K) => inPath(givenId(kind), (text) => parseId(kind, text))

/** An id of one of these kinds in the path, parsed to what it can be: a bare UUID can be of each kind. */
export const pathIdOf = (description: string, kinds: readonly [IdKind, ...IdKind[]]) => {
  const pattern = kinds.map((kind) => givenIdPattern(kind).source).join('|')
  return inPath({ description, pattern, example: exampleId(kinds[0]) }, (text) => {
    const ids = kinds.flatMap((kind) => {
      const id = parseId(kind, text)
      return id === undefined ? [] : [{ kind, id }]
    })
    return ids.length > 0 ? ids : undefined
  })
}

/** One of these words in the path. Anything else is 404. `meta` has the name of the set, for the document. */
export const pathWord = <T extends string>(words: readonly T[], meta: { id: string; description: string }) =>
  inPath({ ...meta, enum: [...words], example: words[0] }, (text) => words.find((word) => word === text))

/** A user in the path: an id, or `me` for the caller. Parsed to a function of the caller. */
export const pathUser = () =>
  inPath(
    {
      ...givenId('user'),
      description: 'Identifier of the user, with its prefix or as a bare UUID, or `me`',
      pattern: `^me$|${givenIdPattern('user').source}`,
    },
    (text) => {
      const id = parseId('user', text)
      if (id === undefined && text !== 'me') return undefined
      return (caller: { userId: Id<'user'> }): Id<'user'> => id ?? caller.userId
    },
  )

/** An id in a body or a query: the same forms, parsed to a UUID. Anything else is a 400 that names the field. */
export const bodyId = <K extends IdKind>(kind: K) =>
  z
    .string()
    .meta(givenId(kind))
    .transform((value, ctx): Id<K> => {
      const id = parseId(kind, value)
      if (id) return id
      ctx.addIssue({ code: 'custom', message: notLike(kind) })
      return z.NEVER
    })

/** A list of them. One transform for all: each costs more than the id, and an album has thousands. */
export const bodyIds = <K extends IdKind>(kind: K, max: number) =>
  z
    .array(z.string().meta(givenId(kind)))
    .max(max)
    .transform((values, ctx): Id<K>[] =>
      values.map((value, i) => {
        const id = parseId(kind, value)
        if (id === undefined) ctx.addIssue({ code: 'custom', path: [i], message: notLike(kind) })
        return id ?? value
      }),
    )
const notLike = (kind: IdKind) => `is not an id like ${PREFIXES[kind]}_…`

/**
 * A field of a body that may be left out, or null: generated clients write null for a field without a value. For fields whose
 * null means nothing of its own.
 */
export const optional = <T extends z.ZodType>(schema: T) => schema.nullish().transform((value) => value ?? undefined)

/** The same with a value in its place. */
export const withDefault = <T extends z.ZodType>(schema: T, value: z.output<T>) =>
  schema
    .nullish()
    .transform((given) => given ?? value)
    // Said as metadata, zod would leave it out: it is that of the value before the transformation.
    .meta({
      override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) =>
        void Object.assign(jsonSchema, { default: value }),
    })

/** An id in a response. Handlers give the UUID. */
export const outputId = <K extends IdKind>(kind: K) =>
  publicId(kind).meta({ pattern: idPattern(kind).source, example: exampleId(kind) })

/**
 * A list in a response, of at most `max`. Not `z.array(…).max(…)`, which leaves a longer list as it was given: an answer
 * that does not fit its schema leaves with public ids all the same (`render`).
 */
export const outputArray = <T extends z.ZodType>(item: T, max: number) =>
  z
    .array(item)
    .check(({ value, issues }) => {
      if (value.length > max) issues.push({ code: 'custom', message: `has more than ${max}`, input: value })
    })
    .meta({ maxItems: max })

/** An id in a response of the social connections area, which shows bare UUIDs (interface specification §2.1). */
export const outputUuid = () => z.guid().meta({ example: EXAMPLE_ID }) as unknown as z.ZodType<Uuid, Uuid>

/** A time in a response: always `YYYY-MM-DDTHH:mm:ss.sssZ`. Make the value with `timestamp(date)`. */
export const outputTime = () =>
  z.iso.datetime({ precision: 3 }).meta({ pattern: OUTPUT_TIME, example: '2026-11-21T09:30:00.000Z' })
// Fixes what the format date-time leaves open: milliseconds and UTC. zod's own pattern spells out leap years.
const OUTPUT_TIME = '^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$'

/** A date in a response: `YYYY-MM-DD`, in UTC. */
export const outputDate = () => z.iso.date().meta({ pattern: '^\\d{4}-\\d{2}-\\d{2}$', example: '2026-11-21' })

/** `YYYY-MM-DDTHH:mm:ss.sssZ`; null stays null. */
export function timestamp(date: Date): string
export function timestamp(date: Date | null): string | null
export function timestamp(date: Date | null): string | null {
  return date?.toISOString() ?? null
}

/** A time in a request: RFC 3339 with any offset, parsed to a Date. */
export const inputTime = () => anyTime().refine(isStorable, 'must be between the years 1000 and 9999')

/** A time that others are only compared with. Programs write their zero value, in the year 1, for no lower bound. */
export const timeBound = () =>
  anyTime().refine((time) => time >= YEAR_ONE && time <= LAST_TIME, 'must be between the years 1 and 9999')

const anyTime = () =>
  z.iso
    .datetime({
      offset: true,
      // For other mistakes, such as a number, zod's own words.
      error: ({ code }) =>
        code === 'invalid_format' ? 'is not a time with an offset, like 2026-11-21T09:30:00Z' : undefined,
    })
    .meta({ example: '2026-11-21T09:30:00Z' })
    .transform((text) => new Date(text))

/**
 * Whether a time is the same when it is read again, and has four digits in a response. JavaScript reads the years 1 to 99,
 * as Postgres writes them, as 1950 to 2049. The zero value of .NET, Go and Swift is in the year 1.
 */
export const isStorable = (time: Date): boolean => time >= FIRST_TIME && time <= LAST_TIME
const YEAR_ONE = new Date('0001-01-01T00:00:00Z')
const FIRST_TIME = new Date('1000-01-01T00:00:00Z')
const LAST_TIME = new Date('9999-12-31T23:59:59.999Z')

/** An address of IPv4 or IPv6. */
export const ipAddress = z.union([z.ipv4(), z.ipv6()], 'is not an IP address').meta({ id: 'IpAddress' })

/** The width of an integer, for the types of generated clients. */
const formatOf = ({ maximum = 0 }: Record<string, number>) => (maximum < 2 ** 31 ? 'int32' : 'int64')

/** Describes text as an integer: the value arrives as text, and clients should treat it as a number. */
const asInteger =
  (shown: Record<string, number>) =>
  ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
    delete jsonSchema['pattern']
    Object.assign(jsonSchema, { type: 'integer', format: formatOf(shown), ...shown })
  }

/** An integer in a query or a path. Anything else, or an integer out of range, is a 400. */
export const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^-?\d{1,15}$/, 'is not a whole number')
    .transform(Number)
    .pipe(z.int().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`))
    .meta({ override: asInteger({ minimum: min, maximum: max }) })

/** A yes or no in a query. */
export const flag = () =>
  z
    .enum(['true', 'false'], 'must be true or false')
    .transform((word) => word === 'true')
    .meta({ override: ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => asBoolean(jsonSchema) })

function asBoolean(jsonSchema: Record<string, unknown>): void {
  delete jsonSchema['enum']
  jsonSchema['type'] = 'boolean'
}

/** `limit` and `cursor` of a list. */
export const pageQuery = (bounds: { default: number; max: number }) =>
  z.object({
    limit: z
      .string()
      .regex(/^-?\d{1,15}$/, 'is not a whole number')
      .transform(Number)
      .pipe(z.int().min(1, 'must be at least 1').max(bounds.max, `must be at most ${bounds.max}`))
      .prefault(String(bounds.default))
      .meta({
        description: 'Maximum number of items to return',
        override: asInteger({ minimum: 1, maximum: bounds.max, default: bounds.default }),
      }),
    cursor: z
      .string()
      .max(2048)
      .optional()
      .meta({ description: '`next_cursor` of the previous page; valid for 24 hours and for the same list only' }),
  })

/** The `data` of a list: `{<plural>: [...], next_cursor, has_more}`; the component `MediaList` for items `Media`. */
export const listOf = <N extends string, S extends z.ZodType>(plural: N, item: S) => {
  const known = lists.get(item)?.[plural] as ReturnType<typeof newList<N, S>> | undefined
  const list = known ?? newList(plural, item)
  lists.set(item, { ...lists.get(item), [plural]: list })
  return list
}

/** How many items all pages of a list have together. */
export const totalCount = () =>
  z
    .int()
    .min(0)
    .max(2 ** 31 - 1)
    .meta({ description: 'On all pages together, with the same filters' })

/** One schema per list, shared by all its operations: the document identifies it by its name. */
const lists = new WeakMap<z.ZodType, Record<string, z.ZodType>>()

const newList = <N extends string, S extends z.ZodType>(plural: N, item: S) => {
  const name = z.globalRegistry.get(item)?.id
  const list = z.object({
    [plural]: z.array(item),
    next_cursor: z.string().nullable().meta({ description: 'Null on the last page' }),
    has_more: z.boolean(),
  } as { [K in N]: z.ZodArray<S> } & { next_cursor: z.ZodNullable<z.ZodString>; has_more: z.ZodBoolean })
  return name === undefined ? list : list.meta({ id: `${name}List` })
}

/** The pattern of `text` for JSON Schema: no forbidden character, and at least `min` after trimming. */
export const textPattern = (min: number) => {
  const space = '\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff'
  const any = '[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f]'
  const visible = `[^\\u0000-\\u0020\\u007f-\\u00a0${space}]`
  if (min === 0) return `^${any}*$`
  return min === 1 ? `^${any}*${visible}${any}*$` : `^${any}*${visible}${any}{${min - 2},}${visible}${any}*$`
}

/** Text written by users: NFC, trimmed, without control characters, `min` to `max` code points. */
export const text = (min: number, max: number) =>
  z
    .string()
    .check((ctx) => {
      const tidied = tidyText(ctx.value, { min, max })
      if ('issue' in tidied) ctx.issues.push({ code: 'custom', message: tidied.issue, input: ctx.value })
      else ctx.value = tidied.text
    })
    .meta({ minLength: min, maxLength: max, pattern: textPattern(min) })

/** Text that stays unchanged: passwords, tokens. Only characters that no store can keep are refused. */
export const verbatim = (max: number) =>
  z
    .string()
    .min(1)
    .max(max)
    .refine(isKeepable, 'contains characters that are not allowed')
    .meta({ pattern: '^[^\\u0000]*$' })

/** `meta` of the envelope. */
export const Meta = z
  .object({
    request_id: z.string().meta({ description: 'Also in the header X-Request-Id' }),
    timestamp: outputTime().meta({ description: 'When the response was created' }),
  })
  .meta({ id: 'Meta' })
