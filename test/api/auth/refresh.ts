import { randomUUID } from 'node:crypto'
import type { PoolClient } from 'pg'
import t, { type Test } from 'tap'
import { openRefusals } from '../../../api/audit/refusals.ts'
import { openExchanges } from '../../../api/auth/exchanges.ts'
import { openAuth } from '../../../api/auth/open-auth.ts'
import { refresh as refreshTokens } from '../../../api/auth/refresh.ts'
import { claimRefreshToken, keepAnswer, releaseRefreshToken } from '../../../api/auth/refresh-queries.ts'
import { hashOfToken, openReply, sealReply } from '../../../api/auth/refresh-reply.ts'
import type { Database } from '../../../api/db/db.ts'
import type { Context } from '../../../api/requests/context.ts'
import { cleanUp } from '../../../api/worker/clean-up.ts'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { systemClock } from '../../../lib/runtime/clock.ts'
import { aPerson, apiSettings, startApiOn, startTestApi, uuidOf } from '../../support/api.ts'
import { startApiProcess } from '../../support/api-process.ts'
import { ask } from '../../support/ask.ts'
import { eventually } from '../../support/eventually.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { testPersonalData } from '../../support/personal-data.ts'
import { readableLog } from '../../support/readable-log.ts'
import { whileHeld } from '../../support/while-held.ts'

// Refresh tokens, with a provider whose tokens work once. Two replicas.
const api = await startTestApi(t)
const { database, identity, config } = api
const { admin } = database
const settings = {
  AUTH_TOKEN_URL: identity.tokenUrl,
  AUTH_REVOCATION_URL: identity.revocationUrl,
  AUTH_CLIENT_ID: 'keepsake',
  AUTH_CLIENT_SECRET: 'a client secret of the tests',
}
const other = await startApiOn(t, { database, identity, settings })

async function signedIn(more: object = {}) {
  const { id } = await aPerson(api)
  const credentials = { email: `${id}@example.org`, password: randomUUID() }
  identity.account({ sub: id, ...credentials, claims: () => ({ sid: randomUUID() }), ...more })
  const { json } = await ask(api.port, { method: 'POST', path: '/v1/api/auth/login', body: credentials })
  return { id, ...json.data }
}
const refresh = (refresh_token: string, port = api.port) =>
  ask(port, { method: 'POST', path: '/v1/api/auth/refresh', body: { refresh_token } })
const me = async (token: string) =>
  (await ask(api.port, { path: '/v1/api/users/me', headers: { authorization: `Bearer ${token}` } })).status
/** Of a token that was used. */
const later = (token: string) =>
  admin.query(`update refresh_tokens set used_at = used_at - interval '91 seconds' where hash = $1`, [
    hashOfToken(token),
  ])
const leaseIsOver = (token: string) =>
  admin.query(`update refresh_tokens set refreshing_until = now() where hash = $1`, [hashOfToken(token)])
const stateOf = async (token: string) =>
  (
    await admin.query(
      'select used_at is not null as "isUsed", reply is not null as "isKept" from refresh_tokens where hash = $1',
      [hashOfToken(token)],
    )
  ).rows[0]
/** The connection that waits for a lock of this one. */
const waitingFor = async (holder: PoolClient): Promise<number | undefined> =>
  (
    await holder.query(
      `select pid from pg_stat_activity where wait_event_type = 'Lock' and pg_backend_pid() = any(pg_blocking_pids(pid))`,
    )
  ).rows[0]?.pid
const audited = async (sessionId: string) =>
  (
    await admin.query(`select action, result, details from audit_log where resource_id = $1 order by occurred_at, id`, [
      uuidOf('session', sessionId),
    ])
  ).rows

t.test('several tabs at once, on two replicas: one question to the provider, and one answer', async (t) => {
  const { refresh_token, session_id } = await signedIn()
  const asked = identity.exchanges()
  const held = Promise.withResolvers<void>()
  identity.hold(held.promise)
  const answers = [api.port, other.port, api.port, other.port, api.port].map((port) => refresh(refresh_token, port))
  await eventually('the question', () => identity.exchanges() > asked)
  held.resolve()
  identity.hold(undefined)
  const all = await Promise.all(answers)
  t.strictSame(new Set(all.map(({ status }) => status)), new Set([200]))
  t.equal(new Set(all.map(({ json }) => json.data.refresh_token)).size, 1)
  t.equal(identity.exchanges(), asked + 1)
  t.equal(all[0]?.json.data.session_id, session_id)
  matchWhole(t, await audited(session_id), [{ action: 'LOGIN' }, { action: 'TOKEN_REFRESH', result: 'success' }])
})

t.test('an answer that was lost comes again; 90 seconds later the session ends', async (t) => {
  const first = await signedIn()
  const lost = (await refresh(first.refresh_token)).json.data
  const again = await refresh(first.refresh_token, other.port)
  t.equal(again.status, 200)
  const { expires_in, refresh_expires_in, ...same } = again.json.data
  t.match(lost, same)
  t.ok(expires_in <= lost.expires_in && refresh_expires_in <= lost.refresh_expires_in)
  await admin.query(`update refresh_tokens set used_at = used_at - interval '40 seconds' where hash = $1`, [
    hashOfToken(first.refresh_token),
  ])
  const late = (await refresh(first.refresh_token)).json.data
  t.ok(late.expires_in <= lost.expires_in - 40 && late.expires_in > 0, 'counts from when it was made')
  const newest = (await refresh(lost.refresh_token)).json.data
  t.equal(await me(newest.access_token), 200)
  await later(first.refresh_token)
  t.equal((await refresh(first.refresh_token, other.port)).status, 401)
  await eventually('the end of the session', async () => (await me(newest.access_token)) === 401)
  t.equal((await refresh(newest.refresh_token)).status, 401, 'the newest token as well')
  t.ok(identity.revoked().includes(first.refresh_token), 'the provider is told')
  matchWhole(
    t,
    (await audited(first.session_id)).filter(({ action }) => action === 'SESSION_REVOKE'),
    [{ result: 'success', details: { reason: 'refresh_token_reused' } }],
  )
  await refresh(first.refresh_token)
  const revocations = (await audited(first.session_id)).filter(({ action }) => action === 'SESSION_REVOKE')
  t.equal(revocations.length, 1, 'a session ends once')
})

t.test('a user whose client refreshes in a loop is told to wait, and keeps the token', async (t) => {
  const limited = await startApiOn(t, { database, identity, settings: { ...settings, RATE_LIMIT_FACTOR: '1' } })
  let { refresh_token } = await signedIn()
  for (let i = 0; i < 30; i++) {
    const { status, json } = await refresh(refresh_token, limited.port)
    if (status !== 200) throw new Error(`${i}: ${status}`)
    refresh_token = json.data.refresh_token
  }
  const asked = identity.exchanges()
  const refused = await refresh(refresh_token, limited.port)
  t.match([refused.status, refused.json.error.code], [429, 'RATE_LIMITED'])
  t.ok(refused.json.error.retry_after > 0)
  t.equal(identity.exchanges(), asked)
  t.equal((await refresh((await signedIn()).refresh_token, limited.port)).status, 200, 'another user is not concerned')
  await admin.query('delete from rate_limits')
  t.equal((await refresh(refresh_token, limited.port)).status, 200, 'after the wait')
})

t.test('a session that was revoked meanwhile gets no answer again', async (t) => {
  const first = await signedIn()
  const { access_token } = (await refresh(first.refresh_token)).json.data
  const headers = { authorization: `Bearer ${access_token}` }
  t.equal(
    (await ask(api.port, { method: 'DELETE', path: `/v1/api/auth/sessions/${first.session_id}`, headers })).status,
    204,
  )
  t.equal((await refresh(first.refresh_token)).status, 401)
})

t.test('a sign-out while the provider is asked: the new tokens are given back', async (t) => {
  const first = await signedIn()
  const asked = identity.exchanges()
  const held = Promise.withResolvers<void>()
  identity.hold(held.promise)
  const renewing = refresh(first.refresh_token)
  await eventually('the question', () => identity.exchanges() > asked)
  const headers = { authorization: `Bearer ${first.access_token}` }
  t.equal(
    (await ask(other.port, { method: 'DELETE', path: `/v1/api/auth/sessions/${first.session_id}`, headers })).status,
    204,
  )
  const before = identity.revoked().length
  held.resolve()
  identity.hold(undefined)
  t.equal((await renewing).status, 401)
  t.equal(identity.revoked().length, before + 1)
})

t.test('a session that ends while its new tokens are recorded: they are given back', async (t) => {
  const first = await signedIn()
  const ending = {
    text: 'update sessions set ended_at = now() where user_id = $1 and id = $2',
    values: [first.id, uuidOf('session', first.session_id)],
  }
  await whileHeld(database, ending, async (holder) => {
    const { rows } = await holder.query('select pg_backend_pid() as pid')
    const renewing = refresh(first.refresh_token)
    await eventually('the request to wait', async () => {
      const waiting = await admin.query('select from pg_stat_activity where $1 = any(pg_blocking_pids(pid))', [
        rows[0].pid,
      ])
      return waiting.rows.length > 0
    })
    await holder.query('commit')
    t.equal((await renewing).status, 401)
  })
  const recorded = await audited(first.session_id)
  t.match(recorded.at(-1), { action: 'TOKEN_REFRESH', result: 'denied' })
})

t.test('a provider that does not rotate them: the same token goes on', async (t) => {
  const first = await signedIn({ rotates: false })
  for (let times = 0; times < 3; times++) {
    const { status, json } = await refresh(first.refresh_token)
    t.strictSame([status, json.data.refresh_token, json.data.session_id], [200, first.refresh_token, first.session_id])
    await later(first.refresh_token)
  }
  const { rows } = await admin.query('select used_at from refresh_tokens where hash = $1', [
    hashOfToken(first.refresh_token),
  ])
  t.strictSame(rows, [{ used_at: null }])
})

t.test('a token that the provider ends: the session is over here, too', async (t) => {
  const first = await signedIn()
  // As somewhere else, with the same token.
  await fetch(identity.tokenUrl, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: first.refresh_token }),
  })
  t.equal((await refresh(first.refresh_token)).status, 401)
  t.equal(await me(first.access_token), 401)
  matchWhole(
    t,
    (await audited(first.session_id)).filter(({ action }) => action === 'SESSION_REVOKE'),
    [{ details: { reason: 'refused_by_provider' } }],
  )
})

t.test('an outage of the provider costs no session, and nothing is kept of tokens that are none', async (t) => {
  const first = await signedIn()
  identity.mode('down')
  const away = await refresh(first.refresh_token)
  t.match([away.status, away.json.error.code, away.headers['retry-after']], [503, 'AUTH_UNAVAILABLE', '5'])
  t.equal(await me(first.access_token), 200)
  identity.mode('up')
  t.equal((await refresh(first.refresh_token)).status, 200)
  const count = async () => (await admin.query('select count(*)::int as n from refresh_tokens')).rows[0].n
  const before = await count()
  for (let n = 0; n < 5; n++) {
    const { status, json } = await refresh(randomUUID())
    t.match([status, json.error.message], [401, 'The refresh token is not valid. Sign in again.'])
  }
  t.equal(await count(), before)
})

t.test('answers are kept so that only the old token opens them', async (t) => {
  const token = randomUUID()
  const sealed = sealReply(token, { access_token: 'secret' })
  t.strictSame(openReply(token, sealed), { access_token: 'secret' })
  t.notOk(sealed.includes('secret'))
  t.throws(() => openReply(randomUUID(), sealed))
  const changed = Buffer.from(sealed)
  changed.writeUInt8(changed.readUInt8(changed.length - 1) ^ 1, changed.length - 1)
  t.throws(() => openReply(token, changed))
  t.notOk(sealReply(token, { a: 1 }).equals(sealReply(token, { a: 1 })), 'never twice the same')

  const first = await signedIn()
  const second = (await refresh(first.refresh_token)).json.data
  const { rows } = await admin.query('select row_to_json(r)::text as row from refresh_tokens r')
  const stored = rows.map(({ row }) => row).join()
  for (const secret of [first.refresh_token, second.refresh_token, second.access_token]) {
    for (const form of [secret, Buffer.from(secret).toString('hex')]) t.notOk(stored.includes(form))
  }
})

/** A replica that is killed at this line of a refresh. */
async function killedAt(t: Test, failpoint: string, token: string): Promise<void> {
  const { port, exited } = startApiProcess(t, {
    ...apiSettings(database, config.STORE_FOLDER ?? ''),
    ...settings,
    AUTH_ISSUER: identity.issuer,
    AUTH_AUDIENCE: identity.audience,
    AUTH_JWKS_URL: identity.jwksUrl,
    KEEPSAKE_FAILPOINT: failpoint,
  })
  await t.rejects(refresh(token, await port()))
  await exited
}

t.test('a replica that dies behind the commit: another one gives the same answer', async (t) => {
  const first = await signedIn()
  await killedAt(t, 'refresh.recorded', first.refresh_token)
  const asked = identity.exchanges()
  const again = await refresh(first.refresh_token)
  t.equal(again.status, 200)
  t.equal(identity.exchanges(), asked, 'the provider is not asked again')
  t.equal(await me(again.json.data.access_token), 200)
  t.equal((await refresh(again.json.data.refresh_token)).status, 200)
})

t.test('a replica that dies between the provider and the commit: the session ends, in good order', async (t) => {
  const first = await signedIn()
  await killedAt(t, 'refresh.exchanged', first.refresh_token)
  matchWhole(t, await audited(first.session_id), [{ action: 'LOGIN' }])
  await leaseIsOver(first.refresh_token)
  // The provider has used the token up, and its answer is lost: no one can have it. A slow replica could, for a while.
  t.equal((await refresh(first.refresh_token)).status, 503)
  t.equal(await me(first.access_token), 200)
  t.equal((await refresh(first.refresh_token)).status, 401)
  t.equal(await me(first.access_token), 401)
  t.strictSame(
    (await audited(first.session_id)).map(({ action, result, details }) => [action, result, details]),
    [
      ['LOGIN', 'success', {}],
      ['SESSION_REVOKE', 'success', { reason: 'refused_by_provider' }],
      ['TOKEN_REFRESH', 'denied', { code: 'UNAUTHORIZED' }],
    ],
  )
})

t.test('a replica that dies behind the answer of the provider: another one records it', async (t) => {
  const first = await signedIn()
  await killedAt(t, 'refresh.kept', first.refresh_token)
  await leaseIsOver(first.refresh_token)
  const asked = identity.exchanges()
  const { status, json } = await refresh(first.refresh_token)
  t.equal(status, 200)
  t.equal(identity.exchanges(), asked, 'the provider is not asked again')
  t.equal(await me(json.data.access_token), 200)
  t.strictSame((await refresh(first.refresh_token, other.port)).json.data, json.data)
  t.equal((await refresh(json.data.refresh_token)).status, 200)
})

/** A token whose answer a replica has kept that died so long ago, and what the answer holds. */
async function keptSince(seconds: number) {
  let age = 0
  const first = await signedIn({
    claims: () => {
      const [sid, iat] = [randomUUID(), () => Math.floor(Date.now() / 1000) - age]
      return Object.defineProperties({ sid }, { iat: { enumerable: true, get: iat } })
    },
  })
  age = seconds
  const answer = await fetch(identity.tokenUrl, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: first.refresh_token }),
  })
  const kept = (await answer.json()) as { refresh_token: string }
  age = 0
  await admin.query('update refresh_tokens set reply = $2 where hash = $1', [
    hashOfToken(first.refresh_token),
    sealReply(first.refresh_token, kept),
  ])
  return { first, kept }
}

const AGES: [string, number, boolean][] = [
  ['its access token expired', 3600, false],
  ['its access token expired and the provider withdrew the key', 2 * 86_400, true],
]
for (const [until, seconds, isKeyGone] of AGES) {
  t.test(`an answer that was kept until ${until} is exchanged in its turn`, async (t) => {
    const { first, kept } = await keptSince(seconds)
    if (isKeyGone) {
      await identity.rotate(false)
      t.equal(await me((await signedIn()).access_token), 200, 'the server has the new keys')
    }
    const { status, json } = await refresh(first.refresh_token)
    t.equal(status, 200)
    t.notOk([first.refresh_token, kept.refresh_token].includes(json.data.refresh_token))
    t.equal(await me(json.data.access_token), 200)
  })
}

t.test('a connection that breaks behind the answer of the provider costs nothing', async (t) => {
  const first = await signedIn()
  const [asked, held] = [identity.exchanges(), await admin.connect()]
  await held.query('begin')
  await held.query('select 1 from sessions where id = $1 for update', [uuidOf('session', first.session_id)])
  const renewing = refresh(first.refresh_token)
  await eventually('it to wait', async () => (await waitingFor(held)) !== undefined)
  await held.query('select pg_terminate_backend($1)', [await waitingFor(held)])
  await held.query('rollback')
  held.release()
  const { status, json } = await renewing
  t.equal(status, 200)
  t.equal(identity.exchanges(), asked + 1)
  t.equal(await me(json.data.access_token), 200)
})

t.test(
  'a database that is away when the provider answers, for longer than three tries, costs no session',
  async (t) => {
    let refused = Number.NaN
    const db: Database = {
      ...database.db,
      async inTransaction(scope, work) {
        if (refused < 4) throw Object.assign(new Error(`${++refused} times in vain`), { code: 'ECONNREFUSED' })
        return database.db.inTransaction(scope, work)
      },
    }
    const replica = await hurried(t, { db, answerMs: 20 })
    const [first, asked, held] = [await signedIn(), identity.exchanges(), Promise.withResolvers<void>()]
    identity.hold(held.promise)
    const renewing = t.rejects(replica.refresh(first.refresh_token), { code: 'AUTH_UNAVAILABLE' })
    await eventually('the question', () => identity.exchanges() > asked)
    refused = 0
    // Longer than its lease lasts.
    await leaseIsOver(first.refresh_token)
    held.resolve()
    identity.hold(undefined)
    await renewing
    await replica.close(60_000)
    t.equal(refused, 4)
    t.strictSame(await stateOf(first.refresh_token), { isUsed: false, isKept: true })
    const { status, json } = await refresh(first.refresh_token)
    t.equal(status, 200)
    t.equal(identity.exchanges(), asked + 1, 'the provider is not asked again')
    t.equal((await refresh(json.data.refresh_token)).status, 200)
  },
)

t.test('a database that is away when an exchange has failed does not hold the token up', async (t) => {
  let transactions = 0
  const db: Database = {
    ...database.db,
    async inTransaction(scope, work) {
      transactions += 1
      // The first one takes the lease.
      if (transactions > 1 && transactions < 6) throw Object.assign(new Error('away'), { code: 'ECONNREFUSED' })
      return database.db.inTransaction(scope, work)
    },
  }
  const replica = await hurried(t, { db, answerMs: 20 })
  const first = await signedIn()
  identity.mode('down')
  await t.rejects(replica.refresh(first.refresh_token), { code: 'AUTH_UNAVAILABLE' })
  await replica.close(60_000)
  identity.mode('up')
  t.equal(transactions, 6)
  // The lease would last for another minute.
  t.equal((await refresh(first.refresh_token)).status, 200)
})

t.test('new tokens that cannot be verified yet are not lost', async (t) => {
  const third = await startApiOn(t, { database, identity, settings })
  const first = await signedIn()
  t.equal((await ask(third.port, { path: '/.well-known/jwks.json' })).status, 200)
  const asked = identity.exchanges()
  await identity.rotate()
  identity.mode('empty')
  const away = await refresh(first.refresh_token, third.port)
  identity.mode('up')
  t.match([away.status, away.json.error.code], [503, 'AUTH_UNAVAILABLE'])
  const { status, json } = await refresh(first.refresh_token)
  t.equal(status, 200)
  t.equal(identity.exchanges(), asked + 1)
  t.equal(await me(json.data.access_token), 200)
})

/** `ask` asks the provider, which holds it until `slow`, and another replica takes over and asks, too, until `late`. */
async function takenOver<T>(token: string, ask: () => Promise<T>) {
  const asked = identity.exchanges()
  const [slow, late] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  identity.hold(slow.promise)
  const one = ask()
  one.catch(() => undefined)
  await eventually('the first question', () => identity.exchanges() === asked + 1)
  await leaseIsOver(token)
  identity.hold(late.promise)
  const two = refresh(token, other.port)
  await eventually('the second question', () => identity.exchanges() === asked + 2)
  identity.hold(undefined)
  return { one: () => one, two, slow, late }
}

t.test('a request that is slower than its lease, and the one that asks meanwhile, get the same answer', async (t) => {
  const first = await signedIn()
  const { one, two, slow, late } = await takenOver(first.refresh_token, () => refresh(first.refresh_token))
  slow.resolve()
  const answer = await one()
  t.equal(answer.status, 200)
  late.resolve()
  const same = await two
  t.strictSame([same.status, same.json.data], [200, answer.json.data])
  t.equal(await me(answer.json.data.access_token), 200)
  t.equal((await refresh(answer.json.data.refresh_token)).status, 200)
})

t.test('who asks after a slow one without an answer yet ends nothing', async (t) => {
  const first = await signedIn()
  const hash = hashOfToken(first.refresh_token)
  await admin.query('update refresh_tokens set holder = $2, refreshing_until = now() where hash = $1', [
    hash,
    newUuid(),
  ])
  // The provider has used the token up for it.
  const answer = await fetch(identity.tokenUrl, {
    method: 'POST',
    body: new URLSearchParams({ grant_type: 'refresh_token', refresh_token: first.refresh_token }),
  })
  t.equal((await refresh(first.refresh_token)).status, 503)
  t.equal(await me(first.access_token), 200)
  await database.db.inTransaction({}, async (tx) =>
    keepAnswer(tx, hash, sealReply(first.refresh_token, await answer.json()), 900),
  )
  t.equal((await refresh(first.refresh_token)).status, 200)
})

t.test('of a kept answer that was exchanged by a slow request, who asks meanwhile gets the next one', async (t) => {
  const { first } = await keptSince(3600)
  const asked = identity.exchanges()
  const replica = await hurried(t, { answerMs: 20 })
  const { one, two, slow, late } = await takenOver(first.refresh_token, () => replica.refresh(first.refresh_token))
  await t.rejects(one(), { code: 'AUTH_UNAVAILABLE' })
  slow.resolve()
  await replica.close(60_000)
  late.resolve()
  const { status, json } = await two
  t.equal(status, 200)
  t.equal(identity.exchanges(), asked + 2, 'the provider is not asked again')
  t.equal((await refresh(json.data.refresh_token)).status, 200)
})

t.test('a lease is given back only by who holds it', async (t) => {
  const hash = hashOfToken(randomUUID())
  const [one, two, three] = [newUuid(), newUuid(), newUuid()]
  const claim = (holder: Uuid) => database.db.inTransaction({}, (tx) => claimRefreshToken(tx, hash, holder))
  const release = (holder: Uuid) => database.db.inTransaction({}, (tx) => releaseRefreshToken(tx, hash, holder))
  t.strictSame([await claim(one), await claim(two)], [true, false])
  const { rows } = await admin.query(
    `select refreshing_until > now() + interval '80 seconds' as "isLong" from refresh_tokens where hash = $1`,
    [hash],
  )
  t.strictSame(rows, [{ isLong: true }], 'longer than the provider has for its answer, and the process to keep it')
  await admin.query('update refresh_tokens set refreshing_until = now() where hash = $1', [hash])
  t.equal(await claim(two), true)
  await release(one)
  t.equal(await claim(three), false, 'the second one holds it')
  await release(two)
  t.equal(await claim(three), true)
  await release(three)
  t.strictSame((await admin.query('select 1 from refresh_tokens where hash = $1', [hash])).rows, [])
})

t.test('answers are forgotten after a minute, and the use of a token as late as its session lasts', async (t) => {
  const { id } = await aPerson(api)
  // Issued by the provider itself: unknown here until it is used.
  const token = identity.account({ sub: id, email: '', password: '', claims: () => ({ sid: 'of the provider' }) })
  const { data } = (await refresh(token)).json
  const stored = async () =>
    (
      await admin.query(
        `select reply is not null as answer, expires_at > now() + interval '6 days' as lasts from refresh_tokens where hash = $1`,
        [hashOfToken(token)],
      )
    ).rows
  const tidied = async (used: string) => {
    await admin.query('update refresh_tokens set used_at = now() - $2::interval where hash = $1', [
      hashOfToken(token),
      used,
    ])
    await cleanUp(database.worker, new AbortController().signal)
  }
  await tidied('2 minutes')
  t.strictSame(await stored(), [{ answer: true, lasts: true }])
  await tidied('4 minutes')
  t.strictSame(await stored(), [{ answer: false, lasts: true }])
  t.equal((await refresh(token)).status, 401)
  t.equal(await me(data.access_token), 401, 'two had it')
  matchWhole(
    t,
    (await audited(data.session_id)).filter(({ action }) => action === 'SESSION_REVOKE'),
    [{ details: { reason: 'refresh_token_reused' } }],
  )
})

t.test('who waits for a replica that has died is told to come again', async (t) => {
  const first = await signedIn()
  await admin.query(`update refresh_tokens set refreshing_until = now() + interval '1 hour' where hash = $1`, [
    hashOfToken(first.refresh_token),
  ])
  const answer = await refresh(first.refresh_token)
  t.match([answer.status, answer.json.error.code, answer.headers['retry-after']], [503, 'AUTH_UNAVAILABLE', '1'])
  await leaseIsOver(first.refresh_token)
  t.equal((await refresh(first.refresh_token)).status, 200)
})

/** A replica whose clients wait only a moment for an answer, and that asks about few tokens at once. */
async function hurried(t: Test, o: { db?: Database; signal?: AbortSignal; answerMs?: number; most?: number }) {
  const { db = database.db, signal = new AbortController().signal, ...limits } = o
  const { log, logged } = readableLog()
  const auth = openAuth({ config: other.config, db: database.db, log, clock: systemClock })
  await auth.keys.start()
  const [refusals, exchanges] = [openRefusals({ db: database.db, log }), openExchanges({ log, ...limits })]
  const context: Context = {
    ...{ requestId: `req_${randomUUID()}`, clientRequestId: null, ip: '127.0.0.1', userAgent: null, traceparent: null },
    ...{ personalData: testPersonalData(db), signal, log },
    decided() {},
    remember: async () => {},
  }
  t.teardown(async () => {
    auth.keys.stop()
    await refusals.close()
  })
  return {
    refresh: (token: string) => refreshTokens({ ...auth, db, refusals, exchanges }, context, token),
    close: exchanges.close,
    logged,
  }
}

t.test('a provider that is slower than a client waits: 503, and then its answer', async (t) => {
  const replica = await hurried(t, { answerMs: 20 })
  const [first, asked, held] = [await signedIn(), identity.exchanges(), Promise.withResolvers<void>()]
  identity.hold(held.promise)
  const unavailable = { status: 503, code: 'AUTH_UNAVAILABLE', retryAfter: 5 }
  await t.rejects(replica.refresh(first.refresh_token), unavailable)
  await eventually('the question', () => identity.exchanges() > asked)
  // It repeats, on another replica, before the answer is there.
  const repeated = refresh(first.refresh_token)
  const ended = replica.close(60_000)
  held.resolve()
  identity.hold(undefined)
  const { status, json } = await repeated
  t.equal(status, 200)
  await ended
  t.equal(identity.exchanges(), asked + 1, 'the provider is asked once')
  t.equal((await refresh(json.data.refresh_token)).status, 200)
  matchWhole(t, await audited(first.session_id), [
    { action: 'LOGIN' },
    { action: 'TOKEN_REFRESH', result: 'success' },
    { action: 'TOKEN_REFRESH', result: 'success' },
  ])
})

t.test('a replica that stops waits for answers of the provider, and not for ever', async (t) => {
  const replica = await hurried(t, { answerMs: 20 })
  const [first, held] = [await signedIn(), Promise.withResolvers<void>()]
  identity.hold(held.promise)
  await t.rejects(replica.refresh(first.refresh_token), { code: 'AUTH_UNAVAILABLE' })
  await replica.close(1)
  const left = () => replica.logged.filter(({ msg }) => msg === 'stops before its refreshes have ended')
  await eventually('the line of the log', () => left().length > 0)
  t.match(left(), [{ level: 'error', refreshes: 1 }])
  const stored = async () =>
    (
      await admin.query('select used_at is null and reply is not null as kept from refresh_tokens where hash = $1', [
        hashOfToken(first.refresh_token),
      ])
    ).rows
  t.strictSame(await stored(), [{ kept: false }], 'its time was over')
  const ended = replica.close(60_000)
  held.resolve()
  identity.hold(undefined)
  await ended
  t.strictSame(await stored(), [{ kept: true }])
  t.equal(left().length, 1, 'not of those that have ended')
})

t.test('an answer that no client has waited for is kept until one comes for it, and then given again', async (t) => {
  const { id } = await aPerson(api)
  const replica = await hurried(t, { answerMs: 20 })
  const claims = () => ({ sid: randomUUID() })
  const known = await signedIn({ claims, refreshSeconds: 7200 })
  // Issued by the provider itself.
  const unknown = identity.account({ sub: id, email: '', password: '', claims })
  for (const token of [known.refresh_token, unknown]) {
    const [asked, held] = [identity.exchanges(), Promise.withResolvers<void>()]
    identity.hold(held.promise)
    await t.rejects(replica.refresh(token), { code: 'AUTH_UNAVAILABLE' })
    const ended = replica.close(60_000)
    held.resolve()
    identity.hold(undefined)
    await ended
    // As after an hour and a half.
    await admin.query(
      `update refresh_tokens set used_at = used_at - interval '90 minutes', expires_at = expires_at - interval '90 minutes'
         where hash = $1`,
      [hashOfToken(token)],
    )
    await cleanUp(database.worker, new AbortController().signal)
    const { status, json } = await refresh(token)
    t.equal(status, 200)
    t.equal(identity.exchanges(), asked + 1)
    t.equal((await refresh(token, other.port)).json.data.refresh_token, json.data.refresh_token)
    t.equal(await me(json.data.access_token), 200)
    await later(token)
    t.equal((await refresh(token)).status, 401)
  }
})

t.test('an answer that comes late because its session is locked is kept as well', async (t) => {
  const replica = await hurried(t, { answerMs: 500 })
  const first = await signedIn()
  const holder = await admin.connect()
  try {
    await holder.query('begin')
    await holder.query('select from sessions where id = $1 for update', [uuidOf('session', first.session_id)])
    await t.rejects(replica.refresh(first.refresh_token), { code: 'AUTH_UNAVAILABLE' })
  } finally {
    await holder.query('commit')
    holder.release()
  }
  await replica.close(60_000)
  const { rows } = await admin.query('select used_at, reply is not null as kept from refresh_tokens where hash = $1', [
    hashOfToken(first.refresh_token),
  ])
  t.strictSame(rows, [{ used_at: null, kept: true }])
  t.equal((await refresh(first.refresh_token)).status, 200)
})

/** As of a connection that its client closes. */
const closedBy = (client: AbortController) => client.abort(new Error('the client disconnected'))

t.test(
  'an answer whose client has gone away is kept until a client gets it, and from then on its 90 seconds count',
  async (t) => {
    const [first, client] = [await signedIn(), new AbortController()]
    const replica = await hurried(t, { signal: client.signal })
    const [asked, held] = [identity.exchanges(), Promise.withResolvers<void>()]
    identity.hold(held.promise)
    const renewing = t.rejects(replica.refresh(first.refresh_token), /disconnected/)
    await eventually('the question', () => identity.exchanges() > asked)
    closedBy(client)
    held.resolve()
    identity.hold(undefined)
    await renewing
    t.strictSame(await stateOf(first.refresh_token), { isUsed: false, isKept: true })
    const { status, json } = await refresh(first.refresh_token)
    t.equal(status, 200)
    t.equal(identity.exchanges(), asked + 1, 'the provider is not asked again')
    t.equal(await me(json.data.access_token), 200)
    t.strictSame(await stateOf(first.refresh_token), { isUsed: true, isKept: true })
    const again = await refresh(first.refresh_token, other.port)
    t.equal(again.json.data.refresh_token, json.data.refresh_token, 'all get the same tokens')
    await later(first.refresh_token)
    t.equal((await refresh(first.refresh_token)).status, 401)
    t.equal((await refresh(json.data.refresh_token)).status, 401)
    t.match(
      (await audited(first.session_id)).find(({ action }) => action === 'SESSION_REVOKE'),
      { details: { reason: 'refresh_token_reused' } },
    )
  },
)

t.test('a client that goes away while its session is locked leaves the answer as well', async (t) => {
  const [first, client] = [await signedIn(), new AbortController()]
  const replica = await hurried(t, { signal: client.signal })
  const lock = { text: 'select from sessions where id = $1 for update', values: [uuidOf('session', first.session_id)] }
  let renewing: Promise<unknown> | undefined
  await whileHeld(database, lock, async (holder) => {
    renewing = t.rejects(replica.refresh(first.refresh_token), /disconnected/)
    await eventually('it to wait', async () => (await waitingFor(holder)) !== undefined)
    closedBy(client)
  })
  await renewing
  t.strictSame(await stateOf(first.refresh_token), { isUsed: false, isKept: true })
  t.match(
    (await audited(first.session_id)).map(({ action }) => action),
    ['LOGIN'],
  )
  t.equal((await refresh(first.refresh_token)).status, 200)
})

t.test('who waits for another request only looks', async (t) => {
  let [writes, looks] = [0, 0]
  const db: Database = {
    ...database.db,
    inTransaction(scope, work) {
      writes += 1
      return database.db.inTransaction(scope, work)
    },
    read(scope, work) {
      looks += 1
      return database.db.read(scope, work)
    },
  }
  const replica = await hurried(t, { db })
  const [first, asked, held] = [await signedIn(), identity.exchanges(), Promise.withResolvers<void>()]
  identity.hold(held.promise)
  const one = refresh(first.refresh_token)
  await eventually('the question', () => identity.exchanges() > asked)
  const waiting = replica.refresh(first.refresh_token)
  await eventually('some looks', () => looks > 3)
  t.equal(writes, 1, 'that tries to claim it')
  held.resolve()
  identity.hold(undefined)
  t.equal((await waiting).refresh_token, (await one).json.data.refresh_token)
})

t.test('of too many at once, those over the limit are not sent to the provider, and keep their token', async (t) => {
  const replica = await hurried(t, { answerMs: 20, most: 1 })
  const [one, two] = [await signedIn(), await signedIn()]
  const [asked, held] = [identity.exchanges(), Promise.withResolvers<void>()]
  identity.hold(held.promise)
  await t.rejects(replica.refresh(one.refresh_token), { code: 'AUTH_UNAVAILABLE' })
  await eventually('the question', () => identity.exchanges() > asked)
  await t.rejects(replica.refresh(two.refresh_token), { code: 'AUTH_UNAVAILABLE' })
  t.equal(identity.exchanges(), asked + 1)
  held.resolve()
  identity.hold(undefined)
  await replica.close(60_000)
  for (const { refresh_token } of [one, two]) t.equal((await refresh(refresh_token)).status, 200)
})
