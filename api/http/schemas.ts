import * as z from 'zod'
import { formatId, type IdKind, idPattern, PREFIXES, parseId, type Uuid } from '../../lib/contract/ids.ts'
import { isKeepable, tidyText } from './text.ts'

/** Marks an issue that means "no such thing" (404) rather than "badly written" (400). */
export const NOT_FOUND_ISSUE = 'not-found'

const exampleOf = (kind: IdKind) => formatId(kind, '01932c07-209c-7c3e-8a5a-3f1d2b4c5d6e')

/** An id in the path: `med_…` or a bare UUID, handed on as UUID. Anything else names nothing, hence 404. */
export const pathId = (kind: IdKind) =>
  z
    .string()
    .meta({ description: `Identifier of the ${kind}`, example: exampleOf(kind) })
    .transform((value, ctx): Uuid => {
      const id = parseId(kind, value)
      if (id) return id
      ctx.addIssue({ code: 'custom', message: 'names nothing', params: { means: NOT_FOUND_ISSUE } })
      return z.NEVER
    })

/** An id in a body or a query: the same forms, handed on as UUID. Anything else is a 400 that names the field. */
export const bodyId = (kind: IdKind) =>
  z
    .string()
    .meta({ description: `Identifier of the ${kind}`, example: exampleOf(kind) })
    .transform((value, ctx): Uuid => {
      const id = parseId(kind, value)
      if (id) return id
      ctx.addIssue({ code: 'custom', message: `is not an id like ${PREFIXES[kind]}_…` })
      return z.NEVER
    })

/** An id in an answer. Make the value with `formatId(kind, uuid)`. */
export const outputId = (kind: IdKind) =>
  z
    .string()
    .regex(idPattern(kind))
    .meta({ example: exampleOf(kind) })

/** A time in an answer: always `YYYY-MM-DDTHH:mm:ss.sssZ`. Make the value with `timestamp(date)`. */
export const outputTime = () => z.iso.datetime({ precision: 3 }).meta({ example: '2026-11-21T09:30:00.000Z' })

/** `YYYY-MM-DDTHH:mm:ss.sssZ`; null stays null. */
export function timestamp(date: Date): string
export function timestamp(date: Date | null): string | null
export function timestamp(date: Date | null): string | null {
  return date?.toISOString() ?? null
}

/** A time in a request: RFC 3339 with any offset, handed on as Date. */
export const inputTime = () =>
  z.iso
    .datetime({ offset: true })
    .meta({ example: '2026-11-21T09:30:00Z' })
    .transform((text) => new Date(text))

/** In the document a number, although it arrives as text. */
const asInteger =
  (shown: Record<string, number>) =>
  ({ jsonSchema }: { jsonSchema: Record<string, unknown> }) => {
    delete jsonSchema['pattern']
    Object.assign(jsonSchema, { type: 'integer', ...shown })
  }

/** A whole number written in a query or a path. Anything else, or one out of range, is a 400. */
export const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^-?\d{1,15}$/, 'is not a whole number')
    .transform(Number)
    .pipe(z.int().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`))
    .meta({ override: asInteger({ minimum: min, maximum: max }) })

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
        description: 'How many items to return at most',
        override: asInteger({ minimum: 1, maximum: bounds.max, default: bounds.default }),
      }),
    cursor: z
      .string()
      .max(2048)
      .optional()
      .meta({ description: '`next_cursor` of the page before; valid for 24 hours and for the same list only' }),
  })

/** The `data` of a list: `{<plural>: [...], next_cursor, has_more}`. */
export const listOf = <N extends string, S extends z.ZodType>(plural: N, item: S) =>
  z.object({
    [plural]: z.array(item),
    next_cursor: z.string().nullable().meta({ description: 'Null on the last page' }),
    has_more: z.boolean(),
  } as { [K in N]: z.ZodArray<S> } & { next_cursor: z.ZodNullable<z.ZodString>; has_more: z.ZodBoolean })

/** Text that people wrote: NFC, trimmed, without control characters, `min` to `max` code points. */
export const text = (min: number, max: number) =>
  z
    .string()
    .check((ctx) => {
      const tidied = tidyText(ctx.value, { min, max })
      if ('issue' in tidied) ctx.issues.push({ code: 'custom', message: tidied.issue, input: ctx.value })
      else ctx.value = tidied.text
    })
    .meta({ minLength: min, maxLength: max })

/** Text that is handed on exactly as it came: passwords, tokens. Only what no store could keep is refused. */
export const verbatim = (max: number) =>
  z.string().min(1).max(max).refine(isKeepable, 'holds characters that are not allowed')
