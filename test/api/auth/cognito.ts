import { randomUUID } from 'node:crypto'
import t from 'tap'
import { ApiConfig } from '../../../api/config.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { loadConfig } from '../../../lib/runtime/config.ts'
import { apiSettings, startApiOn } from '../../support/api.ts'
import { ask } from '../../support/ask.ts'
import { testDatabase } from '../../support/database.ts'
import { startTestIdentity, type TokenOptions } from '../../support/identity.ts'

// Tokens as Amazon Cognito makes them: access tokens without `aud` and `typ`, which the claim `token_use` tells from ID
// tokens of the same issuer.
const database = await testDatabase(t)
const identity = await startTestIdentity(t)
const CLIENTS = ['1example23456789', '2example23456789']
const settings = {
  AUTH_AUDIENCE: CLIENTS.join(', '),
  AUTH_AUDIENCE_CLAIM: 'client_id',
  AUTH_TOKEN_TYPE: 'none',
  AUTH_TOKEN_USE: 'access',
  AUTH_ROLES_CLAIM: 'cognito:groups',
  AUTH_TOKEN_URL: identity.tokenUrl,
  AUTH_CLIENT_ID: 'keepsake',
}
const api = await startApiOn(t, { database, identity, settings })
const now = () => Math.floor(Date.now() / 1000)

const claimsOf = (sub: string, more: object = {}) => ({
  ...{ aud: undefined, client_id: CLIENTS[0], token_use: 'access', username: sub, scope: 'openid', version: 2 },
  ...{ origin_jti: randomUUID(), event_id: randomUUID(), jti: randomUUID() },
  ...more,
})
const token = ({ sub = newUuid(), claims = {}, ...rest }: TokenOptions = {}) =>
  identity.token({ sub, claims: claimsOf(sub, claims), header: { typ: undefined }, ...rest })
const send = (bearer: string, method = 'GET', path = '/api/auth/sessions') =>
  ask(api.port, { method, path: `/v1${path}`, headers: { authorization: `Bearer ${bearer}` } })

t.test('an access token is accepted, of each configured client, and its groups are the roles', async (t) => {
  for (const client_id of CLIENTS) t.equal((await send(await token({ claims: { client_id } }))).status, 200)
  t.equal((await send(await token({ claims: { auth_time: now() - 60 } }))).status, 200)
  t.equal((await send(await token({ claims: { auth_time: undefined } }))).status, 200)
  const explain = async (groups: unknown) =>
    (await send(await token({ claims: { 'cognito:groups': groups } }), 'POST', '/admin/permissions/explain')).status
  t.equal(await explain(['friends', 'ROLE_ADMIN']), 400, 'the body is looked at')
  for (const groups of [['friends'], 'ROLE_ADMIN', undefined]) t.equal(await explain(groups), 404)
  t.equal(
    (await send(await token({ claims: { roles: ['ROLE_ADMIN'] } }), 'POST', '/admin/permissions/explain')).status,
    404,
  )
})

t.test('everything else of the same issuer is refused', async (t) => {
  const refused: Record<string, object> = {
    'an ID token': { token_use: 'id', aud: CLIENTS[0], client_id: undefined },
    'an ID token with the claim of the other': { token_use: 'id', client_id: CLIENTS[0] },
    'a token that does not say its use': { token_use: undefined },
    'a use in a list': { token_use: ['access'] },
    'another client': { client_id: '3example23456789' },
    'no client': { client_id: undefined },
    'a list of clients': { client_id: CLIENTS },
    'the client in aud, which is not compared': { aud: CLIENTS[0], client_id: undefined },
  }
  for (const [name, claims] of Object.entries(refused)) {
    t.equal((await send(await token({ claims: { ...claims } }))).status, 401, name)
  }
  const strict = await startApiOn(t, { database, identity, settings: { AUTH_AUDIENCE: CLIENTS[0] ?? '' } })
  const bearer = await identity.token({ claims: claimsOf('x') })
  const { status } = await ask(strict.port, {
    path: '/v1/api/users/me',
    headers: { authorization: `Bearer ${bearer}` },
  })
  t.equal(status, 401, 'client_id is not compared where aud is')
})

t.test('sessions are told apart by origin_jti, also without auth_time', async (t) => {
  const sub = newUuid()
  const [phone, laptop] = [randomUUID(), randomUUID()]
  const of = (origin_jti: string, more: object = {}) => token({ sub, claims: { origin_jti, iat: now() - 5, ...more } })
  for (const family of [phone, laptop]) t.equal((await send(await of(family))).status, 200)
  const { sessions } = (await send(await of(laptop))).json.data
  const other = sessions.find(({ current }: { current: boolean }) => !current)
  t.equal((await send(await of(laptop), 'DELETE', `/api/auth/sessions/${other.session_id}`)).status, 204)
  t.equal((await send(await of(phone, { iat: now() + 5, jti: 'refreshed' }))).status, 401)
  t.equal((await send(await of(laptop, { iat: now() + 5 }))).status, 200)
  t.equal((await send(await of(laptop), 'POST', '/api/auth/logout')).status, 204)
  t.equal((await send(await of(laptop, { iat: now() + 5 }))).status, 401)
})

t.test('a refresh that returns no refresh token, and facts in the ID token', async (t) => {
  const sub = newUuid()
  const claims = claimsOf(sub)
  const idClaims = { token_use: 'id', email: 'ann@example.org', email_verified: true, 'cognito:username': sub }
  const account = {
    sub,
    email: 'ann@example.org',
    password: 'p',
    claims: () => claims,
    idClaims,
    rotates: false as const,
  }
  identity.account(account)
  // The header of tokens of this provider says at+jwt, which is not compared here.
  const login = await ask(api.port, {
    ...{ method: 'POST', path: '/v1/api/auth/login' },
    body: { email: account.email, password: 'p', device_name: 'Phone' },
  })
  t.equal(login.status, 200)
  const { refresh_token, session_id } = login.json.data
  for (let times = 0; times < 2; times++) {
    const { status, json } = await ask(api.port, {
      method: 'POST',
      path: '/v1/api/auth/refresh',
      body: { refresh_token },
    })
    t.strictSame([status, json.data.refresh_token, json.data.session_id], [200, refresh_token, session_id])
  }
  const { rows } = await database.admin.query('select email from users where id = $1', [sub])
  t.strictSame(rows, [{ email: 'ann@example.org' }])
})

t.test(
  'without a typ of their own, the use of access tokens must be compared: else an ID token would do',
  async (t) => {
    const env = {
      ...apiSettings(database, '/nowhere'),
      AUTH_ISSUER: identity.issuer,
      AUTH_AUDIENCE: 'a',
      AUTH_JWKS_URL: identity.jwksUrl,
    }
    t.throws(() => loadConfig(ApiConfig, { ...env, AUTH_TOKEN_TYPE: 'none' }), /AUTH_TOKEN_USE: is needed/)
    const jwt = { ...env, AUTH_TOKEN_TYPE: 'JWT' }
    for (const ofClient of [
      { AUTH_AUDIENCE: 'api, app', AUTH_CLIENT_ID: 'app' },
      { AUTH_AUDIENCE: 'app', AUTH_LOGOUT_CLIENT_IDS: 'web, app' },
      { AUTH_AUDIENCE: 'app', AUTH_CLIENT_ID: 'app', AUTH_TOKEN_TYPE: 'application/jwt' },
    ]) {
      t.throws(() => loadConfig(ApiConfig, { ...jwt, ...ofClient }), /AUTH_TOKEN_USE: is needed/)
      t.ok(loadConfig(ApiConfig, { ...jwt, ...ofClient, AUTH_TOKEN_USE: 'access' }))
      t.ok(loadConfig(ApiConfig, { ...env, ...ofClient, AUTH_TOKEN_TYPE: 'at+jwt' }))
    }
    t.ok(loadConfig(ApiConfig, { ...jwt, AUTH_AUDIENCE: 'api', AUTH_CLIENT_ID: 'app' }))
    t.throws(() => loadConfig(ApiConfig, { ...env, AUTH_AUDIENCE: ' , ' }), /AUTH_AUDIENCE/)
    t.throws(() => loadConfig(ApiConfig, { ...env, AUTH_AUDIENCE_CLAIM: 'either' }), /AUTH_AUDIENCE_CLAIM/)
    t.throws(() => loadConfig(ApiConfig, { ...env, AUTH_WEBHOOK_SECRETS: 'whsec_short' }), /AUTH_WEBHOOK_SECRETS/)
    t.strictSame(loadConfig(ApiConfig, { ...env, AUTH_AUDIENCE: 'a, b' }).AUTH_AUDIENCE, ['a', 'b'])
  },
)
