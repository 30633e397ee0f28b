import t from 'tap'
import * as z from 'zod'
import { type AppDeps, apiRoutes } from '../../../api/app.ts'

type Path = (string | number)[]

const WRAPPERS = ['optional', 'nullable', 'default', 'prefault', 'nonoptional', 'readonly', 'catch']
const NO_TEXT = ['number', 'int', 'boolean', 'bigint', 'null', 'literal', 'enum', 'transform']

/** As much of a schema's definition as leads to the schemas below it. */
interface Definition {
  type: string
  innerType: z.core.$ZodType
  in: z.core.$ZodType
  out: z.core.$ZodType
  element: z.core.$ZodType
  options: z.core.$ZodType[]
  shape: z.core.$ZodShape
}

/** Where a schema takes text of the client's choice. A kind of schema that it does not know is an error. */
function textsOf(schema: z.core.$ZodType, at: Path = []): Path[] {
  const def = schema._zod.def as unknown as Definition
  if (def.type === 'string') return [at]
  if (NO_TEXT.includes(def.type)) return []
  if (WRAPPERS.includes(def.type)) return textsOf(def.innerType, at)
  // What goes in is what the client sends; `preprocess` goes in as a transformation, and says nothing of it.
  if (def.type === 'pipe') return [...textsOf(def.in, at), ...textsOf(def.out, at)]
  if (def.type === 'array') return textsOf(def.element, [...at, 0])
  if (def.type === 'union') return def.options.flatMap((option) => textsOf(option, at))
  if (def.type !== 'object') throw new Error(`teach this test what a ${def.type} at ${at.join('.')} is`)
  return Object.entries(def.shape).flatMap(([name, field]) => textsOf(field, [...at, name]))
}

/** The smallest document that has `value` at that place. */
const documentWith = (value: unknown, [first, ...rest]: Path): unknown => {
  if (first === undefined) return value
  return typeof first === 'number' ? [documentWith(value, rest)] : { [first]: documentWith(value, rest) }
}

function refuses(schema: z.ZodType, at: Path, value: string): boolean {
  const { error } = schema.safeParse(documentWith(value, at))
  return error?.issues.some(({ path }) => path.every((key, i) => key === at[i]) && path.length > 0) ?? false
}

const BAD = {
  'a NUL': 'a\0b',
  'the first half of a surrogate pair': 'a\ud800',
  'the second half of a surrogate pair': '\udc00b',
  'a quarter of a megabyte': 'a'.repeat(256 * 1024),
}

const nothing: object = new Proxy({}, { get: () => nothing })
const routes = apiRoutes(nothing as AppDeps, '/v1')
const bodies = routes.flatMap(({ operationId, body }) => (body ? [{ operationId, schema: body }] : []))
const queries = routes.flatMap(({ operationId, query }) => (query ? [{ operationId, schema: query }] : []))

t.test('the test finds texts wherever they are, and sees when one is taken as it comes', async (t) => {
  const careless = z.object({
    list: z.array(z.object({ a: z.string().nullish() })),
    n: z.number(),
    or: z.string().or(z.int()),
  })
  t.strictSame(textsOf(careless), [['list', 0, 'a'], ['or']])
  t.notOk(refuses(careless, ['list', 0, 'a'], BAD['a NUL']))
  t.notOk(refuses(careless, ['or'], BAD['the first half of a surrogate pair']))
  t.throws(() => textsOf(z.object({ any: z.unknown() })), { message: /teach this test/ })
})

t.test('every text of every body, form and query refuses what cannot be kept, and what is too long', async (t) => {
  for (const { operationId, schema } of [...bodies, ...queries]) {
    for (const at of textsOf(schema)) {
      // It is compared with a signature before it is read, and refused as INVALID_CURSOR.
      if (at.join('.') === 'cursor') continue
      for (const [what, value] of Object.entries(BAD)) {
        t.ok(refuses(schema, at, value), `${operationId}: ${at.join('.')} with ${what}`)
      }
    }
  }
  const fields = bodies.flatMap(({ schema }) => textsOf(schema))
  for (const field of ['email', 'password', 'filename', 'asset_identifier']) {
    t.ok(
      fields.some((at) => at.join('.') === field),
      `${field} is among them`,
    )
  }
})
