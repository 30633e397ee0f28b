import { readFile } from 'node:fs/promises'
import t from 'tap'
import { type AppDeps, apiRoutes, describeApi } from '../../../api/app.ts'
import { PROBLEMS } from '../../../lib/contract/problem.ts'

// biome-ignore lint/suspicious/noExplicitAny: a JSON document that the test takes apart
type Json = any
const nothing: object = new Proxy({}, { get: () => nothing })
const routes = apiRoutes(nothing as AppDeps, '/v1')
const document: Json = JSON.parse(JSON.stringify(describeApi(routes, '/v1')))
const operations: [name: string, operation: Json][] = Object.entries<Json>(document.paths).flatMap(([path, item]) =>
  Object.entries<Json>(item).map(([method, operation]): [string, Json] => [`${method} ${path}`, operation]),
)

/** Follows a reference into the components. */
const resolved = (node: Json): Json =>
  node?.$ref === undefined
    ? node
    : node.$ref
        .slice(2)
        .split('/')
        .reduce((at: Json, key: string) => at[key], document)

t.test('the committed document is the one the routes make', async (t) => {
  const committed = await readFile(new URL('../../../api/openapi.json', import.meta.url), 'utf8')
  t.strictSame(JSON.parse(committed), document)
})

t.test('every route is described, with an id of its own', async (t) => {
  t.equal(operations.length, routes.length)
  t.equal(new Set(operations.map(([, o]) => o.operationId)).size, routes.length)
  t.equal(document.openapi, '3.1.1')
  t.strictSame(document.servers[0].url, '/v1')
})

t.test('what needs no token says so, what needs one lists 401 and 503', async (t) => {
  for (const [name, o] of operations) {
    const route = routes.find((r) => r.operationId === o.operationId)
    if (route?.public) t.strictSame(o.security, route.identifies ? [{}, { bearer: [] }] : [], name)
    else t.match(Object.keys(o.responses), new Set(['401', '503']).size === 2 ? /401|503/ : [], name)
    if (!route?.public) t.ok(o.responses['401'] && o.responses['503'] && !o.security, name)
  }
})

t.test('every problem is declared under its status with an example of its body', async (t) => {
  for (const [name, o] of operations) {
    const declared = routes.find((r) => r.operationId === o.operationId)?.problems ?? []
    for (const code of [...declared, 'INTERNAL_ERROR', 'RATE_LIMITED', 'SERVICE_UNAVAILABLE'] as const) {
      // A size that is only announced is refused with 422 (ProblemOptions.status).
      const announced = code === 'FILE_TOO_LARGE' && o.requestBody.content['application/json']
      const media = resolved(o.responses[announced ? 422 : PROBLEMS[code]])?.content['application/json']
      t.match(media, { schema: { $ref: '#/components/schemas/Problem' } }, `${name} ${code}`)
      t.equal(media?.examples?.[code]?.value.error.code, code)
    }
  }
})

t.test('every form has an example that names its file, with fields as they are declared', async (t) => {
  const forms = operations.filter(([, o]) => o.requestBody?.content['multipart/form-data'])
  t.ok(forms.length > 0)
  for (const [name, o] of forms) {
    const { schema, example } = o.requestBody.content['multipart/form-data']
    const { file, ...fields } = example
    t.equal(typeof file, 'string', name)
    t.ok(
      Object.keys(example).every((field) => field in resolved(schema).properties),
      name,
    )
    const route = routes.find(({ operationId }) => operationId === o.operationId)
    t.ok(route?.body?.safeParse(fields).success, name)
  }
})

t.test('every list takes a limit and a cursor', async (t) => {
  for (const [name, o] of operations) {
    const query = (o.parameters ?? []).filter((p: Json) => p.in === 'query').map((p: Json) => p.name)
    if (query.includes('cursor'))
      t.ok(
        query.includes('limit') && resolved(o.responses['400']).content['application/json'].examples.INVALID_CURSOR,
        name,
      )
  }
  const list = document.paths['/api/media/{org_id}']?.get
  const limit = list?.parameters.find((p: Json) => p.name === 'limit')
  t.match(limit.schema, { type: 'integer', minimum: 1, maximum: 100, default: 20 })
  t.notOk('pattern' in limit.schema)
})

t.test('POST with a token takes an Idempotency-Key', async (t) => {
  for (const [name, o] of operations) {
    const headers = (o.parameters ?? []).filter((p: Json) => p.in === 'header').map((p: Json) => p.name)
    // It reads: its filter is too private for a URL.
    const isRead = name === 'post /admin/audit/query'
    const expected = name.startsWith('post ') && o.security === undefined && !isRead
    t.equal(headers.includes('Idempotency-Key'), expected, name)
  }
})
