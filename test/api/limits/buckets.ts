import t from 'tap'
import { openBuckets } from '../../../api/limits/buckets.ts'
import { openSlots, openSlotsByKey } from '../../../api/limits/slots.ts'

const limit = { quota: 60, seconds: 60, burst: 2, per: 'address' } as const

t.test('each key has a bucket of its own', async (t) => {
  const buckets = openBuckets(limit, () => 0)
  t.strictSame(
    ['a', 'a', 'b', 'a'].map((key) => buckets.take(key).retryAfterMs),
    [0, 0, 0, 1000],
  )
})

t.test('a flood of keys is forgotten oldest first, and never those that are being refused', async (t) => {
  const buckets = openBuckets(limit, () => 0, 100)
  for (let i = 0; i < 3; i++) buckets.take('impatient')
  for (let i = 0; i < 10_000; i++) {
    buckets.take(`address ${i}`)
    if (i % 50 === 0) t.equal(buckets.take('impatient').remaining, 0)
  }
  t.equal(buckets.size(), 100)
  t.not(buckets.take('impatient').retryAfterMs, 0)
})

t.test('full buckets are forgotten as others are used', async (t) => {
  let now = 0
  const buckets = openBuckets(limit, () => now)
  for (let i = 0; i < 1000; i++) buckets.take(`address ${i}`)
  t.equal(buckets.size(), 1000)
  now = 60_000
  for (let i = 0; i < 1000; i++) buckets.take('one')
  t.equal(buckets.size(), 1)
})

t.test('slots are given back once, however often that is said', async (t) => {
  const slots = openSlots(2)
  const leave = slots.enter()
  slots.enter()
  t.equal(slots.enter(), undefined)
  leave?.()
  leave?.()
  t.equal(slots.taken(), 1)
  t.ok(slots.enter())
  t.equal(slots.enter(), undefined)
})

t.test('slots by key remember nobody who holds none', async (t) => {
  const slots = openSlotsByKey(1)
  t.equal(slots.size(), 0)
  const leave = slots.enter('a')
  t.equal(slots.enter('a'), undefined)
  const other = slots.enter('b')
  t.equal(slots.size(), 2)
  leave?.()
  other?.()
  t.equal(slots.size(), 0)
  t.ok(slots.enter('a'))
})
