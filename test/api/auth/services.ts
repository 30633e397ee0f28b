import { createHmac, generateKeyPairSync } from 'node:crypto'
import * as jose from 'jose'
import t from 'tap'
import { sessionActions } from '../../../api/auth/policy.ts'
import { INTERNAL_AUDIENCE, openServiceAuth } from '../../../api/auth/services.ts'
import { ApiConfig } from '../../../api/config.ts'
import { internal, route } from '../../../api/http/route.ts'
import { systemClock } from '../../../lib/runtime/clock.ts'
import { testDatabase } from '../../support/database.ts'
import { startTestIdentity, type TokenOptions } from '../../support/identity.ts'
import { readableLog } from '../../support/readable-log.ts'
import { serveRoutes } from '../../support/serve.ts'

const cluster = await startTestIdentity(t)
const elsewhere = await startTestIdentity(t)
const { db } = await testDatabase(t)
const { log } = readableLog()
const service = 'system:serviceaccount:keepsake:importer'
const config = {
  INTERNAL_AUTH_ISSUER: cluster.issuer,
  INTERNAL_AUTH_JWKS_URL: cluster.jwksUrl,
  INTERNAL_AUTH_SUBJECTS: [service, 'system:serviceaccount:other:importer'],
}
const parts = { db, log, clock: systemClock }
const services = openServiceAuth({ ...parts, config })
if (!services) throw new Error('there are no services')
await services.keys.start()
t.teardown(() => services.keys.stop())

const post = internal(
  route({
    method: 'post',
    path: '/internal',
    operationId: 'test',
    tags: ['Test'],
    summary: 'For tests',
    action: sessionActions.endAll,
    status: 204,
    handle: async () => ({ data: null }),
  }),
)
const server = await serveRoutes(t, [post], { db, authenticate: services.authenticate })
const send = (token?: string) =>
  server.ask({
    method: 'POST',
    path: '/internal',
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  })
/** As Kubernetes makes them, which names no type. */
const tokenOf = (o: TokenOptions = {}, from = cluster) =>
  from.token({
    sub: service,
    ...o,
    claims: { aud: [INTERNAL_AUDIENCE], ...o.claims },
    header: { typ: undefined, ...o.header },
  })

t.test('the token of a service account that is on the list is accepted', async (t) => {
  t.equal((await send(await tokenOf())).status, 204)
  t.equal((await send(await tokenOf({ sub: 'system:serviceaccount:other:importer' }))).status, 204)
})

t.test('every other token is refused, and the answer does not say why', async (t) => {
  const now = Math.floor(Date.now() / 1000)
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = { iss: cluster.issuer, aud: INTERNAL_AUDIENCE, sub: service, iat: now, exp: now + 600 }
  const { kid, publicKey } = cluster.keys()
  const hmac = `${encode({ alg: 'HS256', kid })}.${encode(claims)}`
  const pem = await jose.exportSPKI(publicKey)
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const foreignKey = new jose.SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid }).sign(privateKey)
  const wrong: [what: string, token: string][] = [
    ['of a user', await cluster.token()],
    ['for the audience of users', await tokenOf({ claims: { aud: cluster.audience } })],
    ['for no audience', await tokenOf({ claims: { aud: undefined } })],
    ['of another service', await tokenOf({ sub: 'system:serviceaccount:keepsake:other' })],
    ['of a service with the beginning of a name', await tokenOf({ sub: `${service}-2` })],
    ['of no service', await tokenOf({ claims: { sub: undefined } })],
    ['expired', await tokenOf({ claims: { iat: now - 900, exp: now - 60 } })],
    ['that does not expire', await tokenOf({ claims: { exp: undefined } })],
    ['of the day before yesterday', await tokenOf({ claims: { iat: now - 2 * 86_400, exp: now + 600 } })],
    ['of another issuer', await tokenOf({}, elsewhere)],
    [
      'in the name of the issuer, with the key of another',
      await tokenOf({ claims: { iss: cluster.issuer } }, elsewhere),
    ],
    ['with a key of no one', await foreignKey],
    ['without a signature', `${encode({ alg: 'none' })}.${encode(claims)}.`],
    ['with the public key as a secret', `${hmac}.${createHmac('sha256', pem).update(hmac).digest('base64url')}`],
    ['too long', 'x'.repeat(9000)],
    ['nonsense', 'nonsense'],
  ]
  for (const [what, token] of wrong) {
    const answer = await send(token)
    t.match([answer.status, answer.json?.error.code], [401, 'UNAUTHORIZED'], what)
    t.match(answer.headers['www-authenticate'], /^Bearer error="invalid_token", error_description="(invalid|expired)"$/)
  }
  t.match(await send(), { status: 401, headers: { 'www-authenticate': 'Bearer' } })
  t.ok(server.logged.some(({ reason }) => reason === 'this service is not allowed'))
})

t.test('without its keys nothing is accepted', async (t) => {
  const broken = await startTestIdentity(t)
  broken.mode('down')
  const auth = openServiceAuth({
    ...parts,
    config: { ...config, INTERNAL_AUTH_ISSUER: broken.issuer, INTERNAL_AUTH_JWKS_URL: broken.jwksUrl },
  })
  await t.rejects(async () => auth?.authenticate(`Bearer ${await tokenOf({}, broken)}`, { log }), {
    code: 'AUTH_UNAVAILABLE',
  })
  auth?.keys.stop()
})

t.test('is configured as a whole, or not at all', async (t) => {
  const none = { INTERNAL_AUTH_ISSUER: undefined, INTERNAL_AUTH_JWKS_URL: undefined, INTERNAL_AUTH_SUBJECTS: [] }
  t.equal(openServiceAuth({ ...parts, config: none }), undefined)
  for (const name of Object.keys(config)) {
    const part = { ...none, [name]: config[name as keyof typeof config] }
    t.throws(() => openServiceAuth({ ...parts, config: part }), /are set together/, name)
  }
  const { INTERNAL_AUTH_SUBJECTS: subjects } = ApiConfig.shape
  t.strictSame(subjects.parse(`${service}, system:serviceaccount:a:b`), [service, 'system:serviceaccount:a:b'])
  t.strictSame(subjects.parse(undefined), [])
  for (const bad of ['importer', '*', 'system:serviceaccount:a:*']) t.notOk(subjects.safeParse(bad).success, bad)
})
