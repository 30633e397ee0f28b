import { connect } from 'node:net'
import t from 'tap'
import { startApiOn } from '../support/api.ts'
import { ask, askRaw } from '../support/ask.ts'
import { testDatabase } from '../support/database.ts'
import { eventually } from '../support/eventually.ts'
import { startTestIdentity } from '../support/identity.ts'
import { noIpv6 } from '../support/ipv6.ts'
import { slowUpload } from '../support/slow-upload.ts'

const database = await testDatabase(t)
const identity = await startTestIdentity(t)
const api = await startApiOn(t, { database, identity })
const portOf = (url: string) => Number(new URL(url).port)
const internal = portOf(api.internalUrl)
const metrics = portOf(api.metricsUrl)

t.test('says on the public port whether it can be used, and nothing about its insides', async (t) => {
  for (const path of ['/health', '/v1/health']) {
    const r = await ask(api.port, { path })
    t.match(r, { status: 200, json: { data: { status: 'ok', version: /^\d/ }, meta: { request_id: /^req_/ } } })
  }
  for (const path of ['/metrics', '/livez', '/readyz', '/v1/metrics', '/internal']) {
    t.match(await ask(api.port, { path }), { status: 404, json: { error: { code: 'NOT_FOUND' } } }, path)
  }
})

t.test(
  'without HOST it listens on addresses of IPv4 and IPv6, and clients of IPv4 keep the form of theirs',
  { skip: noIpv6 },
  async (t) => {
    const open = await startApiOn(t, { database, identity, settings: { HOST: '' } })
    const paths = [
      [open.publicUrl, '/health'],
      [open.internalUrl, '/readyz'],
      [open.metricsUrl, '/metrics'],
    ] as const
    const isReady = async () => (await fetch(`${open.internalUrl}/readyz`)).ok
    await eventually('it is ready', isReady)
    for (const [url, path] of paths) {
      for (const host of ['127.0.0.1', '[::1]']) {
        const { status } = await fetch(`http://${host}:${portOf(url)}${path}`)
        t.equal(status, 200, `${host}${path}`)
      }
    }
    const headers = { authorization: `Bearer ${await identity.token({ claims: { sid: 'by IPv4' } })}` }
    const { json } = await ask(open.port, { path: '/v1/api/auth/sessions', headers })
    t.match(json.data.sessions, [{ ip_address: '127.0.0.1' }])
    await askRaw(open.port, 'nonsense\r\n\r\n')
    const refused = () => open.logged.find(({ msg }) => msg === 'request refused unread')
    t.match(await eventually('the refusal in the log', async () => refused()), { ip: '127.0.0.1' })
  },
)

t.test('answers the probes on the internal port, and nothing else there', async (t) => {
  for (const path of ['/livez', '/readyz']) t.equal((await ask(internal, { path })).status, 200, path)
  for (const path of ['/', '/health', '/metrics', '/v1/health', '/livez/', '/livez?x', '/__proto__', '/constructor']) {
    t.equal((await ask(internal, { path })).status, 404, path)
  }
  t.equal((await ask(internal, { method: 'POST', path: '/livez' })).status, 404)
})

t.test('counts requests by route on the metrics port', async (t) => {
  await ask(api.port, { path: '/v1/api/media/org_01j4p0f84wfhz8mpfz3mjs2qaf' })
  await ask(api.port, { path: '/some/where' })
  const { status, text } = await eventually('all of them counted', async () => {
    const answer = await ask(metrics, { path: '/metrics' })
    return /route="unmatched"/.test(answer.text) ? answer : undefined
  })
  t.equal(status, 200)
  t.match(text, /http_request_duration_seconds_count\{method="GET",route="\/health",status="200"\} [1-9]/)
  t.match(text, /route="\/api\/media\/\{org_id\}",status="401"/)
  t.match(text, /route="unmatched",status="404"/)
  t.match(text, /auth_signing_keys_age_seconds \d/)
  t.match(text, /process_cpu_seconds_total/)
  t.notMatch(text, /some\/where|org_01/, 'no series per id')
  t.equal((await ask(metrics, { path: '/' })).status, 404)
})

t.test('serves the document and its page from its own files', async (t) => {
  const document = await ask(api.port, { path: '/openapi.json' })
  t.match(document.json, { openapi: /^3\.1/, servers: [{ url: '/v1' }] })
  const page = await ask(api.port, { path: '/docs' })
  t.match(page.headers['content-security-policy'], /default-src 'none'; script-src 'self'/)
  for (const [, file] of page.text.matchAll(/(?:src|href)="([^"]+)"/g)) {
    t.match(
      await ask(api.port, { path: `/v1/${file}` }),
      { status: 200, headers: { 'x-content-type-options': 'nosniff' } },
      String(file),
    )
  }
  for (const path of ['/docs/index.html', '/docs/..%2fpackage.json', '/docs/%00', '/docs/package.json']) {
    t.equal((await ask(api.port, { path })).status, 404, path)
  }
})

t.test('refuses what HTTP forbids', async (t) => {
  const send = async (text: string) => (await askRaw(api.port, text)).slice(0, 12)
  const smuggled =
    'POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'
  t.equal(await send(smuggled), 'HTTP/1.1 400', 'two lengths')
  t.equal(
    await send('GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'),
    'HTTP/1.1 400',
  )
  t.equal(await send('GET /health HTTP/1.1\r\n\r\n'), 'HTTP/1.1 400', 'no host')
  t.equal(await send(`GET /health HTTP/1.1\r\nHost: x\r\nA: ${'x'.repeat(17_000)}\r\n\r\n`), 'HTTP/1.1 431')
  t.equal(await send('garbage\r\n\r\n'), 'HTTP/1.1 400')
})

t.test('is not ready without its database, and says 503 without saying why', async (t) => {
  const broken = {
    ...database,
    db: { ...database.db, check: () => Promise.reject(new Error('the password is swordfish')) },
  }
  const other = await startApiOn(t, { database: broken, identity })
  const r = await ask(other.port, { path: '/health' })
  t.match(r, { status: 503, json: { error: { code: 'SERVICE_UNAVAILABLE' } }, headers: { 'retry-after': '5' } })
  t.notMatch(r.text, /swordfish/)
  const probe = await ask(portOf(other.internalUrl), { path: '/readyz' })
  t.match([probe.status, probe.text], [503, 'not ready\n'])
  t.equal((await ask(portOf(other.internalUrl), { path: '/livez' })).status, 200, 'a restart would not help')
})

t.test('stops as it should: not ready at once, serving while it drains, running requests to their end', async (t) => {
  const stopping = await startApiOn(t, { database, identity, settings: { DRAIN_SECONDS: '10' } })
  const { port } = stopping
  // Its first reading takes long.
  t.equal((await ask(port, { path: '/openapi.json' })).status, 200)
  const idle = connect(port, '127.0.0.1')
  const ended = new Promise((resolve) => idle.once('close', resolve))
  idle.on('error', () => {}).resume()
  // A request whose body is still arriving when the server stops.
  const upload = await slowUpload({ database, identity }, port)
  // Answers on later connections: both that were opened before them have been accepted.
  t.equal((await ask(port, { path: '/health' })).status, 200)
  const closed = stopping.close()
  t.equal((await ask(portOf(stopping.internalUrl), { path: '/readyz' })).status, 503)
  const during = await ask(port, { path: '/openapi.json' })
  t.match([during.status, during.headers.connection], [200, 'close'], 'still served, on a connection that ends')
  t.equal((await ask(port, { path: '/health' })).status, 503)
  const isRefused = (error: { code?: string }) => error.code === 'ECONNREFUSED'
  await eventually('nobody who listens', () => ask(port, { path: '/health' }).then(() => false, isRefused))
  await ended
  t.match(await upload.finish(), /^HTTP\/1\.1 415/, 'no picture, and that answer arrived')
  await closed
  await stopping.close()
})
