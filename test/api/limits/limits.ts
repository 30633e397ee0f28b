import { EventEmitter, once } from 'node:events'
import { connect } from 'node:net'
import pg from 'pg'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { sessionActions } from '../../../api/auth/policy.ts'
import { openBodies } from '../../../api/http/bodies.ts'
import { publicRoute, type Route, route } from '../../../api/http/route.ts'
import { openLimits } from '../../../api/limits/limits.ts'
import { openSharedCounters } from '../../../api/limits/queries.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import type { Answer } from '../../support/ask.ts'
import { overTcp, testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { noDatabase, serveRoutes } from '../../support/serve.ts'
import { tcpProxy } from '../../support/tcp-proxy.ts'

const database = await testDatabase(t)
const signals = new EventEmitter()
let handled = 0

const common = { tags: ['Test'], summary: 'For tests', status: 204 as const, action: sessionActions.endAll }
const done = async () => {
  handled += 1
  return { data: null }
}
const routes: Route[] = [
  route({ ...common, method: 'get', path: '/general', operationId: 'general', handle: done }),
  route({
    ...common,
    method: 'post',
    path: '/comment',
    operationId: 'comment',
    limit: 'comment',
    body: z.object({ n: z.number() }),
    handle: done,
  }),
  route({
    ...common,
    method: 'post',
    path: '/export',
    operationId: 'export',
    limit: 'export',
    body: z.object({ is_refused: z.boolean().optional() }),
    problems: ['CONFLICT'],
    handle: ({ context, body }) =>
      database.db.inTransaction({}, async (tx) => {
        await context.remember(tx, 204, null)
        // As late as possible: what was counted goes with the rest.
        if (body.is_refused) throw new Problem('CONFLICT', 'no')
        return { data: null }
      }),
  }),
  route({ ...common, method: 'post', path: '/uncounted', operationId: 'uncounted', limit: 'export', handle: done }),
  publicRoute({ ...common, method: 'get', path: '/public', operationId: 'public', limit: 'public', handle: done }),
  publicRoute({
    ...common,
    method: 'post',
    path: '/login',
    operationId: 'login',
    limit: 'login',
    body: z.object({ email: z.string() }),
    account: (body) => body.email,
    problems: ['UNAUTHORIZED'],
    handle: ({ body }) => {
      if (body.email.startsWith('guess')) throw new Problem('UNAUTHORIZED', 'no')
      return done()
    },
  }),
  route({
    ...common,
    method: 'put',
    path: '/chunk',
    operationId: 'chunk',
    limit: 'chunk',
    bodyKind: 'bytes',
    async handle({ body }) {
      signals.emit('begun')
      for await (const _ of body.stream);
      return { data: null }
    },
  }),
  route({
    ...common,
    method: 'put',
    path: '/fails',
    problems: ['CONFLICT'],
    operationId: 'fails',
    limit: 'chunk',
    bodyKind: 'bytes',
    async handle() {
      throw new Problem('CONFLICT', 'no')
    },
  }),
]

/** A server with limits of its own, whose clock stands still until it is told to go on. */
async function serve(
  t: Test,
  o: { db?: typeof database.db; pool?: pg.Pool; timeoutMs?: number; factor?: number; maxStreams?: number } = {},
) {
  const time = { now: 1000 }
  const now = () => time.now
  const refused: string[] = []
  const bodies = openBodies({
    maxStreams: o.maxStreams ?? 100,
    factor: o.factor ?? 1,
    onRefused: (kind) => void refused.push(kind),
  })
  // A machine that is busy with other tests must not look like one whose Postgres is away.
  const { pool = database.db.pool, timeoutMs = 60_000 } = o
  const shared = openSharedCounters({ pool, log: quietLog(), now, timeoutMs })
  const limits = openLimits({ factor: o.factor ?? 1, shared, now, onRefused: (name) => void refused.push(name) })
  const server = await serveRoutes(t, routes, { db: o.db ?? noDatabase, limits, bodies, trustProxyHops: 1 })
  return { ...server, time, refused, bodies }
}
type Served = Awaited<ReturnType<typeof serve>>

const as = (who: string) => ({ authorization: `Bearer ${who}` })
const from = (ip: string) => ({ 'x-forwarded-for': ip })

/** How many of `times` requests were let through, and the last answer. */
async function many(times: number, ask: () => Promise<Answer>): Promise<{ passed: number; last: Answer }> {
  let last = await ask()
  let passed = Number(last.status !== 429)
  for (let i = 1; i < times; i++) {
    last = await ask()
    if (last.status !== 429) passed += 1
  }
  return { passed, last }
}

const login = (server: Served, email: string, ip: string) =>
  server.ask({ method: 'POST', path: '/login', headers: from(ip), body: { email } })

t.test('answers say the policy and where the caller stands, refusals when to come back', async (t) => {
  const server = await serve(t)
  const ask = () => server.ask({ path: '/general', headers: as('ann') })
  const first = await ask()
  t.match(
    [first.status, first.headers['ratelimit-policy'], first.headers['ratelimit']],
    [204, '"general";q=600;w=60', '"general";r=59;t=1'],
  )
  const { passed, last } = await many(80, ask)
  t.equal(passed, 59)
  t.match(last.json.error, { code: 'RATE_LIMITED', retry_after: 1 })
  t.match(last.headers, {
    'retry-after': '1',
    ratelimit: '"general";r=0;t=6',
    'ratelimit-policy': '"general";q=600;w=60',
  })
  server.time.now += 1000
  t.equal((await many(30, ask)).passed, 10, 'a second later ten more')
  t.ok(server.refused.every((name) => name === 'general'))
})

t.test('an operation counts against its own class alone, each user and each address by itself', async (t) => {
  const server = await serve(t)
  const comment = (who: string) => () =>
    server.ask({ method: 'POST', path: '/comment', headers: as(who), body: { n: 1 } })
  t.equal((await many(40, comment('ann'))).passed, 30)
  t.equal((await server.ask({ path: '/general', headers: as('ann') })).status, 204)
  t.equal((await comment('bob')()).status, 204)
  const open = (ip: string) => () => server.ask({ path: '/public', headers: from(ip) })
  t.equal((await many(110, open('2001:db8:0:1::1'))).passed, 100)
  t.equal((await open('2001:db8:0:1:ffff::2')()).status, 429, 'the same /64')
  t.equal((await open('2001:db8:0:2::1')()).status, 204, 'the /64 beside it')
  t.equal((await many(101, open('203.0.113.7'))).passed, 100)
  t.equal((await open('::ffff:203.0.113.7')()).status, 429, 'mapped into IPv6')
})

t.test('a refusal comes before the body is read and before anything is stored', async (t) => {
  const server = await serve(t)
  const ask = (body: unknown) =>
    server.ask({ method: 'POST', path: '/comment', headers: { ...as('ann'), 'idempotency-key': 'k' }, body })
  // `noDatabase` fails every attempt that gets as far as its key: 500 is what passing looks like here.
  const { passed } = await many(31, () => ask({ n: 1 }))
  t.equal(passed, 30)
  handled = 0
  t.equal((await ask('not JSON at all')).status, 429)
  t.equal(handled, 0)
})

t.test('missing and refused tokens count by address, and a good one still passes', async (t) => {
  const server = await serve(t)
  const bad = () => server.ask({ path: '/general', headers: as('mallory') })
  const { passed, last } = await many(130, bad)
  t.equal(passed, 120)
  t.match(last.json.error, { code: 'RATE_LIMITED' })
  t.equal((await server.ask({ path: '/general' })).status, 429, 'no token at all')
  t.equal((await server.ask({ path: '/general', headers: as('ann') })).status, 204)
  t.equal((await server.ask({ path: '/general', headers: { ...as('mallory'), ...from('203.0.113.9') } })).status, 401)
})

t.test('six chunks of one user at once, and a slot is given back however a request ends', async (t) => {
  const server = await serve(t)
  const begin = (path: string, who = 'ann') => {
    const socket = connect(server.port, '127.0.0.1').on('error', () => {})
    socket.write(
      `PUT ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${who}\r\nContent-Type: application/octet-stream\r\nContent-Length: 10\r\n\r\nhalf`,
    )
    return socket
  }
  const put = (path = '/chunk', who = 'ann') =>
    server.ask({ method: 'PUT', path, headers: { ...as(who), 'content-type': 'application/octet-stream' }, body: 'x' })
  const sockets = []
  for (let i = 0; i < 6; i++) {
    const begun = once(signals, 'begun')
    sockets.push(begin('/chunk'))
    await begun
  }
  t.equal(server.bodies.taken().stream, 6)
  const seventh = await put()
  t.match([seventh.status, seventh.json.error.code, seventh.headers['retry-after']], [429, 'RATE_LIMITED', '1'])
  t.equal((await put('/chunk', 'bob')).status, 204, 'another user is not concerned')
  sockets[0]?.destroy()
  await eventually('the slot of the client that went away', () => server.bodies.taken().stream === 5)
  t.equal((await put()).status, 204)
  sockets[1]?.write('rest!!')
  await eventually('the slot of the one that finished', () => server.bodies.taken().stream === 4)
  for (let i = 0; i < 20; i++) t.equal((await put('/fails')).status, 409, 'failures give theirs back as well')
  for (const socket of sockets) socket.destroy()
  await eventually('all of them', () => server.bodies.taken().stream === 0)
})

t.test('above the cap on bodies a request is told to come back, and documents are not concerned', async (t) => {
  const server = await serve(t, { factor: 0, maxStreams: 1 })
  const begun = once(signals, 'begun')
  const socket = connect(server.port, '127.0.0.1').on('error', () => {})
  socket.write(
    'PUT /chunk HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ann\r\nContent-Type: application/octet-stream\r\nContent-Length: 10\r\n\r\nhalf',
  )
  await begun
  const put = () =>
    server.ask({
      method: 'PUT',
      path: '/chunk',
      headers: { ...as('bob'), 'content-type': 'application/octet-stream' },
      body: Buffer.alloc(5_000_000),
    })
  const busy = await put()
  t.match([busy.status, busy.json.error.code, busy.headers['retry-after']], [503, 'SERVICE_UNAVAILABLE', '5'])
  t.strictSame(server.refused, ['stream'])
  t.notOk('ratelimit' in busy.headers, 'limits are off')
  const comment = await server.ask({ method: 'POST', path: '/comment', headers: as('ann'), body: { n: 1 } })
  t.equal(comment.status, 204)
  socket.destroy()
  await eventually('the slot', () => server.bodies.taken().stream === 0)
  t.equal((await put()).status, 204)
})

t.test('sign-ins are counted by address and account, and refused ones by address alone', async (t) => {
  const server = await serve(t)
  const ann = () => login(server, 'ann@example.org', '198.51.100.1')
  const first = await ann()
  t.equal(
    first.headers['ratelimit'],
    '"login-address-minute";r=119;t=60, "login-refused";r=100;t=0, "login-throttled";r=10;t=0, "login";r=4;t=60, "login-hour";r=19;t=3600',
  )
  t.equal(
    first.headers['ratelimit-policy'],
    '"login-address-minute";q=120;w=60, "login";q=5;w=60, "login-hour";q=20;w=3600, "login-refused";q=100;w=3600, "login-throttled";q=10;w=60',
  )
  const more = await many(10, ann)
  t.equal(more.passed, 4)
  // The bucket of the process has another token after 12 s, the window in Postgres ends after a minute.
  t.ok(Number(more.last.headers['retry-after']) > 40, `come back after ${more.last.headers['retry-after']} s`)
  t.equal((await login(server, 'ANN@example.org', '198.51.100.1')).status, 429, 'in whatever case')
  t.equal((await login(server, 'ann@example.org', '198.51.100.2')).status, 204, 'from elsewhere')
  t.equal((await login(server, 'bob@example.org', '198.51.100.1')).status, 204, 'another account')
  let n = 0
  const guess = (at = server) => login(at, `guess${n++}@example.org`, '198.51.100.3')
  const { passed, last } = await many(110, guess)
  t.equal(passed, 100)
  t.match(last.headers['ratelimit'], '"login-refused";r=0;')
  t.ok(Number(last.headers['retry-after']) > 3500, 'until the window ends')
  const answer = await login(await serve(t), 'ann@example.org', '198.51.100.3')
  t.equal(answer.status, 429, 'on another replica, with the right password as well')
  const { rows } = await database.admin.query('select key from rate_limits')
  t.ok(rows.length > 0)
  t.notMatch(JSON.stringify(rows), /example|198\.51/, 'nobody can be told from the table')
})

t.test('more guests of a party sign in behind one address than may be refused there', async (t) => {
  const server = await serve(t)
  let n = 0
  const party = () => login(server, `guest ${n++}@example.org`, '198.51.100.5')
  t.equal((await many(120, party)).passed, 120)
  const next = await party()
  t.equal(next.status, 429)
  t.ok(Number(next.headers['retry-after']) <= 60, 'in a minute again')
  await database.admin.query(`delete from rate_limits where key like 'login-address-minute:%'`)
  server.time.now += 60_000
  t.equal((await many(100, party)).passed, 100)
})

t.test('refused sign-ins of a replica without Postgres are counted there', async (t) => {
  const pool = new pg.Pool({ connectionString: 'postgres://127.0.0.1:1/none' })
  t.teardown(() => pool.end())
  const server = await serve(t, { pool })
  let n = 0
  t.equal((await many(110, () => login(server, `guess${n++}@example.org`, '198.51.100.6'))).passed, 100)
})

t.test('sign-ins are counted over all replicas, exactly, whatever comes at once', async (t) => {
  const replicas = [await serve(t), await serve(t), await serve(t)]
  const ask = (server: Served) => login(server, 'cid@example.org', '198.51.100.4')
  const answers = await Promise.all(Array.from({ length: 20 }, () => replicas.map(ask)).flat())
  t.equal(answers.filter((a) => a.status === 204).length, 5)
})

const exported = (server: Served, who: string, key?: string, body: object = {}) =>
  server.ask({
    method: 'POST',
    path: '/export',
    headers: { ...as(who), ...(key !== undefined && { 'idempotency-key': key }) },
    body,
  })

t.test('what scarce operations have done is counted over all replicas, exactly, whatever comes at once', async (t) => {
  const replicas = [await serve(t), await serve(t), await serve(t)]
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => replicas.map((server) => exported(server, 'bob'))).flat(),
  )
  t.equal(answers.filter((a) => a.status === 204).length, 10)
  const refused = answers.find((a) => a.status === 429)
  t.ok(Number(refused?.headers['retry-after']) > 3600, 'until the day is over')
  t.match(refused?.headers['ratelimit'], /^"export-requests";r=\d+;t=\d+, "export";r=0;t=\d+$/)
  const { rows } = await database.admin.query(`select points from rate_limits where key like 'export:%'`)
  t.strictSame(rows, [{ points: 10 }], 'refusals are not counted')
})

t.test('repeats and refused requests count as requests, not as what is scarce', async (t) => {
  const server = await serve(t, { db: database.db })
  const first = await exported(server, 'ann', 'one')
  t.match(first.headers, {
    'ratelimit-policy': '"export-requests";q=100;w=86400, "export";q=10;w=86400',
    ratelimit: '"export-requests";r=99;t=864, "export";r=9;t=86400',
  })
  for (let i = 0; i < 15; i++) {
    const replay = await exported(server, 'ann', 'one')
    t.match([replay.status, replay.headers['ratelimit']], [204, /^"export-requests";r=\d+;t=\d+$/])
    t.equal((await exported(server, 'ann', undefined, { is_refused: true })).status, 409)
    t.equal((await exported(server, 'ann', 'two', { is_refused: 'yes' })).status, 400)
  }
  t.match((await exported(server, 'ann', 'two')).headers['ratelimit'], /, "export";r=8;t=\d+$/)
  for (let i = 0; i < 8; i++) t.equal((await exported(server, 'ann')).status, 204)
  t.equal((await exported(server, 'ann')).status, 429)
  t.equal((await exported(server, 'ann', 'two')).status, 204, 'a repeat is answered all the same')
  t.equal((await many(60, () => exported(server, 'ann', 'one'))).passed, 43, 'the process bounds the requests')
})

t.test('a success that nothing counts is a bug', async (t) => {
  const server = await serve(t)
  t.equal((await server.ask({ method: 'POST', path: '/uncounted', headers: as('ann') })).status, 500)
})

for (const [how, cut] of [
  ['does not answer', true],
  ['is not there', false],
] as const) {
  t.test(`while Postgres ${how} each process counts for itself, and asks it rarely`, async (t) => {
    const url = overTcp(database.url)
    const proxy = await tcpProxy(url)
    url.port = String(proxy.port)
    const pool = new pg.Pool({ connectionString: url.href, max: 3, options: '-c role=keepsake_api' })
    pool.on('error', () => {})
    t.teardown(async () => {
      if (cut) await proxy.close()
      await pool.end()
    })
    await pool.query('select 1')
    let asked = 0
    const query = pool.query.bind(pool) as (...given: unknown[]) => unknown
    pool.query = ((...given: unknown[]) => {
      asked += 1
      return query(...given)
    }) as typeof pool.query
    const server = await serve(t, { pool, timeoutMs: 250 })
    const ask = () => login(server, `${how}@example.org`, '198.51.100.9')
    if (cut) proxy.cut()
    else await proxy.close()
    const { passed, last } = await many(20, ask)
    t.equal(passed, 5, 'the limit holds, and no request fails')
    t.equal(last.json.error.code, 'RATE_LIMITED')
    t.equal(asked, 1, 'one request found out for all')
  })
}

t.test('a factor makes all limits wider, and 0 takes them away', async (t) => {
  const wide = await serve(t, { factor: 2 })
  const ask = (server: Served) => () => server.ask({ path: '/general', headers: as('ann') })
  t.equal((await many(130, ask(wide))).passed, 120)
  const none = await serve(t, { factor: 0 })
  const { passed, last } = await many(200, ask(none))
  t.equal(passed, 200)
  t.notOk('ratelimit' in last.headers)
})
