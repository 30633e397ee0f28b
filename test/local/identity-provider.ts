import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRemoteJWKSet, decodeJwt, jwtVerify } from 'jose'
import t from 'tap'
import { newUuid } from '../../lib/contract/ids.ts'
import { openLog } from '../../lib/runtime/log.ts'
import { type IdentityProvider, startIdentityProvider } from '../../local/identity-provider.ts'

const ann = { id: newUuid(), email: 'ann@example.org', name: 'Ann', password: 'correct horse', roles: ['ROLE_ADMIN'] }
const bob = { id: newUuid(), email: 'bob@example.org', name: 'Bob', password: 'battery staple', roles: [] }
const dataDir = await mkdtemp(join(tmpdir(), 'keepsake-identity-'))
t.teardown(() => rm(dataDir, { recursive: true, force: true }))

const start = (issuer?: string) =>
  startIdentityProvider({
    port: 0,
    users: [ann, bob],
    dataDir,
    clientSecret: 'client secret',
    ...(issuer && { issuer }),
    log: openLog({ program: 'test', level: 'silent' }),
  })
let idp = await start()
t.teardown(() => idp.close())

interface Answer {
  status: number
  body: Record<string, string>
}
async function post(url: string, form: Record<string, string>, secret = idp.clientSecret): Promise<Answer> {
  const body = new URLSearchParams({ client_id: idp.clientId, client_secret: secret, ...form })
  const response = await fetch(url, { method: 'POST', body })
  const text = await response.text()
  return { status: response.status, body: text ? (JSON.parse(text) as Record<string, string>) : {} }
}
const signIn = (who: { email: string; password: string }) =>
  post(idp.tokenUrl, { grant_type: 'password', username: who.email, password: who.password })
const refresh = (token = '') => post(idp.tokenUrl, { grant_type: 'refresh_token', refresh_token: token })
const verify = (token: string, at: IdentityProvider = idp) =>
  jwtVerify(token, createRemoteJWKSet(new URL(at.jwksUrl)), {
    issuer: at.issuer,
    audience: at.audience,
    typ: 'at+jwt',
    algorithms: ['RS256'],
    requiredClaims: ['exp', 'iat', 'sub', 'sid', 'auth_time'],
  })

t.test('a password buys an access token of 15 minutes that says who it is for', async (t) => {
  const { status, body } = await signIn(ann)
  t.equal(status, 200)
  const { payload } = await verify(body['access_token'] ?? '')
  t.match(payload, {
    sub: ann.id,
    email: ann.email,
    email_verified: true,
    name: 'Ann',
    roles: ['ROLE_ADMIN'],
    sid: /^[0-9a-f-]{36}$/,
  })
  // Two looks at a clock that shows whole seconds.
  const lifetime = (payload.exp ?? 0) - (payload.iat ?? 0)
  t.ok(lifetime <= 900 && lifetime >= 890, `${lifetime} s`)
  const id = decodeJwt(body['id_token'] ?? '')
  t.match(id, {
    sub: ann.id,
    email: ann.email,
    email_verified: true,
    aud: idp.clientId,
    sid: payload['sid'],
    auth_time: payload['auth_time'],
  })
})

t.test('the ID token is not an access token', async (t) => {
  const { body } = await signIn(ann)
  await t.rejects(verify(body['id_token'] ?? ''))
})

for (const [name, form] of [
  ['a wrong password', { username: ann.email, password: 'wrong' }],
  ["somebody else's password", { username: ann.email, password: bob.password }],
  ['an unknown e-mail', { username: 'eve@example.org', password: ann.password }],
  ['no password at all', { username: ann.email }],
] as [string, Record<string, string>][]) {
  t.test(`${name} is refused in the same words`, async (t) => {
    const { status, body } = await post(idp.tokenUrl, { grant_type: 'password', ...form })
    t.equal(status, 400)
    t.match(body, { error: 'invalid_grant', error_description: 'grant request is invalid' })
  })
}

t.test('a client without the secret is refused', async (t) => {
  const form = { grant_type: 'password', username: ann.email, password: ann.password }
  t.match(await post(idp.tokenUrl, form, 'guess'), { status: 401, body: { error: 'invalid_client' } })
})

t.test('a refresh keeps the session and the time of sign-in, and gives a new refresh token', async (t) => {
  const first = (await signIn(bob)).body
  const second = await refresh(first['refresh_token'])
  t.equal(second.status, 200)
  t.not(second.body['refresh_token'], first['refresh_token'])
  t.type(second.body['id_token'], 'string')
  const [before, after] = [first, second.body].map((b) => decodeJwt(b['access_token'] ?? ''))
  t.strictSame([after?.['sid'], after?.['auth_time'], after?.sub], [before?.['sid'], before?.['auth_time'], bob.id])
  t.match(after, { email: bob.email, email_verified: true, name: 'Bob', roles: [] })
})

t.test('using a refresh token twice ends the whole family', async (t) => {
  const first = (await signIn(bob)).body['refresh_token']
  const second = (await refresh(first)).body['refresh_token']
  t.match(await refresh(first), { status: 400, body: { error: 'invalid_grant' } })
  t.match(await refresh(second), { status: 400, body: { error: 'invalid_grant' } })
})

t.test('of two refreshes at the same moment at most one succeeds', async (t) => {
  const token = (await signIn(bob)).body['refresh_token']
  const answers = await Promise.all(Array.from({ length: 5 }, () => refresh(token)))
  t.ok(answers.filter((a) => a.status === 200).length <= 1)
  t.strictSame(new Set(answers.filter((a) => a.status !== 200).map((a) => a.body['error'])), new Set(['invalid_grant']))
})

t.test('a revoked refresh token is dead, other sign-ins live on', async (t) => {
  const [one, two] = [(await signIn(bob)).body['refresh_token'] ?? '', (await signIn(bob)).body['refresh_token'] ?? '']
  t.equal((await post(idp.revocationUrl, { token: one })).status, 200)
  t.equal((await refresh(one)).status, 400)
  t.equal((await refresh(two)).status, 200)
})

t.test('revoking everything of one person spares the others', async (t) => {
  const [his, hers] = [(await signIn(bob)).body['refresh_token'], (await signIn(ann)).body['refresh_token']]
  await idp.revokeAll(bob.id)
  t.equal((await refresh(his)).status, 400)
  t.equal((await refresh(hers)).status, 200)
})

t.test('keys and refresh tokens survive a restart, and nobody else can read their files', async (t) => {
  const before = (await signIn(ann)).body
  const { issuer } = idp
  await idp.close()
  idp = await start(issuer)
  t.equal((await verify(before['access_token'] ?? '')).payload.sub, ann.id)
  t.equal((await refresh(before['refresh_token'])).status, 200)
  for (const file of ['signing-key.json', 'grants.json']) {
    t.equal((await stat(join(dataDir, file))).mode & 0o777, 0o600, file)
  }
})
