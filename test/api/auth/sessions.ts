import { randomUUID } from 'node:crypto'
import t from 'tap'
import { endOtherSignIns, endSignIns, eraseSessions, saveLastUses } from '../../../api/auth/session-queries.ts'
import type { Tx } from '../../../api/db/db.ts'
import { sql } from '../../../api/db/orm.ts'
import { cleanUp } from '../../../api/worker/clean-up.ts'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { aPerson, startApiOn, startTestApi, uuidOf } from '../../support/api.ts'
import { ask } from '../../support/ask.ts'
import { follow } from '../../support/event-stream.ts'
import { eventually } from '../../support/eventually.ts'
import { matchWhole } from '../../support/match-whole.ts'

// Two replicas: what one of them ends is over on both.
const api = await startTestApi(t)
const { database, identity } = api
const { admin, db } = database
const settings = {
  AUTH_TOKEN_URL: identity.tokenUrl,
  AUTH_REVOCATION_URL: identity.revocationUrl,
  AUTH_CLIENT_ID: 'keepsake',
  AUTH_CLIENT_SECRET: 'a client secret of the tests',
}
const other = await startApiOn(t, { database, identity, settings })
const now = () => Math.floor(Date.now() / 1000)

interface Tokens {
  access_token: string
  refresh_token: string
  session_id: string
}
interface Shown {
  session_id: string
  device_name: string | null
  ip_address: string | null
  created_at: string
  last_used_at: string
  current: boolean
}

/** A person who signs in with a password, with the claims that `claims` makes for each sign-in. */
async function someone(claims: () => Record<string, unknown> = () => ({ sid: randomUUID() }), more: object = {}) {
  const { id } = await aPerson(api)
  // Before its tokens, which change it.
  await admin.query(`update users set updated_at = now() - interval '1 minute' where id = $1`, [id])
  const credentials = { email: `${id}@example.org`, password: randomUUID() }
  identity.account({ sub: id, ...credentials, claims, ...more })
  const signIn = async (device_name?: string, port = api.port): Promise<Tokens> => {
    const body = { ...credentials, ...(device_name && { device_name, device_id: randomUUID() }) }
    const { status, json } = await ask(port, { method: 'POST', path: '/v1/api/auth/login', body })
    if (status !== 200) throw new Error(`${status} ${JSON.stringify(json)}`)
    return json.data
  }
  return { id, credentials, signIn }
}

const send = (token: string, method: string, path: string, port = api.port, body?: object) =>
  ask(port, { method, path: `/v1${path}`, headers: { authorization: `Bearer ${token}` }, ...(body && { body }) })
const list = async (token: string): Promise<Shown[]> =>
  (await send(token, 'GET', '/api/auth/sessions')).json.data.sessions
const me = async (token: string, port = api.port) => {
  const { status, headers } = await send(token, 'GET', '/api/users/me', port)
  return status === 401 ? headers['www-authenticate'] : status
}
const REVOKED = 'Bearer error="invalid_token", error_description="revoked"'
/** The other replica is told within a moment. */
const isOver = (token: string, port: number) => eventually('the end', async () => (await me(token, port)) === REVOKED)
const refresh = (refresh_token: string) =>
  ask(api.port, { method: 'POST', path: '/v1/api/auth/refresh', body: { refresh_token } })
const audited = async (user: Uuid) =>
  (
    await admin.query(
      `select action, resource_type as type, resource_id as id, result, details from audit_log
        where actor_id = $1 order by occurred_at, id`,
      [user],
    )
  ).rows
const device = (token: string, id = newUuid()) =>
  send(token, 'PUT', `/api/users/me/devices/${id}`, api.port, { kind: 'fcm', token: randomUUID() })
const devicesOf = async (user: Uuid) =>
  (await admin.query('select session_id from devices where user_id = $1', [user])).rows.map((row) => row.session_id)

t.test('a person sees where they are signed in, and no one else', async (t) => {
  const [ann, ben] = [await someone(), await someone()]
  const phone = await ann.signIn('Ann’s phone')
  const laptop = await ann.signIn()
  await ben.signIn('Ben’s phone')
  const shown = await list(laptop.access_token)
  t.strictSame(
    shown.map(({ session_id, device_name, ip_address, current }) => [session_id, device_name, ip_address, current]),
    [
      [laptop.session_id, null, '127.0.0.1', true],
      [phone.session_id, 'Ann’s phone', '127.0.0.1', false],
    ],
  )
  matchWhole(
    t,
    (await list(phone.access_token)).filter(({ current }) => current),
    [{ session_id: phone.session_id }],
  )
  // Signed in at the identity provider itself.
  const direct = await identity.token({ sub: ann.id, claims: { sid: 'direct', auth_time: now() - 3600 } })
  const [own] = (await list(direct)).filter(({ current }) => current)
  t.match(own, { device_name: null, ip_address: '127.0.0.1' })
  t.ok(Date.parse(own?.created_at ?? '') < Date.now() - 3_500_000, 'the sign-in was an hour ago')
  t.match(
    api.logged.find(({ msg, session_id }) => msg === 'request' && session_id === laptop.session_id),
    { session_id: laptop.session_id },
    'the log names the session',
  )
})

t.test('who signs out their own device can have its refresh token revoked at the provider', async (t) => {
  const ann = await someone()
  const [phone, laptop] = [await ann.signIn(), await ann.signIn()]
  const end = ({ session_id }: Tokens, body?: object) =>
    send(phone.access_token, 'DELETE', `/api/auth/sessions/${session_id}`, api.port, body)
  const before = identity.revoked().length
  // A session that has ended can be ended again, with any text for a token: the provider hears of none.
  for (const sent of [undefined, laptop, { refresh_token: 'made up' }]) {
    const body = sent && { refresh_token: sent.refresh_token }
    t.equal((await end(laptop, body)).status, 204)
  }
  t.equal(identity.revoked().length, before)
  const { refresh_token } = phone
  t.equal((await end(phone, { refresh_token })).status, 204)
  t.strictSame(identity.revoked().slice(before), [refresh_token])
})

t.test(
  'one device is signed out: at the next request, on both replicas, with its streams and its devices',
  async (t) => {
    const ann = await someone()
    const [phone, laptop] = [await ann.signIn('Phone'), await ann.signIn('Laptop')]
    for (const token of [phone.access_token, laptop.access_token]) t.equal((await device(token)).status, 200)
    for (const port of [api.port, other.port]) t.equal(await me(phone.access_token, port), 200)
    const streams = await Promise.all(
      [phone, laptop].map(({ access_token }) =>
        follow(`${other.publicUrl}/v1/api/users/me/feed/changes`, { token: access_token }),
      ),
    )
    const path = `/api/auth/sessions/${phone.session_id}`
    // The next token is the first of the day.
    await admin.query(`update sessions set last_seen_at = now() - interval '2 days' where id = $1`, [
      uuidOf('session', phone.session_id),
    ])
    t.equal((await send(laptop.access_token, 'DELETE', path)).status, 204)
    t.equal(await me(phone.access_token), REVOKED)
    await isOver(phone.access_token, other.port)
    t.match(await streams[0]?.next('bye'), { data: '{"reason":"revoked"}' })
    const asked = identity.exchanges()
    t.equal((await refresh(phone.refresh_token)).status, 401)
    t.equal(identity.exchanges(), asked, 'the provider need not be asked')
    t.ok(identity.revoked().includes(phone.refresh_token), 'and is told')
    t.strictSame(await devicesOf(ann.id), [uuidOf('session', laptop.session_id)])
    matchWhole(
      t,
      (await list(laptop.access_token)).map(({ session_id }) => session_id),
      [laptop.session_id],
    )

    t.equal(await me(laptop.access_token, other.port), 200)
    t.notOk(streams[1]?.isOver)
    t.equal((await refresh(laptop.refresh_token)).status, 200)
    t.equal((await send(laptop.access_token, 'DELETE', path)).status, 204, 'a repetition does nothing')
    const ended = uuidOf('session', phone.session_id)
    matchWhole(
      t,
      (await audited(ann.id)).filter(({ id }) => id === ended),
      [
        { action: 'LOGIN', type: 'session', result: 'success' },
        { action: 'SESSION_REVOKE', result: 'success', details: { reason: 'user' } },
        { action: 'TOKEN_REFRESH', result: 'denied' },
      ],
    )
    const { rows } = await admin.query('select device_name, device_id, ip_address from sessions where id = $1', [ended])
    t.strictSame(rows, [{ device_name: null, device_id: null, ip_address: null }], 'nothing of the device is kept')
    for (const one of streams) one.leave()
  },
)

t.test('the sessions of others are not there', async (t) => {
  const [ann, ben] = [await someone(), await someone()]
  const [mine, his] = [await ann.signIn(), await ben.signIn()]
  t.equal((await send(mine.access_token, 'DELETE', `/api/auth/sessions/${his.session_id}`)).status, 404)
  t.equal(await me(his.access_token), 200)
})

t.test('one’s own device is signed out in the same way, and the next sign-in is another session', async (t) => {
  const ann = await someone(() => ({ sid: 'of the browser', auth_time: now() }))
  const first = await ann.signIn()
  t.equal((await send(first.access_token, 'DELETE', `/api/auth/sessions/${first.session_id}`)).status, 204)
  t.equal(await me(first.access_token), REVOKED)
  // The provider keeps the sid of its browser session. Within the same second the API tries again.
  const second = await ann.signIn()
  t.not(second.session_id, first.session_id)
  t.equal(await me(second.access_token), 200)
  t.equal(await me(second.access_token, other.port), 200)
  t.equal(await me(first.access_token), REVOKED, 'the name does not bring the old one back')
})

t.test('all other devices are signed out, also those that were not seen here', async (t) => {
  const ann = await someone(() => ({ sid: randomUUID(), auth_time: now() }))
  const [own, phone] = [await ann.signIn('Own'), await ann.signIn('Phone')]
  const unseen = await identity.token({ sub: ann.id, claims: { sid: 'unseen', auth_time: now() - 60 } })
  for (const { access_token } of [own, phone]) t.equal((await device(access_token)).status, 200)
  const stream = await follow(`${other.publicUrl}/v1/api/users/me/feed/changes`, { token: own.access_token })
  t.equal((await send(own.access_token, 'DELETE', '/api/auth/sessions')).status, 204)
  for (const token of [phone.access_token, unseen]) {
    t.equal(await me(token), REVOKED)
    await isOver(token, other.port)
  }
  t.equal((await refresh(phone.refresh_token)).status, 401)
  for (const port of [api.port, other.port]) t.equal(await me(own.access_token, port), 200)
  t.equal((await refresh(own.refresh_token)).status, 200)
  t.notOk(stream.isOver)
  stream.leave()
  t.strictSame(await devicesOf(ann.id), [uuidOf('session', own.session_id)])
  matchWhole(
    t,
    (await list(own.access_token)).map(({ session_id }) => session_id),
    [own.session_id],
  )
  const revoked = (await audited(ann.id)).filter(({ action }) => action === 'SESSION_REVOKE')
  matchWhole(t, revoked, [{ id: uuidOf('session', phone.session_id), details: { reason: 'user' } }])

  const again = await ann.signIn()
  t.equal((await send(again.access_token, 'POST', '/api/auth/logout')).status, 204)
  for (const { access_token } of [own, again]) t.equal(await me(access_token), REVOKED, 'all means all')
  t.match((await audited(ann.id)).at(-1), {
    action: 'LOGOUT',
    type: 'session',
    id: uuidOf('session', again.session_id),
  })
})

/** A transaction that has begun, and does its work when it is told to. */
async function begunBefore(work: (tx: Tx) => Promise<unknown>) {
  const begun = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  const done = db.inTransaction({}, async (tx) => {
    await tx.execute(sql`select 1`)
    begun.resolve()
    await go.promise
    await work(tx)
  })
  await begun.promise
  return () => {
    go.resolve()
    return done
  }
}

t.test('a sign-out on all devices that waits for one on all others ends the spared session, too', async (t) => {
  const ann = await someone()
  const own = await ann.signIn()
  const waiting = await begunBefore((tx) => endSignIns(tx, ann.id))
  t.equal((await send(own.access_token, 'DELETE', '/api/auth/sessions')).status, 204)
  t.equal(await me(own.access_token), 200)
  await waiting()
  for (const port of [api.port, other.port]) await isOver(own.access_token, port)
  t.equal((await refresh(own.refresh_token)).status, 401)
})

t.test('signing out all other devices twice at once spares the session of the request', async (t) => {
  const ann = await someone()
  const own = await ann.signIn()
  const waiting = await begunBefore((tx) => endOtherSignIns(tx, ann.id, uuidOf('session', own.session_id)))
  t.equal((await send(own.access_token, 'DELETE', '/api/auth/sessions')).status, 204)
  await waiting()
  for (const port of [api.port, other.port]) t.equal(await me(own.access_token, port), 200)
  t.equal((await refresh(own.refresh_token)).status, 200)
  const { rows } = await admin.query(
    'select s.spared_until = u.tokens_not_before as spared from sessions s join users u on u.id = s.user_id where u.id = $1',
    [ann.id],
  )
  t.strictSame(rows, [{ spared: true }])
})

t.test('where tokens name no session, one cannot be signed out, and all can', async (t) => {
  const ann = await someone(() => ({}))
  const [phone, laptop] = [await ann.signIn('Phone'), await ann.signIn('Laptop')]
  t.strictSame(
    (await list(phone.access_token)).map(({ device_name, current }) => [device_name, current]),
    [
      ['Laptop', false],
      ['Phone', false],
    ],
  )
  for (const path of [`/api/auth/sessions/${laptop.session_id}`, '/api/auth/sessions']) {
    const answer = await send(phone.access_token, 'DELETE', path)
    t.match([answer.status, answer.json.error.code], [422, 'SESSION_NOT_REVOCABLE'])
    t.match(answer.json.error.message, /sign out on all devices/)
  }
  t.equal((await send(phone.access_token, 'POST', '/api/auth/logout')).status, 204)
  for (const { access_token, refresh_token } of [phone, laptop]) {
    t.equal(await me(access_token), REVOKED)
    t.equal((await refresh(refresh_token)).status, 401, 'the session of the refresh token has ended')
  }
})

t.test('a second factor: the client gets what it needs, and completes the sign-in', async (t) => {
  const ann = await someone(undefined, { code: '287082' })
  const post = (path: string, body: object) => ask(api.port, { method: 'POST', path: `/v1${path}`, body })
  const asked = await post('/api/auth/login', ann.credentials)
  t.match([asked.status, asked.json.error.code], [422, 'MFA_REQUIRED'])
  const [detail] = asked.json.error.details
  matchWhole(t, detail, { challenge_id: String, methods: ['otp'], expires_in: null })
  const complete = (code: string) =>
    post('/api/auth/login/mfa', { challenge_id: detail.challenge_id, code, device_name: 'Phone' })
  const wrong = await complete('000000')
  t.match([wrong.status, wrong.json.error.code, wrong.headers['www-authenticate']], [401, 'UNAUTHORIZED', 'Bearer'])
  const { status, json } = await complete('287082')
  t.equal(status, 200)
  matchWhole(t, await list(json.data.access_token), [{ device_name: 'Phone', session_id: json.data.session_id }])
  matchWhole(
    t,
    (
      await admin.query(
        `select result, details from audit_log where action = 'LOGIN' order by occurred_at desc limit 3`,
      )
    ).rows,
    [{ result: 'success' }, { details: { code: 'UNAUTHORIZED' } }, { details: { code: 'MFA_REQUIRED' } }],
  )
})

t.test('the right password of a closed account is refused like a wrong one', async (t) => {
  const ann = await someone()
  const first = await ann.signIn()
  await admin.query(`update users set closed_at = now(), tokens_not_before = 'infinity' where id = $1`, [ann.id])
  const denied = async () =>
    (await admin.query(`select 1 from audit_log where action = 'LOGIN' and result = 'denied'`)).rows.length
  const [before, revoked] = [await denied(), identity.revoked().length]
  const login = (body: object) => ask(api.port, { method: 'POST', path: '/v1/api/auth/login', body })
  const refused = await login(ann.credentials)
  const wrong = await login({ ...ann.credentials, password: 'wrong' })
  const shown = ({ status, json, headers }: typeof wrong) => [
    status,
    json.error.code,
    json.error.message,
    headers['www-authenticate'],
  ]
  t.strictSame(shown(refused), shown(wrong))
  t.equal(wrong.status, 401)
  t.equal(await denied(), before + 2)
  const given = identity.revoked().slice(revoked)
  t.equal(given.length, 1, 'one sign-in at the provider, whose token is not left alive')
  t.notOk(given.includes(first.refresh_token))
})

t.test('an ID token tells of the person what the access token leaves out', async (t) => {
  const facts = { email_verified: true, phone_number: '+491701234567', phone_number_verified: true, name: 'Ann' }
  const ann = await someone(undefined, { idClaims: { email: 'ann@example.org', ...facts } })
  await ann.signIn()
  const find = async (id: Uuid) =>
    (await admin.query('select email, phone_number, display_name from users where id = $1', [id])).rows
  t.strictSame(await find(ann.id), [{ email: 'ann@example.org', phone_number: '+491701234567', display_name: 'Ann' }])
  const ben = await someone(undefined, { idClaims: { email: 'ben@example.org', ...facts, aud: 'another client' } })
  await ben.signIn()
  matchWhole(t, await find(ben.id), [{ email: null }], 'one for another client does not count')
})

t.test('the clock of the provider may be off by 20 seconds', async (t) => {
  for (const off of [-20, 20]) {
    const ann = await someone(() => ({ sid: randomUUID(), auth_time: now() + off, iat: now() + off }))
    const first = await ann.signIn()
    t.equal(await me(first.access_token), 200, `${off} s`)
    t.equal((await refresh(first.refresh_token)).status, 200)
    t.equal((await send(first.access_token, 'POST', '/api/auth/logout')).status, 204)
    for (const port of [api.port, other.port]) await isOver(first.access_token, port)
    const second = await ann.signIn()
    for (const port of [api.port, other.port]) t.equal(await me(second.access_token, port), 200, 'a new one at once')
    const third = await ann.signIn()
    t.equal((await send(third.access_token, 'DELETE', `/api/auth/sessions/${second.session_id}`)).status, 204)
    t.equal(await me(second.access_token), REVOKED)
    t.equal(await me(third.access_token), 200)
  }
})

t.test('last uses are written in batches, and wait for nothing', async (t) => {
  const ann = await someone()
  const [phone, laptop] = [await ann.signIn(), await ann.signIn()]
  const ids = [phone, laptop].map(({ session_id }) => uuidOf('session', session_id))
  await admin.query(`update sessions set last_used_at = now() - interval '1 hour' where user_id = $1`, [ann.id])
  const held = await admin.connect()
  await held.query('begin')
  await held.query('select 1 from sessions where id = $1 for update', [ids[0]])
  const uses = [...ids, newUuid()].map((id) => ({ userId: ann.id, id, ip: '203.0.113.7' }))
  await db.inTransaction({}, (tx) => saveLastUses(tx, uses))
  await held.query('rollback')
  held.release()
  const shown = new Map((await list(laptop.access_token)).map((one) => [one.session_id, one]))
  t.ok(Date.now() - Date.parse(shown.get(laptop.session_id)?.last_used_at ?? '') < 60_000)
  t.equal(shown.get(laptop.session_id)?.ip_address, '203.0.113.7')
  t.ok(Date.now() - Date.parse(shown.get(phone.session_id)?.last_used_at ?? '') > 60_000, 'that one was held')
})

t.test('what has lapsed is neither shown nor kept', async (t) => {
  const ann = await someone()
  const [old, current] = [await ann.signIn('Old phone'), await ann.signIn('Phone')]
  const id = uuidOf('session', old.session_id)
  await admin.query(`update sessions set last_seen_at = now() - interval '32 days' where id = $1`, [id])
  matchWhole(
    t,
    (await list(current.access_token)).map(({ device_name }) => device_name),
    ['Phone'],
  )
  await admin.query(`update refresh_tokens set expires_at = now() - interval '1 minute' where session_id = $1`, [id])
  await admin.query(`update revocations set at = now() - interval '2 hours'`)
  await cleanUp(database.worker, new AbortController().signal)
  const { rows } = await admin.query(
    'select device_name, device_id, ip_address, has_details from sessions where id = $1',
    [id],
  )
  t.strictSame(rows, [{ device_name: null, device_id: null, ip_address: null, has_details: false }])
  t.strictSame((await admin.query('select 1 from refresh_tokens where session_id = $1', [id])).rows, [])
  t.strictSame((await admin.query('select 1 from revocations')).rows, [])
})

t.test('a session is listed while it is used, and for as long as its newest refresh token', async (t) => {
  for (const claims of [() => ({ sid: randomUUID() }), () => ({})]) {
    const ann = await someone(claims, { refreshSeconds: 7 * 86_400 })
    const [phone, laptop] = [await ann.signIn('Phone'), await ann.signIn('Laptop')]
    const id = uuidOf('session', phone.session_id)
    const listed = async () =>
      (await list(laptop.access_token)).some(({ session_id }) => session_id === phone.session_id)
    const setBack = (used: string) =>
      admin.query(
        `update sessions set refresh_until = now() - interval '1 hour', last_used_at = now() - $2::interval,
          last_seen_at = now() - $2::interval where id = $1`,
        [id, used],
      )
    await setBack('6 days')
    t.ok(await listed(), 'the client may have refreshed at the identity provider itself')
    await setBack('8 days')
    t.notOk(await listed())
    t.equal((await refresh(phone.refresh_token)).status, 200)
    t.ok(await listed(), 'the new refresh token')
    const { rows } = await admin.query(
      `select refresh_until > now() + interval '6 days' as renewed, last_used_at > now() - interval '1 minute' as used,
        last_seen_at > now() - interval '1 minute' as seen from sessions where id = $1`,
      [id],
    )
    t.strictSame(rows, [{ renewed: true, used: true, seen: true }])
  }
})

t.test(
  'a provider that does not say how long its refresh tokens last: a lost phone is listed for 30 days',
  async (t) => {
    for (const claims of [() => ({ sid: randomUUID() }), () => ({})]) {
      const ann = await someone(claims)
      const [phone, laptop] = [await ann.signIn('Lost phone'), await ann.signIn('Laptop')]
      const id = uuidOf('session', phone.session_id)
      const listed = async () =>
        (await list(laptop.access_token)).some(({ session_id }) => session_id === phone.session_id)
      const daysLater = (days: number) =>
        admin.query(
          `update sessions set refresh_until = refresh_until - $2::interval, last_used_at = now() - $2::interval,
          last_seen_at = now() - $2::interval where id = $1`,
          [id, `${days} days`],
        )
      await daysLater(29)
      t.ok(await listed())
      await daysLater(31)
      t.notOk(await listed())
      // An earlier version has guessed.
      await admin.query(`update sessions set refresh_until = now() - interval '22 days' where id = $1`, [id])
      t.equal((await refresh(phone.refresh_token)).status, 200)
      await daysLater(29)
      t.ok(await listed(), 'and again after a refresh')
      const { rows } = await admin.query(
        `select used_at is not null as used, round(extract(epoch from expires_at - now()) / 86400)::int as days
        from refresh_tokens where session_id = $1 order by used`,
        [id],
      )
      t.strictSame(
        rows,
        [
          { used: false, days: 30 },
          { used: true, days: 7 },
        ],
        'a late use of the old token is noticed for a week',
      )
    }
  },
)

t.test('a sign-in anew says how long its session lasts', async (t) => {
  const sid = randomUUID()
  const ann = await someone(() => ({ sid }))
  const { session_id } = await ann.signIn()
  const until = async () =>
    (
      await admin.query(`select refresh_until is not null as told from sessions where id = $1`, [
        uuidOf('session', session_id),
      ])
    ).rows[0].told
  t.equal(await until(), false)
  await admin.query(`update sessions set refresh_until = now() where id = $1`, [uuidOf('session', session_id)])
  await ann.signIn()
  t.equal(await until(), false, 'not what an earlier version has guessed')
})

t.test('a refresh renews a session that was seen today', async (t) => {
  const ann = await someone(undefined, { refreshSeconds: 7 * 86_400 })
  const phone = await ann.signIn()
  await admin.query(
    `update sessions set refresh_until = now(), last_used_at = now() - interval '8 days' where user_id = $1`,
    [ann.id],
  )
  t.equal((await refresh(phone.refresh_token)).status, 200)
  const { rows } = await admin.query(
    `select refresh_until > now() + interval '6 days' as renewed, last_used_at > now() - interval '1 minute' as used
      from sessions where user_id = $1`,
    [ann.id],
  )
  t.strictSame(rows, [{ renewed: true, used: true }])
})

t.test('the sessions of a person are erased: they end, and no row is left', async (t) => {
  const [ann, ben] = [await someone(), await someone()]
  const [tokens, his] = [await ann.signIn('Ann’s phone'), await ben.signIn('Ben’s phone')]
  t.equal((await device(tokens.access_token)).status, 200)
  await database.worker.inTransaction({}, (tx) => eraseSessions(tx, ann.id))
  for (const port of [api.port, other.port]) await isOver(tokens.access_token, port)
  t.equal((await refresh(tokens.refresh_token)).status, 401)
  t.strictSame(await devicesOf(ann.id), [])
  const left = async (id: Uuid) =>
    (
      await admin.query(
        `select (select count(*)::int from sessions where user_id = $1 and (device_name is not null or ip_address is not null)) +
          (select count(*)::int from refresh_tokens where user_id = $1) as n`,
        [id],
      )
    ).rows[0].n
  t.equal(await left(ann.id), 0)
  t.ok((await left(ben.id)) > 0)
  t.equal(await me(his.access_token), 200)
})
