import t from 'tap'
import {
  exitOf,
  needsColdTier,
  nextAtOnce,
  reasonOf,
  refusalPauseMs,
  shareOf,
} from '../../../../api/features/retention/plan.ts'
import { policiesInForce } from '../../../../api/features/retention/policy-plan.ts'
import { isConfirmed, judgeAmount, judgeClocks, MAX_SKEW_MS } from '../../../../api/retention/guard-plan.ts'
import { aRun } from '../../../support/retention.ts'

t.test('clocks may differ by an hour in either direction', async (t) => {
  for (const sign of [1, -1]) {
    t.equal(judgeClocks(1e12 + sign * MAX_SKEW_MS, 1e12), undefined)
    t.match(judgeClocks(1e12 + sign * (MAX_SKEW_MS + 1), 1e12), { ended: 'ClockSkew', reason: /60 minutes/ })
  }
})

const of = {
  what: 'run' as const,
  daysSinceLast: 1,
  due: 1,
  held: 0,
  few: 1000,
  total: 10_000,
  maxDuePercent: 20,
  confirmed: false,
}
for (const [what, change, asks] of [
  ['a usual day', { due: 100 }, false],
  ['the first run of all', { daysSinceLast: null, due: 900 }, false],
  ['a month after the last run, by a pod that started later', { daysSinceLast: 31.1 }, false],
  ['more than a month and a day after it', { daysSinceLast: 32.1 }, true],
  ['a year after it, with nothing due', { daysSinceLast: 365, due: 0 }, false],
  ['a year after it, with nothing due but what is held', { daysSinceLast: 365, due: 0, held: 1 }, true],
  ['the same, confirmed', { daysSinceLast: 36_500, due: 10_000, confirmed: true }, false],
  ['a clock that went back', { daysSinceLast: -400 }, false],
  ['a thousand of a thousand', { due: 1000, total: 1000 }, false],
  ['one more', { due: 1001, total: 1001 }, true],
  ['a few of a few', { due: 11, few: 10, total: 11 }, true],
  ['exactly the share', { due: 2000 }, false],
  ['more than the share', { due: 2001 }, true],
  ['more than the share, but for what an admitted run has left', { due: 2001, admitted: 1 }, false],
  ['more than the share beside it', { due: 3001, admitted: 1000 }, true],
  ['what an admitted run has left, a month later', { due: 2001, admitted: 2001, daysSinceLast: 33 }, true],
  ['more than the share, confirmed', { due: 10_000, confirmed: true }, false],
  ['a share of all', { due: 10_000, maxDuePercent: 100 }, false],
  ['as many as were confirmed', { due: 5000, confirmed: true, confirmedDue: 5000 }, false],
  ['a fifth more', { due: 6000, confirmed: true, confirmedDue: 5000 }, false],
  ['more than a fifth more', { due: 6001, confirmed: true, confirmedDue: 5000 }, true],
  ['many fewer', { due: 1, confirmed: true, confirmedDue: 5000, daysSinceLast: 400 }, false],
  ['what an hour adds to one', { due: 11, confirmed: true, confirmedDue: 1 }, false],
  ['more than that, though it is less than a share', { due: 12, confirmed: true, confirmedDue: 1 }, true],
  ['one event more than was confirmed', { due: 3, few: 10, confirmed: true, confirmedDue: 2 }, false],
  ['two events more', { due: 4, few: 10, confirmed: true, confirmedDue: 2 }, true],
  [
    'nothing, when nothing but what is held was confirmed',
    { due: 0, held: 2, confirmed: true, confirmedDue: 0 },
    false,
  ],
  ['what was held then', { due: 12, confirmed: true, confirmedDue: 0 }, true],
] as const) {
  t.test(`${what}: ${asks ? 'asks for a confirmation' : 'begins'}`, async (t) => {
    t.equal(judgeAmount({ ...of, ...change })?.ended, asks ? 'ConfirmationRequired' : undefined)
  })
}

t.test('a process that was stopped has not succeeded, so that its Job goes on', async (t) => {
  const told = { aborted: true }
  t.equal(exitOf({ ended: 'Stopped' }, told), 143)
  t.equal(exitOf({ ended: 'Stopped' }, { aborted: false }), 20, 'it hangs')
  for (const ended of ['Finished', 'WindowClosed', 'ConfirmationRequired', 'ClockSkew', 'StoreUnavailable'] as const) {
    t.equal(exitOf({ ended }, { aborted: false }), 0)
    t.equal(exitOf({ ended }, told), 0, 'the run is over')
  }
})

t.test('words about a run name what the figures do not say', async (t) => {
  t.equal(reasonOf({ refusal: undefined, held: 0 }), undefined)
  t.equal(reasonOf({ refusal: undefined, held: 1 }), '1 due item is kept by legal holds')
  t.equal(reasonOf({ refusal: 'No', held: 2 }), 'No; 2 due items are kept by legal holds')
  t.equal(reasonOf({ refusal: 'x'.repeat(600), held: 2 })?.length, 512)
})

t.test('pauses after refusals grow up to a minute, and processes share the bytes', async (t) => {
  t.strictSame([1, 2, 6, 7, 19].map(refusalPauseMs), [1000, 2000, 32_000, 60_000, 60_000])
  t.equal(shareOf(aRun('Uploads')), undefined)
  t.equal(shareOf(aRun('Uploads', { bytesPerSecond: 1000, parallelism: 4 })), 250)
})

t.test(
  'a store that asks for fewer requests gets half as many, and one more after each batch that it accepts',
  async (t) => {
    t.strictSame(
      [4, 3, 2, 1].map((atOnce) => nextAtOnce(atOnce, true)),
      [2, 1, 1, 1],
    )
    t.strictSame(
      [1, 2, 3, 4].map((atOnce) => nextAtOnce(atOnce, false)),
      [2, 3, 4, 4],
    )
  },
)

t.test('only what goes into the cold class needs the cold tier', async (t) => {
  const move = (tier: 'warm' | 'cold') => ({ after: 'P90D', action: 'moveToTier' as const, tier })
  const purge = { after: 'P7Y', action: 'purge' as const }
  t.notOk(needsColdTier({ rules: [purge] }))
  t.notOk(needsColdTier({ rules: [move('warm'), purge] }))
  t.ok(needsColdTier({ rules: [move('warm'), { ...move('cold'), after: 'P2Y' }, purge] }))
})

t.test('a sweep goes on with about as many as were confirmed, and within a month by any clock', async (t) => {
  for (const [due, days, is] of [
    [1000, 0, true],
    [1200, 32, true],
    [1201, 0, false],
    [1, 32.1, false],
    [1, -32.1, false],
  ] as const) {
    t.equal(isConfirmed({ due: 1000, days }, due), is, `${due} ${days}`)
  }
  t.notOk(isConfirmed(undefined, 0))
})

const policy = (name: string, target: unknown, at: string, spec: object = {}) => ({
  metadata: { name, uid: name, creationTimestamp: at },
  spec: { target, rules: [{ after: 'P30D', action: 'purge' }], ...spec },
})
const [EARLY, LATE] = ['2026-01-01T00:00:00Z', '2026-01-01T00:00:01Z']

t.test('of two policies for one target the older is in force, then the first by name', async (t) => {
  const seen = policiesInForce([
    policy('a', 'Uploads', LATE),
    policy('b', 'Uploads', EARLY, { suspend: true }),
    policy('d', 'MediaTrash', EARLY),
    policy('c', 'MediaTrash', EARLY, { dryRun: true }),
  ])
  t.match(seen.inForce, [
    { target: 'MediaTrash', name: 'c', dryRun: true, suspended: false, purgeAfter: 'P30D' },
    { target: 'Uploads', name: 'b', suspended: true },
  ])
  t.match(seen, { unread: [], strange: [], isPartial: false })
})

t.test('a policy without a rule that purges has no time after which it does', async (t) => {
  const rules = [{ after: 'P90D', action: 'moveToTier', tier: 'warm' }]
  t.match(policiesInForce([policy('a', 'AuditLog', EARLY, { rules })]).inForce, [{ purgeAfter: null }])
})

t.test('a policy that cannot be read is in force, and hides no other', async (t) => {
  const rules = [{ after: 'P1D', action: 'archive' }]
  const seen = policiesInForce([
    policy('a', 'Uploads', EARLY, { rules }),
    policy('b', 'Uploads', LATE),
    policy('c', 'MediaTrash', LATE, { rules }),
    policy('d', 'MediaTrash', EARLY),
    policy('e', 'Chronicles', EARLY),
  ])
  t.match(seen.unread, [{ target: 'Uploads', name: 'a', uid: 'a' }])
  t.match(seen.inForce, [{ target: 'MediaTrash', name: 'd' }])
  t.match(seen, { strange: ['a', 'c', 'e'], isPartial: false })
  t.ok(policiesInForce([policy('f', undefined, EARLY)]).isPartial)
})
