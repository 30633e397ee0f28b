import type { JSONWebKeySet } from 'jose'
import tap from 'tap'
import { type KeyCache, keySource } from '../../../api/auth/key-source.ts'
import { verifierOf } from '../../../api/auth/open-auth.ts'
import { verifyToken } from '../../../api/auth/verify-token.ts'
import type { KeyServerMode, TestIdentity } from '../../support/identity.ts'
import { startTestIdentity, tokenSettings } from '../../support/identity.ts'
import { readableLog } from '../../support/readable-log.ts'

const { log } = readableLog()
const MINUTE = 60_000

/** A clock that is moved by hand, and starts now: tokens are made with the machine's own. */
function handClock() {
  let ms = Date.now()
  const pass = (more: number) => {
    ms += more
  }
  return { now: () => new Date(ms), pass }
}

function memoryCache(): KeyCache & { kept?: { jwks: unknown; fetchedAt: Date } } {
  const cache: KeyCache & { kept?: { jwks: unknown; fetchedAt: Date } } = {
    load: async () => cache.kept,
    async save(jwks: JSONWebKeySet, fetchedAt: Date) {
      cache.kept = { jwks, fetchedAt }
    },
  }
  return cache
}

/** `timeoutMs` is waited for where a server hangs; elsewhere it must not be what a busy machine takes. */
function setUp(
  t: Pick<typeof tap, 'teardown'>,
  identity: TestIdentity,
  { cache = memoryCache(), timeoutMs = 60_000 }: { cache?: KeyCache; timeoutMs?: number } = {},
) {
  const clock = handClock()
  const keys = keySource({ url: identity.jwksUrl, cache, clock, log, timeoutMs })
  t.teardown(() => keys.stop())
  const verifier = verifierOf(tokenSettings(identity), { keys, clock: { now: () => new Date() } })
  const verify = (token: string) =>
    verifyToken(token, verifier).then(
      () => 'ok',
      (error: { code: string }) => error.code,
    )
  return { keys, clock, cache, verify }
}

tap.test('one fetch serves everybody, and the next ones need none', async (t) => {
  const identity = await startTestIdentity(t)
  const { verify } = setUp(t, identity)
  const tokens = await Promise.all(Array.from({ length: 50 }, () => identity.token()))
  t.strictSame(new Set(await Promise.all(tokens.map(verify))), new Set(['ok']))
  t.equal(identity.fetches(), 1)
})

tap.test('unknown keys are looked for once in thirty seconds, however many ask', async (t) => {
  const identity = await startTestIdentity(t)
  const { verify, clock, keys } = setUp(t, identity)
  await keys.start()
  t.equal(identity.fetches(), 1)
  const forged = await identity.token({ header: { kid: 'unheard-of' } })
  const all = await Promise.all(Array.from({ length: 200 }, () => verify(forged)))
  t.strictSame(new Set(all), new Set(['UNAUTHORIZED']))
  t.equal(identity.fetches(), 2)
  for (let i = 0; i < 20; i++) await verify(forged)
  t.equal(identity.fetches(), 2)
  clock.pass(31_000)
  t.equal(await verify(forged), 'UNAUTHORIZED')
  t.equal(identity.fetches(), 3)
})

tap.test(
  'a new key is found by the first token that names it; an old one is good until it is taken away',
  async (t) => {
    const identity = await startTestIdentity(t)
    const { verify, clock, keys } = setUp(t, identity)
    await keys.start()
    const old = await identity.token()
    for (let times = 0; times < 3; times++) {
      await identity.rotate()
      t.equal(await verify(await identity.token()), 'ok', 'at once, however soon after the last one')
    }
    t.equal(await verify(old), 'ok')
    await identity.rotate(false)
    clock.pass(31_000)
    t.equal(await verify(await identity.token()), 'ok')
    t.equal(await verify(old), 'UNAUTHORIZED', 'its key was withdrawn')
  },
)

const away: KeyServerMode[] = ['down', 'hang', 'garbage', 'empty', 'huge']
for (const mode of away) {
  tap.test(
    `a key server that is "${mode}" signs nobody out for a day, and then is a 503 and never a 401`,
    async (t) => {
      const identity = await startTestIdentity(t)
      const { verify, clock, keys } = setUp(t, identity, mode === 'hang' ? { timeoutMs: 2000 } : {})
      await keys.start()
      identity.mode(mode)
      clock.pass(23 * 60 * MINUTE)
      t.equal(await verify(await identity.token()), 'ok')
      t.equal(keys.ageSeconds(), 23 * 3600)
      t.equal(await verify(await identity.token({ header: { kid: 'perhaps new' } })), 'AUTH_UNAVAILABLE')
      clock.pass(61 * MINUTE)
      t.equal(await verify(await identity.token()), 'AUTH_UNAVAILABLE')
      await t.rejects(keys.published(), { code: 'AUTH_UNAVAILABLE', retryAfter: 5 })
      const before = identity.fetches()
      await Promise.all(Array.from({ length: 20 }, async () => verify(await identity.token())))
      t.ok(identity.fetches() - before <= 1, 'and is not asked for every request')
      identity.mode('up')
      clock.pass(3000)
      t.equal(await verify(await identity.token()), 'ok')
      t.equal(keys.ageSeconds(), 0)
    },
  )
}

tap.test('a cold start without the key server uses the kept keys, for their day', async (t) => {
  const identity = await startTestIdentity(t)
  const first = setUp(t, identity)
  await first.keys.start()
  identity.mode('down')
  const second = setUp(t, identity, { cache: first.cache })
  await second.keys.start()
  t.equal(await second.verify(await identity.token()), 'ok')
  second.clock.pass(24 * 60 * MINUTE)
  t.equal(await second.verify(await identity.token()), 'AUTH_UNAVAILABLE')
})

tap.test('starts without anything, also when the cache is broken', async (t) => {
  const identity = await startTestIdentity(t)
  identity.mode('down')
  const broken = { load: () => Promise.reject(new Error('no database')), save: () => Promise.reject(new Error('no')) }
  const { keys, verify, clock } = setUp(t, identity, { cache: broken })
  await keys.start()
  t.equal(keys.ageSeconds(), undefined)
  t.equal(await verify(await identity.token()), 'AUTH_UNAVAILABLE')
  identity.mode('up')
  clock.pass(3000)
  t.equal(await verify(await identity.token()), 'ok')
})

tap.test('publishes the public members of the keys that sign, and nothing else', async (t) => {
  const identity = await startTestIdentity(t)
  const { keys } = setUp(t, identity)
  const { keys: published } = await keys.published()
  t.equal(published.length, 1)
  t.strictSame(Object.keys(published[0] ?? {}).sort(), ['alg', 'e', 'kid', 'kty', 'n', 'use'])
})
