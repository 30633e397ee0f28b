import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { formatId, newUuid } from '../../../lib/contract/ids.ts'
import { startApiOn } from '../../support/api.ts'
import { ask } from '../../support/ask.ts'
import { testDatabase } from '../../support/database.ts'
import { startTestIdentity } from '../../support/identity.ts'

const database = await testDatabase(t)
const identity = await startTestIdentity(t)
/** A token endpoint that knows nobody (RFC 6749 §5.2), and counts how often it is asked. */
let asked = 0
/** Its answer. */
let [status, answer] = [400, '{"error":"invalid_grant"}']
/** Sign-ins, by the test that sends too many. */
let refused = 0
const provider = createServer((req, res) => {
  asked += 1
  req.resume().once('end', () => {
    res.writeHead(status, { 'content-type': 'application/json' }).end(answer)
  })
}).listen(0, '127.0.0.1')
await once(provider, 'listening')
t.teardown(() => {
  provider.closeAllConnections()
  provider.close()
})
const settings = {
  AUTH_TOKEN_URL: `http://127.0.0.1:${(provider.address() as AddressInfo).port}/token`,
  AUTH_CLIENT_ID: 'keepsake-api',
  AUTH_CLIENT_SECRET: 'a client secret of the tests',
  TRUST_PROXY_HOPS: '1',
  RATE_LIMIT_FACTOR: '1',
}
const api = await startApiOn(t, { database, identity, settings })

const login = (email: string, ip: string, port = api.port) =>
  ask(port, {
    method: 'POST',
    path: '/v1/api/auth/login',
    headers: { 'x-forwarded-for': ip },
    body: { email, password: 'wrong' },
  })
const AT_ONCE = 15
const auditRows = async () => {
  const { rows } = await database.admin.query<{ n: number }>(`select count(*)::int as n from audit_log`)
  return rows[0]?.n
}

t.test('the sixth sign-in of a minute is refused before the identity provider is asked', async (t) => {
  const answers = await Promise.all(Array.from({ length: 6 }, () => login('ann@example.org', '198.51.100.1')))
  const [sixth, ...others] = answers.sort((a, b) => b.status - a.status)
  t.match([sixth?.status, sixth?.json.error.code], [429, 'RATE_LIMITED'])
  t.ok(others.every(({ status }) => status === 401))
  t.ok(sixth?.json.error.retry_after >= 1)
  t.equal(sixth?.headers['retry-after'], String(sixth?.json.error.retry_after))
  t.strictSame([asked, await auditRows()], [5, 5], 'a refused request leaves no entry')
  t.equal((await login('ann@example.org', '198.51.100.2')).status, 401, 'from elsewhere it is asked again')
})

t.test('one address cannot fill the audit log, whatever accounts it names', async (t) => {
  const before = asked
  const answers: Awaited<ReturnType<typeof login>>[] = []
  /** Answers after a wait in vain, because Postgres was slow: by then they may have been counted. */
  let late = 0
  const guess = async (n: number) => {
    const at = performance.now()
    const answer = await login(`guess${n}@example.org`, '198.51.100.3')
    if (answer.status !== 401 && performance.now() - at >= 1000) late += 1
    return answer
  }
  // So few at once that each has a slot: who waits for one may be refused before the limit by account counts it.
  for (let sent = 0; sent < 300; sent += AT_ONCE) {
    const some = Array.from({ length: AT_ONCE }, (_, i) => guess(sent + i))
    answers.push(...(await Promise.all(some)))
  }
  const passed = answers.filter((a) => a.status === 401).length
  // Those that are under way together with the hundredth pass. On a machine so busy that Postgres does not answer in time,
  // one more comes back every 36 seconds.
  t.ok(passed < 105 + AT_ONCE, `${passed} of 300`)
  t.ok(passed + late >= 100, `${passed} of 300, ${late} late`)
  const busy = answers.filter((a) => a.status === 503).length
  t.ok(busy <= late, 'only after a wait')
  refused = answers.filter((a) => a.status === 429).length
  t.equal(refused, 300 - passed - busy)
  // An entry that Postgres did not take in time is an error in the log of the program.
  const missing = api.logged.filter(({ msg }) => msg === 'could not record a refused sign-in').length
  t.strictSame([asked, Number(await auditRows()) + missing], [before + passed, before + passed])
  const { rows } = await database.admin.query('select from rate_limits')
  // Two for each account that was let through, and those of the addresses.
  t.ok(rows.length <= 2 * (107 + AT_ONCE) + 4, 'nor the table of counters')
})

t.test(
  'sign-ins that the identity provider throttles are limited by the minute, and are no wrong passwords',
  async (t) => {
    ;[status, answer] = [429, '{}']
    const { port } = await startApiOn(t, { database, identity, settings })
    const [before, ip] = [asked, '198.51.100.9']
    for (let n = 0; n < 105; n++) await login(`throttled${n}@example.org`, ip, port)
    ;[status, answer] = [400, '{"error":"invalid_grant"}']
    // Two windows at most, and our own refusals do not count: it would never end.
    t.ok(asked >= before + 10 && asked <= before + 20, `${asked - before} were asked`)
    const { rows } = await database.admin.query(
      `select key from rate_limits where key like 'login-refused:%198.51.100.9%' or key like 'login-throttled:%' and points > 10`,
    )
    t.strictSame(rows, [])
  },
)

t.test('guests of a party sign in behind one address, each with a second factor', async (t) => {
  const venue = await startApiOn(t, {
    ...{ database, identity },
    settings: { ...settings, AUTH_TOKEN_URL: identity.tokenUrl },
  })
  const refusedRows = async () =>
    (await database.admin.query(`select key, points from rate_limits where key like 'login-refused:%' order by key`))
      .rows
  const before = await refusedRows()
  const headers = { 'x-forwarded-for': '198.51.100.8' }
  const statuses: number[] = []
  for (let n = 0; n < 55; n++) {
    const account = { email: `guest${n}@example.org`, password: 'p' }
    const sub = newUuid()
    identity.account({ sub, ...account, code: '287082' })
    const path = '/v1/api/auth/login'
    const first = await ask(venue.port, { method: 'POST', path, headers, body: account })
    const challenge_id = first.json.error.details?.[0].challenge_id
    const body = { challenge_id, code: '287082' }
    const second = await ask(venue.port, { method: 'POST', path: `${path}/mfa`, headers, body })
    statuses.push(first.status, second.status)
  }
  t.strictSame(new Set(statuses), new Set([422, 200]))
  t.strictSame(await refusedRows(), before, 'none of them counts as refused')
})

const refresh = (refresh_token: string, ip: string) =>
  ask(api.port, {
    method: 'POST',
    path: '/v1/api/auth/refresh',
    headers: { 'x-forwarded-for': ip },
    body: { refresh_token },
  })

t.test('phones behind one address refresh in the same minute, each with its own limit', async (t) => {
  const phones = []
  for (let sent = 0; sent < 45; sent += AT_ONCE) {
    phones.push(
      ...(await Promise.all(Array.from({ length: AT_ONCE }, (_, i) => refresh(`phone ${sent + i}`, '198.51.100.5')))),
    )
  }
  t.strictSame(new Set(phones.map(({ status }) => status)), new Set([401]), 'none is refused for the others')
  const again = async () => ({ before: asked, ...(await refresh('phone 0', '198.51.100.5')) })
  // One more comes back every 2 s, which a busy machine may take for some of them.
  let refused = await again()
  let passed = 1
  for (; refused.status === 401 && passed < 300; passed++) refused = await again()
  t.ok(passed >= 30 && passed < 300, `${passed} with one token`)
  t.match([refused.status, refused.json.error.code], [429, 'RATE_LIMITED'])
  t.match(refused.headers, { ratelimit: /^"refresh-address";r=\d+;t=\d+, "refresh";r=0;t=\d+$/ })
  t.equal(asked, refused.before, 'the identity provider is not asked')
  t.equal((await refresh('phone 1', '198.51.100.5')).status, 401, 'another phone is not concerned')
})

t.test('tokens that are made up ask the identity provider only so often for an address', async (t) => {
  const before = asked
  let last = await refresh('made up', '198.51.100.6')
  let sent = 1
  for (; last.status === 401 && sent < 600; sent++) last = await refresh(`made up ${sent}`, '198.51.100.6')
  t.match([last.status, last.json.error.code], [429, 'RATE_LIMITED'])
  t.ok(last.json.error.retry_after > 0)
  // Two more each second.
  t.ok(asked - before >= 120 && asked - before < 600, `${asked - before} asked`)
  t.equal((await refresh('made up elsewhere', '198.51.100.7')).status, 401)
})

t.test('refusals are counted by class', async (t) => {
  const metrics = await fetch(`${api.metricsUrl}/metrics`).then((r) => r.text())
  const counted = Number(/^rate_limited_requests_total\{class="login"\} (\d+)$/m.exec(metrics)?.[1])
  t.ok(refused > 0 && counted >= refused && counted <= refused + 1, `${counted}, with those of the test before`)
  t.match(metrics, /^http_request_bodies\{kind="stream"\} 0$/m)
})

t.test('an account cannot fill the table of Idempotency-Keys with requests that are refused', async (t) => {
  const token = await identity.token({ sub: newUuid() })
  const merge = (key: string) =>
    ask(api.port, {
      method: 'POST',
      path: `/v1/api/media/${formatId('organization', newUuid())}/merge`,
      headers: { authorization: `Bearer ${token}`, 'idempotency-key': key },
      body: { upload_id: formatId('upload', newUuid()) },
    })
  const answers = await Promise.all(
    Array.from({ length: 300 }, async (_, i) => ({ key: `key-${i}`, status: (await merge(`key-${i}`)).status })),
  )
  const refused = answers.filter(({ status }) => status === 429).map(({ key }) => key)
  t.ok(refused.length > 0, `${refused.length} of 300`)
  const { rows } = await database.admin.query('select key from idempotency_keys where key = any($1)', [refused])
  t.strictSame(rows, [])
})

t.test('what is open to everyone has limits by address', async (t) => {
  const answer = await ask(api.port, { path: '/health', headers: { 'x-forwarded-for': '198.51.100.4' } })
  t.match(answer.headers, { 'ratelimit-policy': '"public";q=300;w=60', ratelimit: '"public";r=99;t=1' })
})
