import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeJwt } from 'jose'
import t from 'tap'
import { newUuid } from '../../../lib/contract/ids.ts'
import { openLog } from '../../../lib/runtime/log.ts'
import { startIdentityProvider } from '../../../local/identity-provider.ts'
import { startApiOn, uuidOf } from '../../support/api.ts'
import { ask } from '../../support/ask.ts'
import { testDatabase } from '../../support/database.ts'
import { startTestIdentity } from '../../support/identity.ts'
import { matchWhole } from '../../support/match-whole.ts'

const database = await testDatabase(t)
const { admin } = database
const dataDir = await mkdtemp(join(tmpdir(), 'keepsake-idp-'))
const user = { id: newUuid(), email: 'ann@example.org', name: 'Ann', password: 'pässword 1', roles: ['ROLE_ADMIN'] }
const provider = await startIdentityProvider({
  port: 0,
  users: [user],
  dataDir,
  clientSecret: 'a client secret of the tests',
  log: openLog({ program: 'test', level: 'silent' }),
})
t.teardown(async () => {
  await provider.close()
  await rm(dataDir, { recursive: true, force: true })
})
const settings = {
  AUTH_TOKEN_URL: provider.tokenUrl,
  AUTH_REVOCATION_URL: provider.revocationUrl,
  AUTH_CLIENT_ID: provider.clientId,
  AUTH_CLIENT_SECRET: provider.clientSecret,
}
const api = await startApiOn(t, { database, identity: provider, settings })

const post = (path: string, body: unknown, token?: string, port = api.port) =>
  ask(port, { method: 'POST', path, body, headers: token ? { authorization: `Bearer ${token}` } : {} })
const login = (password = user.password, email = user.email, port = api.port) =>
  post('/v1/api/auth/login', { email, password, device_name: 'Test' }, undefined, port)
const refresh = (refresh_token: string) => post('/v1/api/auth/refresh', { refresh_token })
const logout = (token: string, body: unknown = {}) => post('/v1/api/auth/logout', body, token)
const graceIsOver = () => admin.query(`update refresh_tokens set used_at = used_at - interval '91 seconds'`)
const audited = async (action: string) =>
  (await admin.query('select * from audit_log where action = $1 order by occurred_at', [action])).rows

t.test('signs in, refreshes, and the old refresh token ends the family', async (t) => {
  const first = await login()
  t.equal(first.status, 200)
  t.match(first.json.data, {
    token_type: 'Bearer',
    expires_in: 900,
    refresh_expires_in: 604800,
    session_id: /^ses_[0-7][0-9a-z]{25}$/,
    id_token: /^ey/,
  })
  t.equal(decodeJwt(first.json.data.access_token).sub, user.id)
  t.match(first.headers['deprecation'], /^@\d+$/)
  t.match(first.headers['sunset'], /GMT$/)
  t.equal(first.headers['cache-control'], 'no-store')
  matchWhole(t, (await admin.query('select * from users where id = $1', [user.id])).rows, [{ email: user.email }])

  const second = await refresh(first.json.data.refresh_token)
  t.equal(second.status, 200)
  t.equal(second.json.data.session_id, first.json.data.session_id)
  t.not(second.json.data.refresh_token, first.json.data.refresh_token)
  const repeated = await refresh(first.json.data.refresh_token)
  t.strictSame(repeated.json.data, second.json.data, 'an answer that was lost comes again')
  await graceIsOver()
  const reused = await refresh(first.json.data.refresh_token)
  t.match([reused.status, reused.json.error.code], [401, 'UNAUTHORIZED'])
  t.equal((await refresh(second.json.data.refresh_token)).status, 401, 'the whole family is revoked')
  const session = uuidOf('session', first.json.data.session_id)
  matchWhole(t, await audited('LOGIN'), [{ actor_id: user.id, resource_id: session, result: 'success' }])
  matchWhole(t, await audited('SESSION_REVOKE'), [
    { actor_id: user.id, resource_id: session, details: { reason: 'refresh_token_reused' } },
  ])
  t.strictSame(
    (await audited('TOKEN_REFRESH')).map(({ result }) => result),
    ['success', 'denied'],
    'repeats are counted',
  )
})

t.test('says the same to a wrong password and to an unknown account', async (t) => {
  const begun = performance.now()
  const wrong = await login('wrong')
  t.ok(performance.now() - begun > 990, 'and takes its time')
  const unknown = await login('wrong', 'nobody@example.org')
  for (const r of [wrong, unknown]) {
    t.match([r.status, r.json.error.code, r.headers['www-authenticate']], [401, 'UNAUTHORIZED', 'Bearer'])
  }
  t.equal(wrong.json.error.message, unknown.json.error.message)
  const denied = (await audited('LOGIN')).filter((row) => row.result === 'denied')
  t.equal(denied.length, 2)
  t.notMatch(JSON.stringify(denied), /example\.org/, 'nobody is named in the audit log')
})

t.test('refuses bodies that are none, before the provider is asked', async (t) => {
  for (const body of [
    {},
    { email: user.email },
    { email: '', password: '' },
    { email: 'x'.repeat(400), password: 'x' },
  ]) {
    t.equal((await post('/v1/api/auth/login', body)).json.error.code, 'VALIDATION_ERROR')
  }
  t.equal((await refresh('')).status, 400)
  const denied = async () => (await audited('TOKEN_REFRESH')).filter(({ actor_id }) => actor_id === null).length
  const before = await denied()
  for (let n = 0; n < 5; n++) t.equal((await refresh(`nonsense ${n}`)).status, 401)
  t.equal(await denied(), before + 1, 'what anyone can send is recorded once')
})

t.test('signing out ends all sign-ins at once, and a new one works in the same second', async (t) => {
  const [phone, tablet] = [(await login()).json.data, (await login()).json.data]
  const out = await logout(phone.access_token, { refresh_token: phone.refresh_token })
  t.match([out.status, out.text], [204, ''])
  for (const { access_token } of [phone, tablet]) {
    const r = await logout(access_token)
    t.match([r.status, r.headers['www-authenticate']], [401, /error_description="revoked"/])
  }
  for (const { refresh_token } of [phone, tablet]) t.equal((await refresh(refresh_token)).status, 401)
  const again = await login()
  t.equal(again.status, 200)
  t.equal((await logout(again.json.data.access_token)).status, 204)
  t.match((await audited('LOGOUT')).length, 2)
})

t.test('no password and no token reaches the log', async (t) => {
  const session = (await login()).json.data
  await login('a wrong secret')
  const logged = JSON.stringify(api.logged)
  for (const secret of [
    user.password,
    'a wrong secret',
    session.access_token,
    session.refresh_token,
    provider.clientSecret,
  ]) {
    t.notOk(logged.includes(secret))
  }
})

t.test('publishes the signing keys, also at the root, unwrapped', async (t) => {
  for (const path of ['/.well-known/jwks.json', '/v1/.well-known/jwks.json']) {
    const r = await ask(api.port, { path })
    matchWhole(t, r.json, { keys: [{ kty: 'RSA', alg: 'RS256' }] })
    t.equal(r.headers['cache-control'], 'public, max-age=300')
    t.notOk('d' in r.json.keys[0], 'no private member')
  }
})

t.test('switched off, the operations are not there; signing out still is', async (t) => {
  const off = await startApiOn(t, {
    database,
    identity: provider,
    settings: { ...settings, AUTH_PROXY_ENABLED: 'false' },
  })
  t.equal((await login(user.password, user.email, off.port)).status, 404)
  t.equal((await post('/v1/api/auth/refresh', { refresh_token: 'x' }, undefined, off.port)).status, 404)
  const { access_token } = (await login()).json.data
  t.equal((await post('/v1/api/auth/logout', {}, access_token, off.port)).status, 204)
})

t.test('an identity provider that misbehaves', async (t) => {
  const identity = await startTestIdentity(t)
  let answer: (req: IncomingMessage, res: ServerResponse) => void = () => {}
  const server = createServer((req, res) => answer(req, res))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const api = await startApiOn(t, {
    database,
    identity,
    settings: { ...settings, AUTH_TOKEN_URL: `${url}/token`, AUTH_REVOCATION_URL: `${url}/revoke` },
  })
  const json = (status: number, body: unknown, headers = {}) => {
    answer = (_req, res) =>
      void res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
  }
  /** Of ID tokens. */
  const aud = provider.clientId
  const tokens = async (options: Parameters<typeof identity.token>[0] = {}, more = {}) => ({
    access_token: await identity.token(options),
    token_type: 'Bearer',
    expires_in: 900,
    refresh_token: 'r2',
    ...more,
  })
  const signIn = () => login('x', user.email, api.port)
  /** A refresh token that this server does not know. */
  const renew = () => post('/v1/api/auth/refresh', { refresh_token: newUuid() }, undefined, api.port)

  const cases: Record<string, [prepare: () => unknown, status: number, code: string]> = {
    'is down': [() => json(503, {}), 503, 'AUTH_UNAVAILABLE'],
    'sends people elsewhere': [() => json(302, {}, { location: 'http://127.0.0.1:1/' }), 503, 'AUTH_UNAVAILABLE'],
    'answers nonsense': [() => json(200, { access_token: 7 }), 503, 'AUTH_UNAVAILABLE'],
    'answers too much': [() => json(200, { x: 'x'.repeat(100_000) }), 503, 'AUTH_UNAVAILABLE'],
    'does not know us': [() => json(401, { error: 'invalid_client' }), 503, 'AUTH_UNAVAILABLE'],
    'has had enough': [() => json(429, {}, { 'retry-after': '17' }), 429, 'RATE_LIMITED'],
    'wants a second factor': [() => json(403, { error: 'mfa_required', mfa_token: 'm1' }), 422, 'MFA_REQUIRED'],
  }
  for (const [name, [prepare, status, code]] of Object.entries(cases)) {
    prepare()
    for (const r of [await signIn(), await renew()]) t.match([r.status, r.json.error.code], [status, code], name)
  }
  // Clients drop a refresh token on 401, so only a word about the token is one.
  for (const [what, status, body, renewed] of [
    ['in words of its own', 400, 'no', 503],
    ['as a gateway', 403, {}, 503],
    ['as if it were elsewhere', 404, {}, 503],
    ['a request that is none', 400, { error: 'invalid_request' }, 503],
    ['the token', 400, { error: 'invalid_grant' }, 401],
    ['the token with another status', 403, { error: 'invalid_grant' }, 401],
  ] as const) {
    json(status, body)
    t.equal((await renew()).status, renewed, `refuses ${what}`)
  }
  json(400, 'no')
  t.equal((await signIn()).status, 401)
  json(429, {}, { 'retry-after': '17' })
  t.equal((await signIn()).headers['retry-after'], '17')
  json(403, { error: 'mfa_required', mfa_token: 'm1' })
  matchWhole(t, (await signIn()).json.error.details, [{ challenge_id: 'm1' }])
  json(200, await tokens({ claims: { aud: 'urn:else' } }))
  t.equal((await signIn()).status, 500, 'a token that we would not take ourselves')

  json(200, await tokens())
  t.match((await signIn()).json.data, { id_token: null, session_id: /^ses_/, refresh_expires_in: 604800 })
  json(200, { ...(await tokens()), refresh_expires_in: 0 })
  t.match((await signIn()).json.data, { refresh_expires_in: 604800 }, 'an offline token of Keycloak')

  // The access token says nothing of the sign-in, the ID token does: it began before the sign-out.
  const sub = newUuid()
  json(200, await tokens({ sub, claims: { sid: 'device 1' } }))
  t.match((await signIn()).json.data.session_id, /^ses_/)
  await admin.query('update users set tokens_not_before = now() where id = $1', [sub])
  await new Promise((resolve) => setTimeout(resolve, 1100))
  const revoked: string[] = []
  const old = await tokens(
    { sub },
    { id_token: await identity.token({ sub, claims: { aud, auth_time: Math.floor(Date.now() / 1000) - 60 } }) },
  )
  answer = (req, res) => {
    if (req.url === '/revoke') req.on('data', (chunk: Buffer) => revoked.push(chunk.toString()))
    req.resume().on('end', () => res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(old)))
  }
  t.match(await renew(), { status: 401, headers: { 'www-authenticate': /revoked/ } })
  matchWhole(t, revoked, [/token=r2/], 'the token that was made on the way is revoked')

  // Neither token says when the user signed in; both name the session, which is refreshed while its user signs out.
  const now = () => Math.floor(Date.now() / 1000)
  const session = (iat: number) => ({ sub: who, claims: { sid: 'session', iat } })
  const who = newUuid()
  json(200, await tokens(session(now() - 5)))
  const first = (await signIn()).json.data
  const refreshed = Promise.withResolvers<unknown>()
  const asked = Promise.withResolvers<void>()
  answer = (req, res) => {
    req.resume()
    asked.resolve()
    const body = req.url === '/revoke' ? Promise.resolve({}) : refreshed.promise
    void body.then((reply) => res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(reply)))
  }
  const renewing = renew()
  await asked.promise
  t.equal((await post('/v1/api/auth/logout', {}, first.access_token, api.port)).status, 204)
  refreshed.resolve(await tokens(session(now() + 2)))
  t.match(await renewing, { status: 401, headers: { 'www-authenticate': /revoked/ } })

  // Only the ID token names the session.
  const reply = async (iat: number) =>
    tokens(
      { sub: other, claims: { iat } },
      { id_token: await identity.token({ sub: other, claims: { aud, sid: 's', iat } }) },
    )
  const other = newUuid()
  json(200, await reply(now() - 5))
  const { access_token, session_id } = (await signIn()).json.data
  t.match(session_id, /^ses_/)
  const headers = { authorization: `Bearer ${access_token}` }
  const one = { method: 'DELETE', path: `/v1/api/auth/sessions/${session_id}`, headers }
  const kept = await ask(api.port, one)
  t.match([kept.status, kept.json.error.code], [422, 'SESSION_NOT_REVOCABLE'], 'its access token would go on')
  // Nor from a device whose tokens say more.
  const named = await identity.token({ sub: other, claims: { sid: 'another' } })
  const refused = await ask(api.port, { ...one, headers: { authorization: `Bearer ${named}` } })
  t.match([refused.status, refused.json.error.code], [422, 'SESSION_NOT_REVOCABLE'])
  // Once access tokens name it, it can be ended.
  const knows = await identity.token({ sub: other, claims: { sid: 's', iat: now() - 5 } })
  t.equal(
    (await ask(api.port, { path: '/v1/api/users/me', headers: { authorization: `Bearer ${knows}` } })).status,
    200,
  )
  const { rows } = await admin.query('select by_refresh from sessions where user_id = $1 and sid = $2', [other, 's'])
  t.strictSame(rows, [{ by_refresh: false }])
  t.equal((await post('/v1/api/auth/logout', {}, access_token, api.port)).status, 204)
  json(200, await reply(now() + 2))
  t.match(await renew(), { status: 401, headers: { 'www-authenticate': /revoked/ } })
})
