import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { databaseShares, documentShares, MAX_WAIT_MS } from '../../../api/limits/capacity.ts'
import { type Leave, mayTake, openShares, type ShareRules } from '../../../api/limits/shares.ts'

const RULES: ShareRules = { total: 5, perCaller: 3, reserve: 1, waiting: 2, waitMs: 60_000 }

t.test('a caller may take its share, and the last ones only while it holds none', (t) => {
  t.ok(mayTake(RULES, { held: 2, taken: 2 }))
  t.notOk(mayTake(RULES, { held: 3, taken: 3 }), 'it has its share')
  t.notOk(mayTake(RULES, { held: 1, taken: 4 }), 'the last one is reserved')
  t.ok(mayTake(RULES, { held: 0, taken: 4 }))
  t.notOk(mayTake(RULES, { held: 0, taken: 5 }))
  t.end()
})

/** Enters, and notes the name when the turn comes. */
function stage(rules: Partial<ShareRules> = {}) {
  const shares = openShares({ ...RULES, ...rules })
  const order: string[] = []
  const leaves: Leave[] = []
  const enter = async (caller: string, name = caller, isPatient = false) => {
    const leave = await shares.enter(caller, { isPatient })
    order.push(name)
    leaves.push(leave)
  }
  const free = async (index: number) => {
    leaves[index]?.()
    // The turn of the next one comes in later microtasks.
    await new Promise(setImmediate)
  }
  return { shares, order, enter, free }
}

t.test('more requests of a caller wait in their order; with the queue full they are refused', async (t) => {
  const { shares, order, enter, free } = stage()
  for (const name of ['a1', 'a2', 'a3']) await enter('a', name)
  const waiting = [enter('a', 'a4'), enter('a', 'a5')]
  await t.rejects(enter('a', 'a6'), { code: 'RATE_LIMITED', retryAfter: 1 })
  t.equal(shares.taken(), 3)
  await enter('b')
  t.strictSame(order, ['a1', 'a2', 'a3', 'b'], 'another caller waits for none of them')
  await free(0)
  await free(0)
  t.strictSame(order.slice(4), ['a4'], 'a slot is given back once')
  await free(1)
  await Promise.all(waiting)
  t.strictSame(order.slice(4), ['a4', 'a5'])
})

t.test('the next turn is of the caller that holds least', async (t) => {
  const { order, enter, free } = stage({ total: 3, reserve: 0 })
  for (const name of ['a1', 'a2', 'a3']) await enter('a', name)
  const waiting = [enter('a', 'a4'), enter('b', 'b1'), enter('b', 'b2'), enter('c', 'c1')]
  for (const index of [0, 1, 2, 3]) await free(index)
  await Promise.all(waiting)
  t.strictSame(order.slice(3), ['b1', 'c1', 'a4', 'b2'])
})

t.test('one that waits too long is refused, and told whose the slots are', async (t) => {
  const { shares, enter } = stage({ waitMs: 10, total: 4, reserve: 0 })
  for (const name of ['a1', 'a2', 'a3']) await enter('a', name)
  await t.rejects(enter('a'), { code: 'RATE_LIMITED', retryAfter: 1 }, 'its own')
  await enter('b')
  await t.rejects(enter('c'), { code: 'SERVICE_UNAVAILABLE', retryAfter: 5 }, 'those of others')
  t.equal(shares.taken(), 4)
})

t.test('a request that has begun is carried through: first in the queue, and never refused', async (t) => {
  const { order, enter, free } = stage({ waiting: 1 })
  for (const name of ['a1', 'a2', 'a3']) await enter('a', name)
  const waiting = [enter('a', 'a4'), enter('a', 'begun', true), enter('a', 'begun too', true)]
  await t.rejects(enter('a'), { code: 'RATE_LIMITED' })
  for (const index of [0, 1, 2]) await free(index)
  await Promise.all(waiting)
  t.strictSame(order.slice(3), ['begun', 'begun too', 'a4'])
})

t.test('and it waits as long as it takes', async (t) => {
  const { order, enter, free } = stage({ waitMs: 0, waiting: 1 })
  for (const name of ['a1', 'a2', 'a3']) await enter('a', name)
  const begun = enter('a', 'begun', true)
  await t.rejects(
    enter('b').then(() => enter('a')),
    { code: 'RATE_LIMITED' },
  )
  await free(0)
  await begun
  t.strictSame(order.slice(3), ['b', 'begun'])
})

t.test('so does every request while the limits are switched off, in its own queue', async (t) => {
  for (const rules of [documentShares(0), databaseShares(10, 0)]) {
    const { shares, order, enter, free } = stage(rules)
    for (let n = 0; n < rules.perCaller; n++) await enter('a', 'first')
    const waiting = Array.from({ length: 1000 }, () => enter('a', 'later'))
    // A timer of Infinity ends after a millisecond.
    await sleep(20)
    t.type(shares.enter('b'), 'function', 'another caller waits for none of them')
    for (let n = 0; n < rules.perCaller + waiting.length; n++) await free(n)
    await Promise.all(waiting)
    t.equal(order.length, rules.perCaller + waiting.length)
    t.equal(shares.taken(), 1, 'of the other caller')
  }
  for (const rules of [documentShares(1), databaseShares(10, 1)]) t.equal(rules.waitMs, MAX_WAIT_MS)
  t.equal(databaseShares(10, 0).waitMs, Number.POSITIVE_INFINITY)
})
