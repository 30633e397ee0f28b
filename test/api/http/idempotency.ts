import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'
import { deleteOldIdempotencyKeys } from '../../../api/http/idempotency-queries.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { ask } from '../../support/ask.ts'
import { testDatabase } from '../../support/database.ts'
import { idempotentRoutes } from '../../support/idempotent-routes.ts'
import { PEOPLE, serveRoutes } from '../../support/serve.ts'

const { db, worker, admin, url } = await testDatabase(t)
await admin.query('create table effects (id uuid primary key, title text not null)')
await admin.query('grant all on effects to keepsake_api')
let hold = async () => {}
const server = await serveRoutes(
  t,
  idempotentRoutes(db, () => hold()),
  { db },
)

const headers = (key: string, who = 'ann') => ({ authorization: `Bearer ${who}`, 'idempotency-key': key })
const post = (key: string, title = 'x', path = '/effects/a', who = 'ann') =>
  server.ask({ method: 'POST', path, headers: headers(key, who), body: { title } })
const effects = async (title: string) =>
  Number((await admin.query('select count(*) from effects where title = $1', [title])).rows[0].count)
const age = (key: string, change: string) => admin.query(`update idempotency_keys set ${change} where key = $1`, [key])

t.test('a repeat gets the first answer again and does nothing', async (t) => {
  const first = await post('k1', 'once')
  t.equal(first.status, 201)
  t.equal(first.headers['idempotency-replayed'], undefined)
  for (const path of ['/effects/a', '/v1/effects/a']) {
    const again = await post('k1', 'once', path)
    t.equal(again.status, 201)
    t.strictSame(again.json.data, first.json.data)
    t.equal(again.headers['idempotency-replayed'], 'true')
    t.not(again.json.meta.request_id, first.json.meta.request_id)
  }
  t.equal(await effects('once'), 1)
})

t.test('without a key nothing is remembered', async (t) => {
  const plain = {
    method: 'POST',
    path: '/effects/a',
    headers: { authorization: 'Bearer ann' },
    body: { title: 'plain' },
  }
  await server.ask(plain)
  await server.ask(plain)
  t.equal(await effects('plain'), 2)
})

t.test('of twenty at once one happens; the others get its answer or are told to wait', async (t) => {
  for (const path of ['/effects/a?wait=30', '/forgetful']) {
    const title = `race ${path}`
    const all = await Promise.all(Array.from({ length: 20 }, () => post(`race${path}`, title, path)))
    t.equal(await effects(title), 1)
    const made = all.filter((r) => r.status === 201)
    t.ok(made.length >= 1)
    t.equal(new Set(made.map((r) => r.json.data.id)).size, 1)
    t.equal(made.filter((r) => r.headers['idempotency-replayed'] === undefined).length, 1)
    for (const r of all.filter((r) => r.status !== 201)) {
      t.match(r, { status: 409, json: { error: { code: 'IDEMPOTENCY_IN_PROGRESS', retry_after: Number } } })
      t.match(r.headers['retry-after'], /^[1-5]$/)
    }
    const late = await post(`race${path}`, title, path)
    t.match(late, { status: 201, headers: { 'idempotency-replayed': 'true' } })
  }
})

t.test('the same key with another body or other parameters is refused', async (t) => {
  await post('k2', 'one')
  for (const other of [
    await post('k2', 'two'),
    await post('k2', 'one', '/effects/b'),
    await post('k2', 'one', '/effects/a?wait=1'),
  ]) {
    t.match(other, { status: 422, json: { error: { code: 'IDEMPOTENCY_KEY_REUSED' } } })
  }
  t.equal(await effects('two'), 0)
  const body = (text: string) =>
    server.ask({
      method: 'POST',
      path: '/effects/a',
      headers: { ...headers('k3'), 'content-type': 'application/json' },
      body: text,
    })
  await body('{"title":"order","when":{"a":1,"b":[2]}}')
  const again = await body('{ "when": {"b":[2], "a":1}, "title": "order" }')
  t.equal(again.headers['idempotency-replayed'], 'true', 'the order of keys makes no difference')
  t.equal((await body(`{"title":"deep","when":${'['.repeat(90_000)}${']'.repeat(90_000)}}`)).status, 400)
})

t.test('a key belongs to its user and its operation', async (t) => {
  const ids = [
    (await post('k4', 'mine')).json.data.id,
    (await post('k4', 'mine', '/effects/a', 'bob')).json.data.id,
    (await post('k4', 'mine', '/forgetful')).json.data.id,
  ]
  t.equal(new Set(ids).size, 3)
})

t.test('keeps what the handler did not remember itself', async (t) => {
  const first = await post('k5', 'forgot', '/forgetful')
  const again = await post('k5', 'forgot', '/forgetful')
  t.match(again, { status: 201, json: { data: first.json.data } })
  t.equal(await effects('forgot'), 1)
  const done = await server.ask({ method: 'POST', path: '/empty', headers: headers('k5') })
  const replayed = await server.ask({ method: 'POST', path: '/empty', headers: headers('k5') })
  t.match([done.status, replayed.status, replayed.text], [204, 204, ''])
  t.equal(replayed.headers['idempotency-replayed'], 'true')
})

t.test('never keeps what the answer does not declare', async (t) => {
  await post('k6', 'secretive')
  const { rows } = await admin.query(`select response from idempotency_keys where key = 'k6'`)
  t.notMatch(JSON.stringify(rows), /not declared/)
})

t.test('keeps nothing of a refusal: a repeat runs again', async (t) => {
  const refuse = (key: string, code: string, query = '') =>
    server.ask({ method: 'POST', path: `/refuse/${code}${query}`, headers: headers(key) })
  const before = await effects('refused')
  const refusals = [
    ['a', 'BUG', '', 500],
    ['b', 'RATE_LIMITED', '', 429],
    ['c', 'SERVICE_UNAVAILABLE', '', 503],
    ['d', 'CONFLICT', '?retry=1', 409],
    ['e', 'CONFLICT', '', 409],
    ['f', 'UNSUPPORTED_MEDIA', '', 422],
    ['g', 'NOT_FOUND', '', 404],
    ['h', 'VALIDATION_ERROR', '', 400],
  ] as const
  for (const [key, code, query, status] of refusals) {
    t.equal((await refuse(key, code, query)).status, status)
    const again = await refuse(key, code, query)
    t.match([again.status, again.headers['idempotency-replayed']], [status, undefined], code)
  }
  t.equal(await effects('refused'), before + 2 * refusals.length)
  const { rows } = await admin.query(`select count(*)::int as n from idempotency_keys where route = '/refuse/{code}'`)
  t.equal(rows[0].n, 0)
})

t.test('refuses keys that are none', async (t) => {
  for (const key of ['', ' ', 'a b', 'x'.repeat(256), 'schön', 'a\tb']) {
    const r = await post(Buffer.from(key).toString('latin1'), 'bad key')
    t.match(
      r,
      { status: 400, json: { error: { details: [{ field: 'header.Idempotency-Key' }] } } },
      JSON.stringify(key),
    )
  }
  t.equal((await post('x'.repeat(255), 'long key')).status, 201)
})

t.test('a mistake in the request is reported as such and leaves the key free', async (t) => {
  const bad = await server.ask({ method: 'POST', path: '/effects/a', headers: headers('k7'), body: { title: 7 } })
  t.equal(bad.status, 400)
  t.equal((await post('k7', 'now right')).status, 201)
})

t.test('an attempt whose lock ran out is taken over, and its late end changes nothing', async (t) => {
  const [begun, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  hold = () => {
    hold = async () => {}
    begun.resolve()
    return goOn.promise
  }
  const slow = post('k8', 'slow', '/effects/a?wait=hold')
  await begun.promise
  t.equal((await post('k8', 'slow', '/effects/a?wait=hold')).status, 409, 'still running')
  t.equal((await post('k8', 'other', '/effects/a?wait=hold')).status, 422, 'with another body')
  await age('k8', `locked_until = now() - interval '1 second'`)
  t.equal((await post('k8', 'other', '/effects/a?wait=hold')).status, 422, 'also when it may be dead')
  const second = await post('k8', 'slow', '/effects/a?wait=hold')
  t.equal(second.status, 201)
  goOn.resolve()
  t.match(await slow, { status: 409, json: { error: { code: 'IDEMPOTENCY_IN_PROGRESS' } } })
  t.equal(await effects('slow'), 1, 'the effect of the first was rolled back')
  t.strictSame((await post('k8', 'slow', '/effects/a?wait=hold')).json.data, second.json.data)
})

t.test('a key is new again after a day, and the worker forgets it', async (t) => {
  const first = await post('k9', 'daily')
  await age('k9', `created_at = now() - interval '25 hours'`)
  const next = await post('k9', 'another body')
  t.equal(next.status, 201)
  t.not(next.json.data.id, first.json.data.id)
  await age('k9', `created_at = now() - interval '25 hours'`)
  t.equal(await worker.inTransaction({}, (tx) => deleteOldIdempotencyKeys(tx)), 1)
  t.equal((await admin.query(`select from idempotency_keys where key = 'k9'`)).rowCount, 0)
  t.equal((await admin.query(`select from idempotency_keys where key = 'k8'`)).rowCount, 1)
})

function form(boundary: string, content: string, title = 'holiday', whole = true): Buffer {
  const end = whole ? `\r\n--${boundary}--\r\n` : ''
  return Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="title"\r\n\r\n${title}\r\n--${boundary}\r\n` +
      `Content-Disposition: form-data; name="file"; filename="a.mp4"\r\nContent-Type: video/mp4\r\n\r\n${content}${end}`,
  )
}
const upload = (key: string, boundary: string, ...rest: [content: string, title?: string, whole?: boolean]) =>
  server.ask({
    method: 'POST',
    path: '/forms',
    headers: { ...headers(key), 'content-type': `multipart/form-data; boundary=${boundary}` },
    body: form(boundary, ...rest),
  })

t.test('a streamed form is the same form whatever its boundary, and another one with another byte', async (t) => {
  const content = 'v'.repeat(300_000)
  const first = await upload('f1', 'AAA', content)
  t.match(first, { status: 201, json: { data: { size: 300_000 } } })
  const again = await upload('f1', 'BBB', content)
  t.match(again, { status: 201, json: { data: first.json.data }, headers: { 'idempotency-replayed': 'true' } })
  t.equal((await upload('f1', 'AAA', `${content}v`)).json.error.code, 'IDEMPOTENCY_KEY_REUSED')
  t.equal((await upload('f1', 'AAA', content, 'work')).json.error.code, 'IDEMPOTENCY_KEY_REUSED')
  t.equal((await upload('f1', 'AAA', content, 'holiday', false)).status, 400, 'a repeat that breaks off')
  t.equal(await effects('form'), 1)
})

t.test('a form that broke off, or was refused half-way, may come again changed', async (t) => {
  t.equal((await upload('f2', 'A', 'abc', 'x', false)).status, 400)
  t.equal((await upload('f2', 'A', `refuse${'x'.repeat(3_000_000)}`)).status, 415)
  t.equal((await upload('f2', 'A', 'whole')).status, 201)
  t.equal((await upload('f3', 'A', 'abc', 'refuse')).status, 409)
  t.equal((await upload('f3', 'B', 'abc', 'refuse')).headers['idempotency-replayed'], undefined, 'refused again')
})

async function startServer(failpoint: string) {
  const program = join(import.meta.dirname, '../../support/idempotent-server.ts')
  const env = { ...process.env, DATABASE_URL: url, KEEPSAKE_FAILPOINT: failpoint, USER_ID: PEOPLE['ann']?.userId }
  const child = spawn(process.execPath, [program], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const exited = once(child, 'exit')
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return { port: Number(line.toString()), exited }
}

t.test('killed before the work, the request can be made again once its lock has run out', async (t) => {
  const { port, exited } = await startServer('idempotency.claimed')
  const request = { method: 'POST', path: '/effects/a', headers: headers('c1'), body: { title: 'killed early' } }
  await t.rejects(ask(port, request))
  t.match(await exited, [null, 'SIGKILL'])
  t.equal((await server.ask(request)).status, 409)
  await age('c1', `locked_until = now() - interval '1 second'`)
  t.equal((await server.ask(request)).status, 201)
  t.equal(await effects('killed early'), 1)
})

t.test('killed after the work, before the answer: the repeat gets the answer and nothing happens twice', async (t) => {
  const { port, exited } = await startServer('idempotency.handled')
  const request = { method: 'POST', path: '/effects/a', headers: headers('c2'), body: { title: newUuid() } }
  await t.rejects(ask(port, request))
  t.match(await exited, [null, 'SIGKILL'])
  const again = await server.ask(request)
  t.match(again, { status: 201, headers: { 'idempotency-replayed': 'true' } })
  t.equal(await effects(request.body.title), 1)
})
