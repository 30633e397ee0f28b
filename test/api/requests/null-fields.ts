import t from 'tap'
import * as z from 'zod'
import { type AppDeps, apiRoutes, internalRoutes } from '../../../api/app.ts'

const nothing: object = new Proxy({}, { get: () => nothing })
const deps = nothing as AppDeps
const bodies = [...apiRoutes(deps, '/v1'), ...internalRoutes(deps)].flatMap(({ operationId, body, bodyKind }) =>
  body && bodyKind !== 'multipart' ? [{ operationId, body }] : [],
)

/** Fields that a change may leave out, of what always has a value: null would remove it. */
const LASTING: Record<string, readonly string[]> = {
  updateAlbum: ['title', 'visibility'],
  editComment: ['body'],
  updateEvent: ['title', 'start_at'],
}

interface Definition {
  shape?: Record<string, z.ZodType>
  element?: z.ZodType
  innerType?: z.ZodType
  in?: z.ZodType
}

/** The fields of a body that may be left out, and whether they may be null. */
function optionalIn(schema: z.ZodType, at = ''): { field: string; takesNull: boolean }[] {
  const { shape = {}, element, innerType, in: input } = schema._zod.def as unknown as Definition
  const within = [element, innerType, input].flatMap((part) => (part ? optionalIn(part, at) : []))
  const fields = Object.entries(shape).flatMap(([name, field]) => {
    const takes = (value: unknown) => field.safeParse(value).success
    const own = takes(undefined) ? [{ field: `${at}${name}`, takesNull: takes(null) }] : []
    return [...own, ...optionalIn(field, `${at}${name}.`)]
  })
  return [...within, ...fields]
}

t.test('the test finds fields wherever they are', async (t) => {
  const body = z
    .object({ a: z.string().optional(), list: z.array(z.object({ b: z.int().nullish() })).nullish(), c: z.string() })
    .refine(() => true)
    .transform((given) => given)
  t.strictSame(optionalIn(body), [
    { field: 'a', takesNull: false },
    { field: 'list', takesNull: true },
    { field: 'list.b', takesNull: true },
  ])
})

t.test(
  'every optional field of every JSON body may be null, unless null would remove what always has a value',
  async (t) => {
    for (const { operationId, body } of bodies) {
      const refusing = optionalIn(body).flatMap(({ field, takesNull }) => (takesNull ? [] : [field]))
      t.strictSame(refusing, LASTING[operationId] ?? [], operationId)
    }
    const fields = bodies.flatMap(({ body }) => optionalIn(body).map(({ field }) => field))
    for (const field of ['device_id', 'chunk_size_bytes', 'data.sid', 'keys', 'end_at'])
      t.ok(fields.includes(field), field)
  },
)
