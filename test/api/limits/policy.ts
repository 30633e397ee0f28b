import t from 'tap'
import { LIMIT_CLASSES } from '../../../api/limits/classes.ts'
import { policyHeader, secondsUntil, standingHeader } from '../../../api/limits/headers.ts'
import { type ScaledLimit, scaled, stricter, takeToken } from '../../../api/limits/policy.ts'
import { countedAddress } from '../../../lib/contract/counted-address.ts'

const TEN_A_SECOND: ScaledLimit = { quota: 600, seconds: 60, burst: 60, per: 'caller' }

/** Takes `times` tokens at one moment and says how many were let through. */
function takeMany(limit: ScaledLimit, times: number, now: number, before?: number) {
  let fullAt = before
  let passed = 0
  for (let i = 0; i < times; i++) {
    const taken = takeToken(limit, fullAt, now)
    fullAt = taken.fullAt
    if (taken.standing.retryAfterMs === 0) passed += 1
  }
  return { passed, fullAt }
}

t.test('a bucket lets its burst through at once and its quota after that', async (t) => {
  const first = takeMany(TEN_A_SECOND, 100, 0)
  t.equal(first.passed, 60)
  t.equal(takeMany(TEN_A_SECOND, 100, 99, first.fullAt).passed, 0, 'before a token has come')
  t.equal(takeMany(TEN_A_SECOND, 100, 100, first.fullAt).passed, 1)
  t.equal(takeMany(TEN_A_SECOND, 100, 3000, first.fullAt).passed, 30)
  t.equal(takeMany(TEN_A_SECOND, 100, 600_000, first.fullAt).passed, 60, 'never more than the burst')
})

t.test('refused requests cost nothing: who goes on asking is served as soon as who waited', async (t) => {
  const { fullAt } = takeMany(TEN_A_SECOND, 60, 0)
  const impatient = takeMany(TEN_A_SECOND, 1000, 50, fullAt)
  t.equal(takeMany(TEN_A_SECOND, 1, 100, impatient.fullAt).passed, 1)
})

t.test('says what is left, until when, and when to come back', async (t) => {
  t.strictSame(takeToken(TEN_A_SECOND, undefined, 5000), {
    standing: { retryAfterMs: 0, remaining: 59, resetMs: 100 },
    fullAt: 5100,
  })
  const empty = takeMany(TEN_A_SECOND, 60, 0).fullAt
  t.strictSame(takeToken(TEN_A_SECOND, empty, 30).standing, { retryAfterMs: 70, remaining: 0, resetMs: 5970 })
  t.strictSame(takeToken(TEN_A_SECOND, empty, 100).standing, { retryAfterMs: 0, remaining: 0, resetMs: 6000 })
})

t.test('every class lets exactly its burst through at once, also where numbers have fractions', async (t) => {
  for (const [name, { limits }] of Object.entries(LIMIT_CLASSES)) {
    for (const limit of Object.values(limits)) {
      for (const factor of [1, 0.5, 0.3, 7]) {
        const it = scaled(limit, factor)
        t.equal(takeMany(it, it.burst + 10, 1234.567).passed, it.burst, `${name} × ${factor}`)
      }
    }
  }
})

t.test('a factor multiplies quota and burst and never makes them nothing', async (t) => {
  const limit = { quota: 600, seconds: 60, burst: 60, per: 'caller' } as const
  t.match(scaled(limit, 0.5), { quota: 300, burst: 30, seconds: 60 })
  t.match(scaled(limit, 1e-9), { quota: 1, burst: 1 })
  t.match(scaled({ quota: 5, seconds: 60, per: 'account' }, 2), { quota: 10, burst: 10 }, 'the burst is the quota')
})

t.test('of two counts the one counts that leaves less', async (t) => {
  const standing = (retryAfterMs: number, remaining: number) => ({ retryAfterMs, remaining, resetMs: 0 })
  t.equal(stricter(standing(0, 3), standing(0, 2)).remaining, 2)
  t.equal(stricter(standing(0, 2), standing(0, 3)).remaining, 2)
  t.equal(stricter(standing(0, 9), standing(50, 0)).retryAfterMs, 50)
  t.equal(stricter(standing(50, 0), standing(0, 9)).retryAfterMs, 50)
})

const ADDRESSES: [given: string, counted: string][] = [
  ['203.0.113.7', '203.0.113.7'],
  ['203.0.113.7:51234', '203.0.113.7'],
  ['::ffff:203.0.113.7', '203.0.113.7'],
  ['::FFFF:cb00:7107', '203.0.113.7'],
  ['[::ffff:203.0.113.7]:443', '203.0.113.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:DB8:0001:2::9', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['[2001:db8::1]:443', '2001:db8:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['::', '0:0:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['64:ff9b::192.0.2.33', '64:ff9b:0:0::/64'],
  // Not addresses: each is counted as what it is.
  ['unknown', 'unknown'],
  ['1:2:3', '1:2:3'],
  ['1::2::3', '1::2::3'],
  ['1:2:3:4:5:6:7:8:9', '1:2:3:4:5:6:7:8:9'],
  ['12345::', '12345::'],
  ['::ffff:999.1.1.1', '::ffff:999.1.1.1'],
  ['', ''],
  ['x'.repeat(5000), 'x'.repeat(64)],
  [':'.repeat(5000), ':'.repeat(64)],
]
for (const [given, counted] of ADDRESSES) {
  t.test(`the address ${given.slice(0, 30)} counts as ${counted}`, async (t) => {
    t.equal(countedAddress(given), counted)
  })
}

t.test('headers are lists of structured fields', async (t) => {
  const { limits } = LIMIT_CLASSES.login
  const all = Object.fromEntries(Object.entries(limits).map(([name, limit]) => [name, scaled(limit, 1)]))
  t.equal(policyHeader(all), '"login-address-minute";q=120;w=60, "login";q=5;w=60, "login-hour";q=20;w=3600')
  t.equal(standingHeader('login', { retryAfterMs: 0, remaining: 4, resetMs: 11_001 }), '"login";r=4;t=12')
  t.strictSame([0, 1, 1000, 1001].map(secondsUntil), [1, 1, 1, 2])
})
