import { randomUUID } from 'node:crypto'
import t from 'tap'
import { ledgerName } from '../../../api/personal/ledger-name.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { newSecret, signedHeaders } from '../../../lib/runtime/standard-webhooks.ts'
import { startApiOn, startTestApi, WEBHOOK_SECRET } from '../../support/api.ts'
import { ask } from '../../support/ask.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { testPersonalData } from '../../support/personal-data.ts'

// What the identity provider tells of logins and logouts at the provider itself.
const api = await startTestApi(t)
const { database, identity } = api
const { admin } = database
const now = () => Math.floor(Date.now() / 1000)

interface Told {
  id?: string
  secret?: string
  nowMs?: number
  headers?: Record<string, string>
  port?: number
}
const event = (type: string, data: object, timestamp = new Date().toISOString()) =>
  JSON.stringify({ type, timestamp, data })
async function tell(body: string, { id = randomUUID(), secret = WEBHOOK_SECRET, nowMs, headers, port }: Told = {}) {
  const signed = signedHeaders([secret], { id, body, ...(nowMs !== undefined && { nowMs }) })
  const response = await fetch(`http://127.0.0.1:${port ?? api.port}/v1/api/auth/provider-events`, {
    ...{ method: 'POST', body },
    headers: { 'content-type': 'application/json', ...signed, ...headers },
  })
  return { status: response.status, code: ((await response.json()) as { error?: { code: string } }).error?.code }
}
async function logOut(token: string | undefined, port = api.port) {
  const response = await fetch(`http://127.0.0.1:${port}/v1/api/auth/backchannel-logout`, {
    method: 'POST',
    body: new URLSearchParams(token === undefined ? {} : { logout_token: token }),
  })
  t.equal(response.headers.get('cache-control'), 'no-store')
  return { status: response.status, code: ((await response.json()) as { error?: { code: string } }).error?.code }
}
const enter = async (token: string) =>
  (await ask(api.port, { path: '/v1/api/users/me', headers: { authorization: `Bearer ${token}` } })).status
/** With where the request came from, which is kept under the key of the person. */
async function audited(user: string) {
  const { rows } = await admin.query(
    `select action, resource_type as type, resource_id as resource, details, id as "entryId", actor_id as "personId", personal,
        key_version as "keyVersion" from audit_log where actor_id = $1 and personal is not null order by occurred_at, id`,
    [user],
  )
  const opened = await testPersonalData(api.database.db).decrypt(rows)
  return rows.map(({ action, type, resource: id, details }, i) => {
    const box = opened[i]
    const { ipAddress: ip, userAgent: agent } = box?.state === 'open' ? box.personal : {}
    return { action, type, id, ip, agent, details }
  })
}
const actions = async (user: string) =>
  (
    await admin.query(
      'select action, resource_id as id, details from audit_log where actor_id = $1 order by occurred_at, id',
      [user],
    )
  ).rows
const sessionsOf = async (user: string) =>
  (await admin.query('select id, sid, ended_at from sessions where user_id = $1 order by sid', [user])).rows

t.test('a login at the provider is recorded once, and is the session of the first token', async (t) => {
  const sub = newUuid()
  const body = event('login', {
    sub,
    sid: 's',
    ip_address: '203.0.113.7',
    user_agent: 'Browser',
    device_name: 'Laptop',
  })
  const id = randomUUID()
  t.equal((await tell(body, { id })).status, 200)
  t.equal((await tell(body, { id })).status, 200, 'the provider repeats what was not answered')
  const [session] = await sessionsOf(sub)
  t.strictSame(await audited(sub), [
    {
      action: 'LOGIN',
      type: 'session',
      id: session.id,
      ip: '203.0.113.7',
      agent: 'Browser',
      details: { at_provider: true },
    },
  ])
  const token = await identity.token({
    sub,
    claims: { sid: 's', email: 'ann@example.org', email_verified: true, iat: now() - 5 },
  })
  const answer = await ask(api.port, { path: '/v1/api/auth/sessions', headers: { authorization: `Bearer ${token}` } })
  matchWhole(t, answer.json.data.sessions, [{ device_name: 'Laptop', current: true }])
  t.equal((await sessionsOf(sub)).length, 1)
  const { rows } = await admin.query('select email from users where id = $1', [sub])
  t.strictSame(rows, [{ email: 'ann@example.org' }], 'the row that the login made is completed')
})

t.test('a logout at the provider ends the session that it names, or all', async (t) => {
  const sub = newUuid()
  const of = (claims: object, iat = now() - 5) => identity.token({ sub, claims: { iat, ...claims } })
  const [one, two, family] = [await of({ sid: 'one' }), await of({ sid: 'two' }), await of({ origin_jti: 'three' })]
  for (const token of [one, two, family]) t.equal(await enter(token), 200)
  t.equal((await tell(event('logout', { sub, sid: 'one' }))).status, 200)
  t.strictSame([await enter(one), await enter(two), await enter(family)], [401, 200, 200])
  t.equal((await tell(event('logout', { sub, origin_jti: 'three' }))).status, 200)
  t.strictSame([await enter(two), await enter(family)], [200, 401])
  t.equal((await tell(event('logout', { sub, sid: 'not seen yet' }))).status, 200)
  t.equal(await enter(await of({ sid: 'not seen yet' }, now() + 5)), 401)
  t.equal(await enter(two), 200)
  t.equal((await tell(event('logout', { sub }))).status, 200)
  t.equal(await enter(two), 401)
  matchWhole(t, await actions(sub), Array(4).fill({ action: 'LOGOUT', details: { at_provider: true } }))
  t.strictSame((await actions(sub)).at(-1)?.id, null, 'all')
})

t.test('a logout that arrives hours later spares what began since', async (t) => {
  const sub = newUuid()
  const of = (ago: number) => identity.token({ sub, claims: { sid: `${ago}`, auth_time: now() - ago } })
  const [old, unseen, young] = [await of(7200), await of(7100), await of(600)]
  for (const token of [old, young]) t.equal(await enter(token), 200)
  const late = (minutes: number) => event('logout', { sub }, new Date(Date.now() - minutes * 60_000).toISOString())
  t.equal((await tell(late(60))).status, 200)
  t.strictSame([await enter(old), await enter(unseen), await enter(young)], [401, 401, 200])
  t.equal((await tell(late(90))).status, 200, 'an earlier one after it')
  t.strictSame([await enter(old), await enter(young)], [401, 200])
  t.equal((await tell(late(0))).status, 200)
  t.equal(await enter(young), 401)
})

t.test(
  'a logout that arrives after a sign-out on all other devices ends the session that this has spared',
  async (t) => {
    const of = (sub: string, sid: string, ago: number) =>
      identity.token({ sub, claims: { sid, auth_time: now() - ago, iat: now() - 5 } })
    const late = (sub: string) => event('logout', { sub }, new Date(Date.now() - 3_600_000).toISOString())
    const signOutOthers = async (token: string) => {
      const authorization = `Bearer ${token}`
      return (await ask(api.port, { method: 'DELETE', path: '/v1/api/auth/sessions', headers: { authorization } }))
        .status
    }
    const began = { before: 7200, after: 600 }
    for (const [when, ago] of Object.entries(began)) {
      const sub = newUuid()
      const [own, other] = [await of(sub, 'own', ago), await of(sub, 'other', 7100)]
      for (const token of [own, other]) t.equal(await enter(token), 200)
      t.equal(await signOutOthers(own), 204)
      t.strictSame([await enter(own), await enter(other)], [200, 401], when)
      t.equal((await tell(late(sub))).status, 200)
      t.strictSame([await enter(own), await enter(other)], [when === 'before' ? 401 : 200, 401], when)
      t.equal(await enter(await of(sub, 'own', 300)), 200, 'who has signed in again since goes on')
    }
  },
)

t.test('a logout by a sid that access tokens do not name ends all sessions of the user', async (t) => {
  for (const [what, logout] of [
    ['a logout token', async (sub: string) => logOut(await identity.logoutToken({ sub, sid: randomUUID() }))],
    ['the webhook', (sub: string) => tell(event('logout', { sub, sid: randomUUID() }))],
  ] as const) {
    for (const claims of [{ auth_time: now() - 60 }, { iat: now() - 5 }]) {
      const sub = newUuid()
      const token = await identity.token({ sub, claims })
      t.equal(await enter(token), 200)
      t.equal((await logout(sub)).status, 200)
      t.equal(await enter(token), 401, what)
      const again = await identity.token({ sub, claims: { iat: now() + 2, auth_time: now() + 2 } })
      t.equal(await enter(again), 200)
      t.equal((await logout(sub)).status, 200)
      t.equal(await enter(again), 401, 'also the second time')
      t.strictSame(
        (await actions(sub)).map(({ action, id }) => [action, id]),
        [
          ['LOGOUT', null],
          ['LOGOUT', null],
        ],
      )
    }
  }
})

t.test('a sid that only the webhook or an ID token has named is not one that access tokens name', async (t) => {
  for (const what of ['the webhook', 'an ID token', 'an ID token beside the origin of the access token'] as const) {
    const sub = newUuid()
    const token = await identity.token({ sub, claims: { iat: now() - 5, origin_jti: 'family' } })
    t.equal(await enter(token), 200)
    if (what === 'the webhook') t.equal((await tell(event('login', { sub, sid: 'known' }))).status, 200)
    else if (what === 'an ID token') {
      await admin.query(
        `insert into sessions (user_id, sid, logout_sid, by_refresh, first_seen_at, last_used_at)
          values ($1, 'known', 'known', true, now(), now())`,
        [sub],
      )
    } else await admin.query(`update sessions set logout_sid = 'known' where user_id = $1`, [sub])
    t.equal((await logOut(await identity.logoutToken({ sub, sid: 'unknown' }))).status, 200)
    t.equal(await enter(token), 401, what)
  }
  const sub = newUuid()
  t.equal((await tell(event('login', { sub, sid: 'known' }))).status, 200)
  const fields = { sub, claims: { sid: 'other', iat: now() - 5 } }
  const token = await identity.token(fields)
  t.equal(await enter(token), 200)
  t.equal((await logOut(await identity.logoutToken({ sub, sid: 'unknown' }))).status, 200)
  t.equal(await enter(token), 200, 'access tokens have named one')
})

t.test('a logout by a sid that tokens do not name spares what began since', async (t) => {
  const sub = newUuid()
  const of = (ago: number) => identity.token({ sub, claims: { auth_time: now() - ago } })
  const [old, young] = [await of(7200), await of(600)]
  for (const token of [old, young]) t.equal(await enter(token), 200)
  const late = event('logout', { sub, sid: 'unknown' }, new Date(Date.now() - 3_600_000).toISOString())
  t.equal((await tell(late)).status, 200)
  t.strictSame([await enter(old), await enter(young)], [401, 200])
})

t.test('nothing brings back who was erased', async (t) => {
  // After a restore only the ledger knows of them.
  const [lost, closed] = [newUuid(), newUuid()]
  await admin.query('insert into erasure_ledger (name) values ($1)', [ledgerName(api.config.ERASURE_KEY, lost)])
  t.equal(await enter(await identity.token({ sub: closed })), 200)
  await admin.query(`update users set closed_at = now(), tokens_not_before = 'infinity' where id = $1`, [closed])
  for (const sub of [lost, closed]) {
    const data = { sub, sid: randomUUID(), ip_address: '203.0.113.7', device_name: 'Phone' }
    t.equal((await tell(event('login', data))).status, 200)
    t.equal((await tell(event('logout', { sub }))).status, 200)
    t.equal((await logOut(await identity.logoutToken({ sub, sid: 'unknown' }))).status, 200)
    t.equal(await enter(await identity.token({ sub, claims: { auth_time: now() + 5, iat: now() + 5 } })), 401)
    t.strictSame(await sessionsOf(sub), [])
    t.strictSame(await actions(sub), [])
  }
  t.strictSame((await admin.query('select id from users where id = $1', [lost])).rows, [])
})

t.test('what is not signed, or too late, or no event is refused', async (t) => {
  const body = event('login', { sub: newUuid() })
  const refused: [what: string, told: Told, body?: string, status?: number][] = [
    ['another secret', { secret: newSecret() }],
    ['six minutes ago', { nowMs: Date.now() - 360_000 }],
    ['in six minutes', { nowMs: Date.now() + 360_000 }],
    ['no signature', { headers: { 'webhook-signature': '' } }],
    ['another scheme', { headers: { 'webhook-signature': 'v2,AAAA' } }],
    ['a short signature', { headers: { 'webhook-signature': 'v1,AAAA' } }],
    ['the signature of another id', { headers: { 'webhook-id': 'other' } }],
    ['a time that is none', { headers: { 'webhook-timestamp': 'now' } }],
    ['no JSON', {}, '{', 400],
    ['another type', {}, event('delete', { sub: 'x' }), 400],
    ['no user', {}, event('login', {}), 400],
    ['an address that is none', {}, event('login', { sub: 'x', ip_address: 'localhost' }), 400],
    ['a NUL', {}, event('login', { sub: 'a\0b' }), 400],
  ]
  for (const [what, told, other = body, status = 401] of refused)
    t.equal((await tell(other, told)).status, status, what)
  const rotating = `v1,AAAA ${signedHeaders([WEBHOOK_SECRET], { id: 'r', body })['webhook-signature']}`
  t.equal((await tell(body, { id: 'r', headers: { 'webhook-signature': rotating } })).status, 200, 'one of several')
})

t.test('back-channel logout ends what the token names', async (t) => {
  const sub = newUuid()
  const of = (sid: string) => identity.token({ sub, claims: { sid, iat: now() - 5 } })
  const [one, two, three] = [await of(randomUUID()), await of('two'), await of('three')]
  for (const token of [one, two, three]) t.equal(await enter(token), 200)
  t.equal((await logOut(await identity.logoutToken({ sub, sid: 'two' }))).status, 200)
  t.strictSame([await enter(one), await enter(two), await enter(three)], [200, 401, 200])
  const bySid = await identity.logoutToken({ sid: 'three' })
  t.equal((await logOut(bySid)).status, 200)
  t.strictSame([await enter(one), await enter(three)], [200, 401])
  t.equal((await logOut(await identity.logoutToken({ sid: 'unknown' }))).status, 200)
  const all = await identity.logoutToken({ sub })
  t.equal((await logOut(all)).status, 200)
  t.equal(await enter(one), 401)
  const again = await identity.token({ sub, claims: { sid: 'four', iat: now() + 2, auth_time: now() + 2 } })
  t.equal(await enter(again), 200)
  for (const token of [all, bySid]) t.equal((await logOut(token)).status, 200)
  t.equal(await enter(again), 200, 'a token counts once')
  matchWhole(t, await actions(sub), Array(3).fill({ action: 'LOGOUT' }))
})

t.test('what is no logout token for this server ends nothing', async (t) => {
  const sub = newUuid()
  const access = await identity.token({ sub, claims: { iat: now() - 5 } })
  t.equal(await enter(access), 200)
  const made = (claims: object, clientId?: string) => identity.logoutToken({ sub, ...claims }, clientId)
  const bad: [what: string, token: string | undefined][] = [
    ['none', undefined],
    ['nonsense', 'nonsense'],
    ['an access token', access],
    ['an ID token', await identity.token({ sub, claims: { aud: 'keepsake', jti: 'x' }, header: { typ: 'JWT' } })],
    ['for another client', await made({}, 'another')],
    ['of another issuer', await made({ iss: 'https://evil.example' })],
    ['with a nonce', await made({ nonce: 'n' })],
    ['without the event', await made({ events: {} })],
    ['with the event as a text', await made({ events: 'http://schemas.openid.net/event/backchannel-logout' })],
    ['without jti', await made({ jti: undefined })],
    ['without sub and sid', await made({ sub: undefined })],
    ['of yesterday', await made({ iat: now() - 86_400, exp: now() + 60 })],
    ['expired', await made({ exp: now() - 60 })],
    ['with a changed signature', `${(await made({})).slice(0, -8)}AAAAAAAA`],
  ]
  for (const [what, token] of bad) {
    const { status, code } = await logOut(token)
    t.strictSame([status, code], [400, 'VALIDATION_ERROR'], what)
  }
  t.equal(await enter(access), 200)
  t.equal(await enter(await made({ aud: [identity.audience, 'keepsake'] })), 401, 'nor is one an access token')
})

t.test('without configuration neither is there', async (t) => {
  const bare = await startApiOn(t, { database, identity })
  t.equal((await tell(event('login', { sub: 'x' }), { port: bare.port })).status, 404)
  t.equal((await logOut(await identity.logoutToken({ sub: 'x' }), bare.port)).status, 404)
})
