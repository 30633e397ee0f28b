import t from 'tap'
import type { RetentionPolicyStatus } from '../../../crds/retention-policy.ts'
import { follow, lastSlot } from '../../../operator/retention-policy/due.ts'

const now = new Date('2026-11-26T12:00:00.000Z')
const createdAt = '2026-11-20T00:00:00Z'
const schedule = '0 3 * * *'
const seen: RetentionPolicyStatus = { observedGeneration: 1, schedule, scheduledSince: '2026-11-21T00:00:00.000Z' }

const SINCE: [what: string, status: RetentionPolicyStatus | undefined, since: string][] = [
  ['a policy that nobody has seen, since its creation', undefined, '2026-11-20T00:00:00.000Z'],
  ['one that is followed, as before', seen, '2026-11-21T00:00:00.000Z'],
  ['another schedule, from now on', { ...seen, schedule: '0 4 * * *' }, now.toISOString()],
  ['one that goes on after a suspension, from now on', { observedGeneration: 2 }, now.toISOString()],
  ['a clock that is a little ahead', { ...seen, scheduledSince: '2026-11-26T12:59:00Z' }, '2026-11-26T12:59:00Z'],
  ['a beginning in a century', { ...seen, scheduledSince: '2126-01-01T00:00:00Z' }, now.toISOString()],
  ['a run in a century', { ...seen, lastScheduleTime: '2126-01-01T00:00:00Z' }, now.toISOString()],
]

t.test('since when slots count', async (t) => {
  for (const [what, status, scheduledSince] of SINCE) {
    t.strictSame(follow({ status, schedule, createdAt, now }), { schedule, scheduledSince }, what)
  }
  const future = { status: undefined, schedule, createdAt: '2026-11-26T12:00:05Z', now }
  t.match(follow(future), { scheduledSince: now.toISOString() }, 'the clock of the API server is ahead')
})

t.test('the slot of the last run counts unless a clock that was ahead wrote it', async (t) => {
  const slot = '2026-11-26T12:30:00.000Z'
  t.equal(lastSlot({ ...seen, lastScheduleTime: slot }, now), slot)
  t.equal(lastSlot({ ...seen, lastScheduleTime: '2126-01-01T00:00:00.000Z' }, now), undefined)
})
