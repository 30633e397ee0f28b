import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { hashOfToken, openReply, sealReply } from '../../../api/auth/refresh-reply.ts'
import { aPerson, apiSettings, startApiOn, startTestApi, uuidOf } from '../../support/api.ts'
import { startApiProcess } from '../../support/api-process.ts'
import { ask } from '../../support/ask.ts'
import { eventually } from '../../support/eventually.ts'

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
  admin.query(`update refresh_tokens set used_at = used_at - interval '11 seconds' where hash = $1`, [
    hashOfToken(token),
  ])
const leaseIsOver = (token: string) =>
  admin.query(`update refresh_tokens set refreshing_until = now() where hash = $1`, [hashOfToken(token)])
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
  t.match(await audited(session_id), [{ action: 'LOGIN' }, { action: 'TOKEN_REFRESH', result: 'success' }])
})

t.test('an answer that was lost comes again; ten seconds later the session ends', async (t) => {
  const first = await signedIn()
  const lost = (await refresh(first.refresh_token)).json.data
  const again = await refresh(first.refresh_token, other.port)
  t.strictSame([again.status, again.json.data], [200, lost])
  const newest = (await refresh(lost.refresh_token)).json.data
  t.equal(await me(newest.access_token), 200)
  await later(first.refresh_token)
  t.equal((await refresh(first.refresh_token, other.port)).status, 401)
  await eventually('the end of the session', async () => (await me(newest.access_token)) === 401)
  t.equal((await refresh(newest.refresh_token)).status, 401, 'the newest token as well')
  t.ok(identity.revoked().includes(first.refresh_token), 'the provider is told')
  t.match(
    (await audited(first.session_id)).filter(({ action }) => action === 'SESSION_REVOKE'),
    [{ result: 'success', details: { reason: 'refresh_token_reused' } }],
  )
  await refresh(first.refresh_token)
  const revocations = (await audited(first.session_id)).filter(({ action }) => action === 'SESSION_REVOKE')
  t.equal(revocations.length, 1, 'a session ends once')
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
  t.match(
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
  for (let n = 0; n < 5; n++) t.equal((await refresh(randomUUID())).status, 401)
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
  t.match(await audited(first.session_id), [{ action: 'LOGIN' }])
  await leaseIsOver(first.refresh_token)
  // The provider has used the token up, and its answer is lost: no one can have it.
  t.equal((await refresh(first.refresh_token)).status, 401)
  t.equal(await me(first.access_token), 401)
  t.match(await audited(first.session_id), [
    { action: 'LOGIN' },
    { action: 'SESSION_REVOKE', details: { reason: 'refused_by_provider' } },
    { action: 'TOKEN_REFRESH', result: 'denied' },
  ])
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
