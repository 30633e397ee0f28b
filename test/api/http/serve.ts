import t from 'tap'
import * as z from 'zod'
import { sessionActions } from '../../../api/auth/policy.ts'
import { publicRoute, type Route, route } from '../../../api/http/route.ts'
import {
  bodyId,
  listOf,
  outputArray,
  outputId,
  outputTime,
  pageQuery,
  pathId,
  text,
  timestamp,
  wholeNumber,
} from '../../../api/requests/schemas.ts'
import { formatId, newUuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import { ask } from '../../support/ask.ts'
import { eventually } from '../../support/eventually.ts'
import { noIpv6 } from '../../support/ipv6.ts'
import { noDatabase, PEOPLE, serveRoutes } from '../../support/serve.ts'

const Thing = z.object({ media_id: outputId('media'), title: z.string(), created_at: outputTime() })
const id = newUuid()
const thing = { media_id: formatId('media', id), title: 'A day out', created_at: timestamp(new Date(0)) }
const common = { tags: ['Test'], summary: 'For tests', operationId: 'test', action: sessionActions.endAll }
const thrown: Record<string, () => unknown> = {
  problem: () =>
    new Problem('CONFLICT', 'Already there', { details: [{ field: 'body.title', issue: 'is taken' }], retryAfter: 7 }),
  bug: () => new Error('the secret is swordfish'),
  store: () => new Error('outer', { cause: new StoreError('Unavailable', 'bucket s3-17 is away') }),
  database: () => Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' }),
  refused: () => Object.assign(new Error('connect ECONNREFUSED 10.0.0.7'), { code: 'ECONNREFUSED' }),
  text: () => 'just text',
}
let etag = 'v1'

const routes: Route[] = [
  route({
    ...common,
    method: 'get',
    path: '/things/{media_id}',
    params: z.object({ media_id: pathId('media') }),
    status: 200,
    response: Thing,
    handle: async ({ params }) => ({ data: { ...thing, media_id: params.media_id }, etag }),
  }),
  route({
    ...common,
    method: 'delete',
    path: '/things/{media_id}',
    params: z.object({ media_id: pathId('media') }),
    status: 204,
    handle: async () => ({ data: null }),
  }),
  // After the placeholder in the list, before it when matching.
  route({
    ...common,
    method: 'get',
    path: '/things/special',
    status: 200,
    response: z.object({ special: z.boolean() }),
    handle: async () => ({ data: { special: true } }),
  }),
  route({
    ...common,
    method: 'post',
    path: '/things',
    query: z.object({ dry_run: z.stringbool().optional() }),
    body: z.object({
      title: text(1, 10),
      owner_id: bodyId('user'),
      tags: z.array(z.object({ name: z.string() })).optional(),
    }),
    status: 201,
    response: Thing,
    handle: async ({ body }) => ({
      data: { ...thing, media_id: id, title: body.title },
      headers: { Location: '/v1/things/1' },
    }),
  }),
  route({
    ...common,
    method: 'get',
    path: '/things',
    query: pageQuery({ default: 20, max: 100 }),
    status: 200,
    response: listOf('things', z.object({ limit: z.number() })),
    handle: async ({ query }) => ({ data: { things: [{ limit: query.limit }], next_cursor: null, has_more: false } }),
  }),
  route({
    ...common,
    method: 'put',
    path: '/chunks/{index}',
    params: z.object({ index: wholeNumber(0, 9999) }),
    status: 200,
    response: z.object({ index: z.number() }),
    handle: async ({ params }) => ({ data: { index: params.index } }),
  }),
  route({
    ...common,
    method: 'get',
    path: '/whoami',
    status: 200,
    response: z.object({
      user: z.string(),
      ip: z.string(),
      agent: z.string().nullable(),
      trace: z.string().nullable(),
    }),
    handle: async ({ actor, context: c }) => ({
      data: { user: actor.userId, ip: c.ip, agent: c.userAgent, trace: c.traceparent },
    }),
  }),
  publicRoute({
    ...common,
    method: 'get',
    path: '/open',
    unwrapped: true,
    deprecated: true,
    status: 200,
    response: z.object({ open: z.boolean() }),
    handle: async () => ({ data: { open: true } }),
  }),
  publicRoute({
    ...common,
    method: 'get',
    path: '/throw/{what}',
    problems: ['CONFLICT'],
    params: z.object({ what: z.string() }),
    status: 200,
    async handle({ params }) {
      throw thrown[params.what]?.()
    },
  }),
  publicRoute({
    ...common,
    method: 'get',
    path: '/misfit',
    status: 200,
    response: z.object({
      n: z.number(),
      things: z.array(Thing.pick({ media_id: true })),
      few: outputArray(Thing.pick({ media_id: true }), 0),
    }),
    handle: async () => {
      const things = [{ media_id: id, password: 'x' }]
      return { data: { n: 'not a number' as unknown as number, things, few: things, password: 'x' } }
    },
  }),
  publicRoute({
    ...common,
    method: 'get',
    path: '/strip',
    status: 200,
    response: z.object({ n: z.number() }),
    handle: async () => ({ data: { n: 1, password: 'x' } as { n: number } }),
  }),
]

const server = await serveRoutes(t, routes, { db: noDatabase })
const ann = { authorization: 'Bearer ann' }
const path = `/v1/things/${thing.media_id}`

t.test('wraps data in the envelope, names the request, and answers at the base path and the root', async (t) => {
  for (const prefix of ['/v1', '']) {
    const r = await server.ask({ path: `${prefix}/things/${thing.media_id}`, headers: ann })
    t.equal(r.status, 200)
    t.strictSame(r.json.data, thing)
    t.match(r.json.meta, { request_id: /^req_[0-7][0-9a-z]{25}$/, timestamp: /^\d{4}-.*\.\d{3}Z$/ })
    t.equal(r.headers['x-request-id'], r.json.meta.request_id)
    t.equal(r.headers['x-powered-by'], undefined)
    t.equal(r.headers['x-content-type-options'], 'nosniff')
  }
})

t.test('a request has an id of the server, whatever the client calls it', async (t) => {
  const seen = new Set<string>()
  const claimed = [formatId('request', newUuid()), '1', `req_${'8'.repeat(26)}`, 'x'.repeat(4000)]
  for (const given of claimed) {
    const r = await server.ask({ path, headers: { ...ann, 'x-request-id': given } })
    t.match(r.json.meta.request_id, /^req_[0-7][0-9a-z]{25}$/)
    t.equal(r.headers['x-request-id'], r.json.meta.request_id)
    t.notOk(claimed.includes(r.json.meta.request_id))
    seen.add(r.json.meta.request_id)
  }
  t.equal(seen.size, claimed.length)
})

t.test('takes a bare UUID for a prefixed id', async (t) => {
  const r = await server.ask({ path: `/v1/things/${id.toUpperCase()}`, headers: ann })
  t.equal(r.json.data.media_id, thing.media_id)
})

t.test('answers 404 to a path id that names nothing, whatever is wrong with it', async (t) => {
  for (const bad of [
    'x',
    'usr_01j4p0f84wfhz8mpfz3mjs2qaf',
    '%00',
    '%zz',
    'med_01J4P0F84WFHZ8MPFZ3MJS2QAF',
    '..%2f..',
  ]) {
    const r = await server.ask({ path: `/v1/things/${bad}`, headers: ann })
    t.equal(r.status, 404, bad)
    t.equal(r.json.error.code, 'NOT_FOUND')
  }
})

t.test('reports every mistake of a request at once', async (t) => {
  const r = await server.ask({
    method: 'POST',
    path: '/v1/things?dry_run=perhaps',
    headers: ann,
    body: { title: '', owner_id: 'nobody', tags: [{ name: 'a' }, { name: 7 }] },
  })
  t.equal(r.status, 400)
  t.equal(r.json.error.code, 'VALIDATION_ERROR')
  t.strictSame(r.json.error.details.map((d: { field: string }) => d.field).sort(), [
    'body.owner_id',
    'body.tags.1.name',
    'body.title',
    'query.dry_run',
  ])
  t.notMatch(r.text, /nobody|perhaps/, 'what was sent is not repeated')
  const empty = await server.ask({ method: 'POST', path: '/v1/things', headers: ann })
  t.match(empty.json.error.details, [
    { field: 'body.title', issue: 'is required' },
    { field: 'body.owner_id', issue: 'is required' },
  ])
})

t.test('ignores unknown fields of body and query', async (t) => {
  const body = { title: '  Ça va ', owner_id: newUuid(), colour: 'red', __proto__: { title: 'x' } }
  const r = await server.ask({ method: 'POST', path: '/v1/things?x=1', headers: ann, body })
  t.equal(r.status, 201)
  t.equal(r.json.data.title, 'Ça va')
  t.equal(r.headers.location, '/v1/things/1')
})

t.test('says 400 to path parameters that are not ids', async (t) => {
  t.equal((await server.ask({ method: 'PUT', path: '/chunks/12', headers: ann })).json.data.index, 12)
  for (const bad of ['-1', '10000', '1.5', 'x', '1e3', '99999999999999999999']) {
    const r = await server.ask({ method: 'PUT', path: `/chunks/${bad}`, headers: ann })
    t.match([r.status, r.json.error.details[0].field], [400, 'path.index'], bad)
  }
})

t.test('bounds the page size', async (t) => {
  const limitOf = async (q: string) =>
    (await server.ask({ path: `/things${q}`, headers: ann })).json.data?.things[0].limit
  t.equal(await limitOf(''), 20)
  t.equal(await limitOf('?limit=100'), 100)
  for (const bad of ['0', '101', '-5', 'ten', '1.0', '']) t.equal(await limitOf(`?limit=${bad}`), undefined, bad)
  t.equal(await limitOf('?limit=1&limit=2'), undefined, 'twice')
})

t.test('refuses bodies that are not JSON of at most 256 KiB', async (t) => {
  const post = (body: string | Buffer, type = 'application/json', more = {}) =>
    server.ask({ method: 'POST', path: '/v1/things', headers: { ...ann, 'content-type': type, ...more }, body })
  for (const bad of ['{', '{"title":}', '\u0000', 'undefined', "{'a':1}"]) {
    t.match((await post(bad)).json.error, { code: 'MALFORMED_JSON' }, bad)
  }
  t.match((await post(Buffer.from([0x22, 0xff, 0xfe, 0x22]))).json.error, { code: 'MALFORMED_JSON' }, 'not UTF-8')
  for (const bad of ['null', '[]', '"x"', '7']) {
    t.match((await post(bad)).json.error, { code: 'VALIDATION_ERROR', details: [{ field: 'body' }] }, bad)
  }
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/json; charset=utf-16', '']) {
    t.match(await post('{}', type), { status: 415, json: { error: { code: 'UNSUPPORTED_CONTENT_TYPE' } } }, type)
  }
  t.equal((await post('{}', 'application/json', { 'content-encoding': 'gzip' })).status, 415, 'compressed')
  t.equal((await post('{}', 'application/merge-patch+json; charset="UTF-8"')).status, 400, 'a kind of JSON')
  const huge = JSON.stringify({ title: 'x'.repeat(256 * 1024) })
  t.match(await post(huge), { status: 413, json: { error: { code: 'PAYLOAD_TOO_LARGE' } } })
  t.match(
    await post(huge, 'application/json', { 'transfer-encoding': 'chunked' }),
    { status: 413 },
    'of unknown length',
  )
  const most = `${' '.repeat(256 * 1024 - 2)}{}`
  t.equal((await post(most)).json.error.code, 'VALIDATION_ERROR', 'the limit itself is allowed')
})

t.test('answers 204 without a body', async (t) => {
  const r = await server.ask({ method: 'DELETE', path, headers: ann })
  t.match([r.status, r.text, r.headers['content-type']], [204, '', undefined])
})

t.test('does not wrap what is declared unwrapped, and dates deprecated operations', async (t) => {
  const r = await server.ask({ path: '/v1/open' })
  t.strictSame(r.json, { open: true })
  t.match(r.headers['deprecation'], /^@\d+$/)
  t.match(r.headers['sunset'], / GMT$/)
})

t.test('answers 304 while the entity tag is the same', async (t) => {
  const first = await server.ask({ path, headers: ann })
  const tag = first.headers.etag ?? ''
  t.match(tag, /^W\/"[\w-]+"$/)
  t.equal(first.headers['cache-control'], 'private, no-cache')
  for (const match of [tag, `"other", ${tag}`, tag.slice(2), '*']) {
    const r = await server.ask({ path, headers: { ...ann, 'if-none-match': match } })
    t.match([r.status, r.text, r.headers.etag], [304, '', tag], match)
  }
  for (const directive of ['no-cache', 'max-age=0']) {
    const headers = { ...ann, 'if-none-match': tag, 'cache-control': directive }
    t.equal((await server.ask({ path, headers })).status, 304, `If-None-Match decides alone, also beside ${directive}`)
  }
  t.equal((await server.ask({ path, headers: { ...ann, 'if-none-match': '"other"' } })).status, 200)
  etag = 'v2'
  t.equal((await server.ask({ path, headers: { ...ann, 'if-none-match': tag } })).status, 200, 'it changed')
  const bob = await server.ask({ path, headers: { authorization: 'Bearer bob' } })
  t.not(bob.headers.etag, (await server.ask({ path, headers: ann })).headers.etag, 'tags are per person')
})

t.test('prefers a literal segment to a placeholder', async (t) => {
  t.strictSame((await server.ask({ path: '/v1/things/special', headers: ann })).json.data, { special: true })
})

t.test('answers 405 with Allow to another method of a known path, 404 to an unknown path', async (t) => {
  const r = await server.ask({ method: 'PATCH', path })
  t.match([r.status, r.json.error.code, r.headers.allow], [405, 'METHOD_NOT_ALLOWED', 'DELETE, GET, HEAD, OPTIONS'])
  const options = await server.ask({ method: 'OPTIONS', path: '/v1/things' })
  t.match([options.status, options.headers.allow], [204, 'GET, HEAD, OPTIONS, POST'])
  for (const headers of [{}, ann, { authorization: 'Bearer nonsense' }]) {
    for (const unknown of [
      '/',
      '/v1',
      '/v2/things',
      '/v1/thing',
      '/metrics',
      '/livez',
      '/readyz',
      '/v1/v1/things',
      '/THINGS',
      '/things/',
    ]) {
      const r = await server.ask({ path: unknown, headers })
      t.match([r.status, r.json?.error.code], [404, 'NOT_FOUND'], unknown)
    }
  }
})

t.test('shows a Problem as it is, and nothing of any other error', async (t) => {
  const problem = await server.ask({ path: '/throw/problem' })
  t.equal(problem.status, 409)
  t.equal(problem.headers['retry-after'], '7')
  t.strictSame(problem.json.error, {
    code: 'CONFLICT',
    message: 'Already there',
    request_id: problem.headers['x-request-id'],
    details: [{ field: 'body.title', issue: 'is taken' }],
    retry_after: 7,
  })
  for (const what of ['bug', 'text']) {
    const r = await server.ask({ path: `/throw/${what}` })
    t.match([r.status, r.json.error.code], [500, 'INTERNAL_ERROR'])
    t.notMatch(r.text, /swordfish|just text|at /)
  }
  t.ok(
    server.logged.some((line) => /swordfish/.test(JSON.stringify(line)) && line['request_id']),
    'the log has it whole, with the request id',
  )
  for (const what of ['store', 'database', 'refused']) {
    const r = await server.ask({ path: `/throw/${what}` })
    t.match([r.status, r.json.error.code, r.headers['retry-after']], [503, 'SERVICE_UNAVAILABLE', '5'], what)
    t.notMatch(r.text, /s3-17|10\.0|statement/)
  }
})

t.test(
  'fails on an answer that does not fit its schema where told to, else logs it; drops undeclared fields',
  async (t) => {
    t.equal((await server.ask({ path: '/misfit' })).status, 500)
    t.strictSame((await server.ask({ path: '/strip' })).json.data, { n: 1 })
    const trusting = await serveRoutes(t, routes, { db: noDatabase, checkResponses: false })
    const misfit = await trusting.ask({ path: '/misfit' })
    t.equal(misfit.status, 200)
    const things = [{ media_id: thing.media_id }]
    t.strictSame(misfit.json.data, { n: 'not a number', things, few: things }, 'public ids, no secrets')
    t.match(trusting.logged, [{ err: { message: /does not fit its schema/ } }])
    t.strictSame((await trusting.ask({ path: '/strip' })).json.data, { n: 1 })
  },
)

t.test('tells handlers who asks from where, as far as proxies can be believed', async (t) => {
  const headers = {
    ...ann,
    'x-forwarded-for': '6.6.6.6, 7.7.7.7',
    'user-agent': 'tap',
    traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
  }
  const direct = await server.ask({ path: '/whoami', headers })
  t.match(direct.json.data, { user: PEOPLE['ann']?.userId, ip: '127.0.0.1', agent: 'tap', trace: /^00-a+-b+-01$/ })
  const behind = await serveRoutes(t, routes, { db: noDatabase, trustProxyHops: 1 })
  t.equal((await behind.ask({ path: '/whoami', headers })).json.data.ip, '7.7.7.7')
  t.equal((await behind.ask({ path: '/whoami', headers: { ...headers, traceparent: 'x' } })).json.data.trace, null)
})

t.test(
  'an IPv4 client has the same address where the server listens on addresses of IPv6, too',
  { skip: noIpv6 },
  async (t) => {
    const both = await serveRoutes(t, routes, { db: noDatabase, host: '::' })
    t.equal((await both.ask({ path: '/whoami', headers: ann })).json.data.ip, '127.0.0.1')
    const answer = await fetch(`http://[::1]:${both.port}/whoami`, { headers: ann })
    t.match(await answer.json(), { data: { ip: '::1' } })
    const behind = await serveRoutes(t, routes, { db: noDatabase, host: '::', trustProxyHops: 1 })
    const from = async (address: string) =>
      (await behind.ask({ path: '/whoami', headers: { ...ann, 'x-forwarded-for': address } })).json.data.ip
    t.equal(await from('192.0.2.1'), '192.0.2.1')
    t.equal(await from('::ffff:192.0.2.1'), '192.0.2.1', 'and that of a proxy which listens so')
    t.equal(await from('::ffff:192.0.2.1:80'), '::ffff:192.0.2.1:80', 'other forms stay')
    t.equal(await from('2001:db8::7'), '2001:db8::7')
  },
)

t.test('logs one line per request, without credentials', async (t) => {
  const before = server.logged.length
  await ask(server.port, { path: `${path}?token=swordfish`, headers: ann })
  await ask(server.port, { path: '/d/k1.abc.secretmac/org/1/master.m3u8?X-Amz-Signature=swordfish' })
  const linesNow = () => server.logged.slice(before).filter((line) => line['msg'] === 'request')
  await eventually('both lines', () => linesNow().length >= 2)
  const lines = linesNow()
  t.match(lines, [
    {
      method: 'GET',
      route: '/things/{media_id}',
      status: 200,
      ms: Number,
      request_id: /^req_/,
      user_id: PEOPLE['ann']?.userId,
    },
    { method: 'GET', status: 404, url: /^\/d\/\[redacted\]\/org/ },
  ])
  t.notMatch(JSON.stringify(lines), /swordfish|secretmac|Bearer/)
})
