import { createHmac } from 'node:crypto'
import * as jose from 'jose'
import t from 'tap'
import * as z from 'zod'
import { authenticator } from '../../../api/auth/authenticate.ts'
import { openAuth } from '../../../api/auth/open-auth.ts'
import { sessionActions } from '../../../api/auth/policy.ts'
import { endSignIns } from '../../../api/auth/session-queries.ts'
import { userIdOf } from '../../../api/auth/verify-token.ts'
import type { ApiConfig } from '../../../api/config.ts'
import { route } from '../../../api/http/route.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { startTestIdentity, type TokenOptions, tokenSettings } from '../../support/identity.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { readableLog } from '../../support/readable-log.ts'
import { serveRoutes } from '../../support/serve.ts'

const identity = await startTestIdentity(t)
const { db, admin } = await testDatabase(t)
const config = {
  ...tokenSettings(identity),
  AUTH_JWKS_URL: identity.jwksUrl,
  AUTH_WEBHOOK_SECRETS: [],
  AUTH_LOGOUT_CLIENT_IDS: [],
  ERASURE_KEY: 'a-key-of-the-tests-which-names-users-in-the-ledger',
} as unknown as ApiConfig
let shift = 0
const clock = { now: () => new Date(Date.now() + shift) }
const auth = openAuth({ config, db, log: readableLog().log, clock })
await auth.keys.start()
auth.revocations.start()
t.teardown(async () => {
  auth.keys.stop()
  await Promise.all([auth.revocations.stop(), auth.lastUses.close()])
})

const whoami = route({
  method: 'get',
  path: '/whoami',
  operationId: 'whoami',
  action: sessionActions.endAll,
  tags: ['Test'],
  summary: 'For tests',
  status: 200,
  response: z.object({ userId: z.string(), platformAdmin: z.boolean(), sessionId: z.string().nullable() }),
  handle: async ({ actor }) => ({ data: actor }),
})
const server = await serveRoutes(t, [whoami], { db, authenticate: auth.authenticate })
const asked = (authorization: string) => server.ask({ path: '/whoami', headers: { authorization } })
const send = async (token: string) => asked(`Bearer ${token}`)
const withOptions = async (options: TokenOptions) => send(await identity.token(options))

async function refused(t: { match: typeof import('tap').t.match }, token: string, why: string, name: string = why) {
  const r = await send(token)
  t.match(
    [r.status, r.json?.error.code, r.headers['www-authenticate']],
    [401, 'UNAUTHORIZED', `Bearer error="invalid_token", error_description="${why}"`],
    name,
  )
}
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const now = () => Math.floor(Date.now() / 1000)

t.test('a good token tells who asks', async (t) => {
  const sub = newUuid()
  const r = await withOptions({ sub, roles: ['ROLE_ADMIN', 'other'], claims: { sid: 's1' } })
  t.match(r.json.data, { userId: sub, platformAdmin: true, sessionId: /^[0-9a-f-]{36}$/ })
  const plain = await withOptions({ sub, roles: ['admin', 'role_admin'] })
  t.strictSame(plain.json.data, { userId: sub, platformAdmin: false, sessionId: null })
  for (const roles of ['ROLE_ADMIN', { ROLE_ADMIN: true }, [['ROLE_ADMIN']], null]) {
    t.equal((await withOptions({ sub, claims: { roles } })).json.data.platformAdmin, false, 'roles is a list')
  }
  t.equal((await withOptions({ claims: { aud: ['urn:else', identity.audience] } })).status, 200, 'audience in a list')
  t.equal((await asked(`bearer  ${await identity.token()}`)).status, 200, 'the scheme is not case-sensitive')
})

t.test('without a token there is no reason to give', async (t) => {
  const r = await server.ask({ path: '/whoami' })
  t.match([r.status, r.json.error.code, r.headers['www-authenticate']], [401, 'UNAUTHORIZED', 'Bearer'])
})

t.test('an expired token says so, that the client may refresh it', async (t) => {
  await refused(t, await identity.token({ claims: { exp: now() - 60 } }), 'expired', 'exp')
  await refused(t, await identity.token({ claims: { iat: now() - 3600 } }), 'expired', 'issued an hour ago')
  t.equal((await withOptions({ claims: { exp: now() - 10 } })).status, 200, 'clocks may differ by half a minute')
})

const claims: Record<string, Record<string, unknown>> = {
  'no exp': { exp: undefined },
  'no iat': { iat: undefined },
  'no sub': { sub: undefined },
  'an empty sub': { sub: '' },
  'a sub that is too long': { sub: 'x'.repeat(256) },
  'a sub with a NUL': { sub: 'a\u0000b' },
  'exp as text': { exp: String(now() + 900) },
  'not valid yet': { nbf: now() + 3600 },
  'issued in the future': { iat: now() + 3600 },
  'another issuer': { iss: 'http://evil.example' },
  'the issuer with a slash': { iss: `${identity.issuer}/` },
  'another audience': { aud: 'urn:else' },
  'part of the audience': { aud: identity.audience.slice(0, -1) },
  'no audience': { aud: undefined },
}
for (const [name, changed] of Object.entries(claims)) {
  t.test(`refuses a token with ${name}`, async (t) => {
    await refused(t, await identity.token({ claims: changed }), 'invalid')
  })
}

t.test('the log says why a token is refused, in words without the token', async (t) => {
  const reasons: [TokenOptions, RegExp | undefined][] = [
    [{ claims: { aud: 'urn:else' } }, /"aud"/],
    [{ claims: { iss: 'http://evil.example' } }, /"iss"/],
    [{ claims: { exp: now() - 60 } }, undefined],
  ]
  for (const [options, reason] of reasons) {
    server.logged.length = 0
    const token = await identity.token(options)
    await send(token)
    const line = server.logged.find(({ msg }) => msg === 'token refused')
    if (reason) t.match(line, { reason, request_id: String })
    else t.notOk(line, 'an expired one is nothing to look into')
    t.notMatch(JSON.stringify(server.logged), token.split('.')[1] ?? '')
  }
})

t.test('a huge or broken exp does not make a token live longer', async (t) => {
  t.equal((await withOptions({ claims: { exp: 9e15 } })).status, 200)
  await refused(t, await identity.token({ claims: { exp: 9e15, iat: now() - 3600 } }), 'expired')
  t.equal((await withOptions({ claims: { exp: now() + 100.5 } })).status, 200)
})

t.test('refuses every trick with the algorithm', async (t) => {
  const { publicKey, kid } = identity.keys()
  const payload = encode({ iss: identity.issuer, aud: identity.audience, sub: newUuid(), iat: now(), exp: now() + 900 })
  for (const alg of ['none', 'None', 'NONE', 'nOnE', '']) {
    for (const signature of ['', 'AAAA']) {
      const token = `${encode({ alg, kid, typ: 'at+jwt' })}.${payload}.${signature}`
      // An empty signature leaves a dot at the end, which is still a bearer token by its characters.
      await refused(t, token, 'invalid', alg)
    }
  }
  const jwk = await jose.exportJWK(publicKey)
  for (const secret of [await jose.exportSPKI(publicKey), JSON.stringify(jwk), jwk.n ?? '', '']) {
    const head = encode({ alg: 'HS256', kid, typ: 'at+jwt' })
    const mac = createHmac('sha256', secret).update(`${head}.${payload}`).digest('base64url')
    await refused(t, `${head}.${payload}.${mac}`, 'invalid', 'HS256 with the public key')
  }
  for (const alg of ['RS384', 'PS256', 'ES256']) {
    const pair = await jose.generateKeyPair(alg)
    const token = await new jose.SignJWT({})
      .setProtectedHeader({ alg, kid, typ: 'at+jwt' })
      .setIssuer(identity.issuer)
      .setAudience(identity.audience)
      .setSubject(newUuid())
      .setIssuedAt()
      .setExpirationTime('15m')
      .sign(pair.privateKey)
    await refused(t, token, 'invalid', alg)
  }
})

t.test('refuses keys that a token brings along or points to', async (t) => {
  const own = await jose.generateKeyPair('RS256', { extractable: true })
  const jwk = { ...(await jose.exportJWK(own.publicKey)), kid: 'own', alg: 'RS256' }
  const forge = (header: Record<string, unknown>) =>
    new jose.SignJWT({ sub: newUuid(), iss: identity.issuer, aud: identity.audience, iat: now(), exp: now() + 900 })
      .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', ...header })
      .sign(own.privateKey)
  const kid = identity.keys().kid
  for (const header of [
    { kid },
    { jwk },
    { kid, jwk },
    { kid, jku: `${identity.issuer}/evil` },
    { kid, x5u: 'http://127.0.0.1:1/' },
    { kid, x5c: ['AAAA'] },
    { kid: '../../../dev/null' },
    { kid: "' or 1=1 --" },
    { kid: 'http://127.0.0.1:1/key' },
    { kid: ['a'] },
    {},
  ]) {
    await refused(t, await forge(header), 'invalid', JSON.stringify(header))
  }
  t.equal((await withOptions({ header: { kid: undefined } })).status, 200, 'with one key the name may be left out')
})

t.test('refuses tokens of other kinds', async (t) => {
  for (const typ of ['JWT', 'id+jwt', 'logout+jwt', undefined, 'at+jwt\u0000']) {
    await refused(t, await identity.token({ header: { typ } }), 'invalid', String(typ))
  }
  t.equal((await withOptions({ header: { typ: 'application/at+jwt' } })).status, 200)
})

t.test('refuses what is no signed token', async (t) => {
  const token = await identity.token()
  const [head = '', body = '', signature = ''] = token.split('.')
  const crit = { alg: 'RS256', kid: identity.keys().kid, typ: 'at+jwt', crit: ['x'], x: 1 }
  for (const bad of [
    `${head}.${body}`,
    `${token}.`,
    `${token}.${signature}`,
    `${head}.${body}.`,
    `${head}..${signature}`,
    `.${body}.${signature}`,
    `${head}.${encode({ sub: newUuid() })}.${signature}`,
    `${encode(crit)}.${body}.${signature}`,
    `${head}.${body}.${signature.slice(0, -4)}`,
    `${head}.${body}.${'A'.repeat(signature.length)}`,
    `${encode({ alg: 'RSA-OAEP', enc: 'A256GCM' })}.AAAA.AAAA.AAAA.AAAA`,
    'x',
    'null',
    `${'A'.repeat(9000)}.${body}.${signature}`,
  ]) {
    await refused(t, bad, 'invalid', bad.slice(0, 60))
  }
  for (const header of ['Bearer', 'Bearer ', 'Basic YTpi', token, `Bearer ${token} x`, `Bearer ${token}, Bearer x`]) {
    t.equal((await asked(header)).status, 401, header.slice(0, 20))
  }
  const dots = Buffer.from(token.replaceAll('.', '．')).toString('latin1')
  t.equal((await asked(`Bearer ${dots}`)).status, 401, 'unicode dots')
  t.equal((await asked(`Bearer ${'A'.repeat(20_000)}`)).status, 431, 'larger than all headers may be')
})

t.test('makes the row of a person at first sight, once, and keeps it up to date', async (t) => {
  const sub = newUuid()
  const row = async (id = sub) => (await admin.query('select * from users where id = $1', [id])).rows[0]
  const verified = (email: string) => ({ email, email_verified: true })
  const first = { sub, claims: { ...verified('ann@example.org'), name: 'Ann\u0000 \u0007Lee' } }
  const all = await Promise.all(Array.from({ length: 20 }, () => withOptions(first)))
  t.ok(all.every((r) => r.status === 200))
  t.match(await row(), { subject: sub, issuer: identity.issuer, email: 'ann@example.org', display_name: 'Ann Lee' })
  shift += 6000
  await admin.query(`update users set updated_at = now() - interval '1 minute' where id = $1`, [sub])
  await withOptions({ sub, claims: { ...verified('ann@new.example'), name: undefined } })
  t.match(await row(), { email: 'ann@new.example', display_name: 'Ann Lee' }, 'what a token does not say stays')
  shift += 6000
  await withOptions({ sub, claims: { ...verified('ann@old.example'), iat: now() - 300 } })
  t.match(await row(), { email: 'ann@new.example' }, 'an older token changes nothing')

  const named = await withOptions({ sub: 'auth0|ann', claims: { email: 7, name: ['x'] } })
  const id = userIdOf(identity.issuer, 'auth0|ann')
  t.equal(named.json.data.userId, id)
  t.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  t.match(await row(id), { subject: 'auth0|ann', email: null, display_name: null })
})

/** What is kept of a user after a token with these claims, one token after another. */
function keptAfter(column: 'email' | 'phone_number') {
  const sub = newUuid()
  return async (claims: Record<string, unknown>) => {
    await withOptions({ sub, claims: { iat: now() + 2, ...claims } })
    auth.users.forget(sub)
    return (await admin.query('select email, phone_number from users where id = $1', [sub])).rows[0][column]
  }
}

t.test('only an address that a token calls verified is kept, and one that is no longer verified goes', async (t) => {
  const emailAfter = keptAfter('email')
  const email = 'ann@example.org'
  for (const email_verified of [undefined, null, false, 0, 1, '', 'false', 'true', 'True', {}, [true]]) {
    t.equal(await emailAfter({ email, email_verified }), null, JSON.stringify(email_verified))
  }
  t.equal(await emailAfter({ email, email_verified: true }), email)
  t.equal(
    await emailAfter({ email: 'other@example.org' }),
    email,
    'an address of which nothing is said counts for nothing',
  )
  t.equal(await emailAfter({}), email)
  t.equal(await emailAfter({ email: 'other@example.org', email_verified: false }), null)
})

t.test('only a phone number that a token calls verified is kept, as E.164 writes it', async (t) => {
  const numberAfter = keptAfter('phone_number')
  for (const phone_number_verified of [undefined, null, false, 1, 'true']) {
    t.equal(await numberAfter({ phone_number: '+491701234567', phone_number_verified }), null)
  }
  for (const phone_number of ['0170 1234567', '+1', '+49170123456789012', 491701234567, null]) {
    t.equal(await numberAfter({ phone_number, phone_number_verified: true }), null, JSON.stringify(phone_number))
  }
  t.equal(await numberAfter({ phone_number: '+49 (170) 123-45.67', phone_number_verified: true }), '+491701234567')
  t.equal(await numberAfter({}), '+491701234567', 'a number of which nothing is said stays')
  t.equal(await numberAfter({ phone_number: '+491701234567', phone_number_verified: false }), null)
})

t.test('signing out ends the sessions of tokens that do not say when the user signed in', async (t) => {
  const sub = newUuid()
  const of = (sid: string, claims: Record<string, unknown> = {}) => identity.token({ sub, claims: { sid, ...claims } })
  const later = { iat: now() + 20 }
  for (const sid of ['phone', 'tablet']) t.equal((await send(await of(sid, { iat: now() - 5 }))).status, 200)
  // Its first token here was already a refreshed one; an older one follows.
  t.equal((await send(await of('old laptop', later))).status, 200)
  auth.users.forget(sub)
  t.equal((await send(await of('old laptop', { iat: now() - 5 }))).status, 200)
  await db.inTransaction({}, (tx) => endSignIns(tx, sub))
  auth.users.forget(sub)
  for (const sid of ['phone', 'tablet', 'old laptop']) {
    await refused(t, await of(sid, later), 'revoked', `${sid}, refreshed since`)
  }
  t.equal((await send(await of('a new sign-in', later))).status, 200)
  t.equal(
    (await send(await of('phone', { ...later, auth_time: now() + 20 }))).status,
    200,
    'the password was asked for again',
  )
  await refused(t, await of('phone', later), 'revoked', 'which proves nothing for a token that does not say so')
})

t.test('a session whose first token was issued before the sign-out and comes after it is over as well', async (t) => {
  const sub = newUuid()
  const of = (iat: number) => identity.token({ sub, claims: { sid: 's', iat } })
  t.equal((await withOptions({ sub })).status, 200)
  await db.inTransaction({}, (tx) => endSignIns(tx, sub))
  auth.users.forget(sub)
  await refused(t, await of(now() - 5), 'revoked')
  await refused(t, await of(now() + 20), 'revoked', 'refreshed since')
})

t.test('no provider whose clock is ahead keeps a session open that was seen before the sign-out', async (t) => {
  const sub = newUuid()
  const ahead = await identity.token({ sub, claims: { sid: 's', iat: now() + 25 } })
  t.equal((await send(ahead)).status, 200)
  await db.inTransaction({}, (tx) => endSignIns(tx, sub))
  auth.users.forget(sub)
  await refused(t, ahead, 'revoked')
})

t.test('nor a sign-in whose auth_time is ahead; a new sign-in is accepted at once', async (t) => {
  const sub = newUuid()
  const of = (auth_time: number, claims: Record<string, unknown> = {}) =>
    identity.token({ sub, claims: { auth_time, iat: auth_time, sid: 's', ...claims } })
  const [first, second] = [now() + 20, now() + 25]
  t.equal((await send(await of(first))).status, 200)
  await db.inTransaction({}, (tx) => endSignIns(tx, sub))
  auth.users.forget(sub)
  await refused(t, await of(first), 'revoked')
  await refused(t, await of(first, { iat: first + 5 }), 'revoked', 'refreshed since')
  t.equal((await send(await of(second))).status, 200, 'the password was asked for again')
  auth.users.forget(sub)
  t.equal((await send(await of(second, { iat: second + 1 }))).status, 200, 'and refreshed')
  await db.inTransaction({}, (tx) => endSignIns(tx, sub))
  auth.users.forget(sub)
  await refused(t, await of(second), 'revoked', 'the next sign-out ends it as well')
})

t.test('a sign-in is written down once, under the first of its names, and nothing where it has none', async (t) => {
  const sub = newUuid()
  const of = async (claims: Record<string, unknown>) => {
    const r = await withOptions({ sub, claims })
    t.equal(r.status, 200)
    auth.users.forget(sub)
    return r.json.data.sessionId
  }
  const rows = async () =>
    (await admin.query('select * from sessions where user_id = $1 order by first_seen_at', [sub])).rows
  for (const sid of [7, '', 'x'.repeat(256), 'a\0', 'a\ud800', { a: 1 }]) t.equal(await of({ sid }), null)
  t.strictSame(await rows(), [])
  const id = await of({ sid: 's', iat: now() - 10 })
  const [first] = await rows()
  t.equal(first.id, id)
  t.equal(await of({ sid: 's', auth_time: now() - 60, origin_jti: 'o' }), id, 'the sid comes first')
  t.equal((await rows()).length, 1)
  const family = await of({ origin_jti: 'o', auth_time: now() - 60 })
  t.not(family, id)
  t.equal(await of({ origin_jti: 'o', auth_time: now() - 50 }), family, 'then the family of tokens')
  const time = await of({ auth_time: now() - 60 })
  t.notOk([id, family].includes(time), 'then the time')
  const before = await rows()
  t.equal(await of({ auth_time: before[0].auth_time ?? now() - 60, sid: 's' }), id)
  t.strictSame((await rows()).length, 3)
  await admin.query(`update sessions set last_seen_at = now() - interval '2 days' where user_id = $1`, [sub])
  await of({ sid: 's' })
  const again = (await rows()).find((row) => row.id === id)
  t.ok(again.last_seen_at >= first.last_seen_at, 'seen today')
})

t.test('a time of sign-in that is none is not believed', async (t) => {
  const sub = newUuid()
  const impossible = [now() * 1000, now() + 3600, '1', null]
  for (const auth_time of impossible) t.equal((await withOptions({ sub, claims: { auth_time } })).status, 200)
  await db.inTransaction({}, (tx) => endSignIns(tx, sub))
  auth.users.forget(sub)
  for (const auth_time of impossible) {
    await refused(t, await identity.token({ sub, claims: { auth_time, iat: now() - 2 } }), 'revoked', String(auth_time))
  }
})

t.test('the log says once that with such tokens a sign-out does not last', async (t) => {
  const { log, logged } = readableLog()
  const authenticate = authenticator(auth.verifier, auth.users, auth.lastUses)
  const enter = async (claims: Record<string, unknown>) =>
    authenticate(`Bearer ${await identity.token({ claims })}`, { log })
  for (const claims of [{ sid: 's' }, { auth_time: now() }]) await enter(claims)
  t.strictSame(logged, [])
  for (const claims of [{}, {}]) await enter(claims)
  matchWhole(t, logged, [{ msg: /none of sid, origin_jti and auth_time/ }])
  t.equal(logged.length, 1)
})

t.test('a sign-out on another replica ends every earlier sign-in, and no later one', async (t) => {
  const sub = newUuid()
  const signedIn = { auth_time: now() - 100 }
  const token = await identity.token({ sub, claims: signedIn })
  const withoutTime = await identity.token({ sub, claims: { iat: now() - 2 } })
  t.equal((await send(token)).status, 200)
  await db.inTransaction({}, (tx) => endSignIns(tx, sub))
  // This process is told of nothing: it reads.
  await eventually('the end of the sign-in', async () => (await send(token)).status === 401)
  await refused(t, token, 'revoked')
  await refused(t, withoutTime, 'revoked', 'by its time of issue where it says nothing of the sign-in')
  await refused(t, await identity.token({ sub, claims: { ...signedIn, iat: now() } }), 'revoked', 'refreshed since')
  t.equal((await withOptions({ sub, claims: { auth_time: now() + 1, iat: now() } })).status, 200)
})

t.test('a look-up that failed is not remembered', async (t) => {
  const sub = newUuid()
  const token = await identity.token({ sub })
  await admin.query('alter table users rename to users_away')
  const away = await send(token)
  await admin.query('alter table users_away rename to users')
  t.equal(away.status, 500)
  t.equal((await send(token)).status, 200)
})

t.test(
  'remembers a token whose signature was right, but not beyond its end, nor when the clock is set back',
  async (t) => {
    const sub = newUuid()
    const token = await identity.token({ sub, claims: { iat: now(), exp: now() + 60 } })
    t.equal((await send(token)).status, 200)
    t.equal((await send(token)).json.data.userId, sub)
    const [head, body, signature = ''] = token.split('.')
    await refused(t, [head, body, `${signature.slice(0, -8)}AAAAAAAA`].join('.'), 'invalid', 'one that resembles it')
    const before = shift
    shift = before - 120_000
    await refused(t, token, 'invalid', 'issued in the future')
    shift = before + 91_000
    await refused(t, token, 'expired')
    shift = before
  },
)

t.test('a token is refused as soon as its key is no longer published', async (t) => {
  const token = await identity.token()
  t.equal((await send(token)).status, 200)
  t.equal((await send(token)).status, 200)
  await identity.rotate(false)
  const before = shift
  shift += 31_000
  t.equal((await send(await identity.token())).status, 200, 'the new key makes the API fetch')
  await refused(t, token, 'invalid')
  shift = before
})

t.test('without keys that can be believed nobody is refused, and nobody let in: 503', async (t) => {
  identity.mode('down')
  const day = 24 * 3600
  const late = { iat: now() + day - 60, exp: now() + day + 600 }
  const known = await identity.token({ claims: late })
  shift += (day - 60) * 1000
  t.equal((await send(known)).status, 200, 'the last good keys serve for a day')
  shift += 180_000
  for (const token of [known, await identity.token({ claims: late })]) {
    const r = await send(token)
    t.match([r.status, r.json.error.code, r.headers['retry-after']], [503, 'AUTH_UNAVAILABLE', '5'])
  }
})
