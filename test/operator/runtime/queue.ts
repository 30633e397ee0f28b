import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { TokenBucket } from '../../../lib/runtime/token-bucket.ts'
import { PRIORITY, WorkQueue } from '../../../operator/runtime/queue.ts'

const drain = async (queue: WorkQueue) => {
  const keys: string[] = []
  while (queue.length > 0) {
    const work = await queue.take()
    if (!work) break
    keys.push(work.key)
    queue.done(work.key)
  }
  return keys
}

t.test('ten changes of one object are one entry', async (t) => {
  const queue = new WorkQueue()
  for (let i = 0; i < 10; i++) queue.add('a')
  queue.add('b')
  t.strictSame(await drain(queue), ['a', 'b'])
})

t.test('one that is added while it is worked on comes back once, when that is done', async (t) => {
  const queue = new WorkQueue()
  queue.add('a')
  await queue.take()
  queue.add('a')
  queue.add('a')
  t.equal(queue.length, 0, 'not to a second worker')
  queue.done('a')
  t.strictSame(await drain(queue), ['a'])
  queue.done('a')
  t.equal(queue.length, 0)
})

t.test('the urgent come first, and the higher of two priorities counts', async (t) => {
  const queue = new WorkQueue()
  for (const key of ['old1', 'old2']) queue.add(key, { priority: PRIORITY.initial })
  queue.add('now')
  queue.add('old2')
  queue.add('now', { priority: PRIORITY.initial })
  t.strictSame(await drain(queue), ['now', 'old2', 'old1'])
})

t.test('a worker that waits gets the next key at once; closing sends everybody home', async (t) => {
  const queue = new WorkQueue()
  const [first, second] = [queue.take(), queue.take()]
  queue.add('a')
  t.strictSame(await first, { key: 'a', priority: 0 })
  queue.close()
  t.equal(await second, undefined)
  queue.add('b')
  t.equal(queue.length, 0, 'nothing more is accepted')
  t.equal(await queue.take(), undefined)
})

t.test('later means later, and the earlier of two times wins', async (t) => {
  const queue = new WorkQueue()
  const startedAt = performance.now()
  // The other two times would outlast this test.
  queue.add('a', { afterMs: 7_200_000 })
  queue.add('a', { afterMs: 20 })
  queue.add('a', { afterMs: 3_600_000 })
  t.equal(queue.length, 0)
  t.match(await queue.take(), { key: 'a' })
  const waited = performance.now() - startedAt
  t.ok(waited >= 15, `${waited} ms`)
  queue.close()
})

t.test('each failure doubles the wait up to the limit, until the key is forgotten', async (t) => {
  // A clock that stands still, so that the timers say how long each wait should be; how long it is depends on the machine.
  const waits: (number | undefined)[] = []
  const timers = t.capture(globalThis, 'setTimeout', (done: () => void, ms?: number) => {
    waits.push(ms)
    return setImmediate(done)
  })
  const still = new WorkQueue({ minBackoffMs: 20, maxBackoffMs: 80, now: () => 0 })
  const failOnce = async () => {
    still.addRateLimited('a')
    await still.take()
    still.done('a')
  }
  for (let i = 0; i < 4; i++) await failOnce()
  still.forget('a')
  await failOnce()
  timers.restore()
  t.strictSame(waits, [20, 40, 80, 80, 20])
  const queue = new WorkQueue({ minBackoffMs: 20, maxBackoffMs: 80 })
  const startedAt = performance.now()
  queue.addRateLimited('b', { atLeastMs: 100 })
  await queue.take()
  t.ok(performance.now() - startedAt >= 95, 'never before what the server asked for')
})

t.test('all retries together are held to a rate', async (t) => {
  const retries = new TokenBucket({ perSecond: 50, burst: 2 })
  const queue = new WorkQueue({ minBackoffMs: 1, retries })
  const startedAt = performance.now()
  for (let i = 0; i < 6; i++) queue.addRateLimited(`k${i}`)
  for (let i = 0; i < 6; i++) await queue.take()
  t.ok(performance.now() - startedAt >= 75, 'two at once, four more at 50 a second')
})

t.test('what happens is told, with priorities and times', async (t) => {
  const told: string[] = []
  const watcher = {
    added: (p: number) => void told.push(`added ${p}`),
    depth: (p: number, n: number) => void told.push(`depth ${p} ${n}`),
    started: () => void told.push('started'),
    finished: (s: number) => void told.push(`finished ${s > 0.015}`),
    retried: () => void told.push('retried'),
  }
  const queue = new WorkQueue({ watcher, minBackoffMs: 1 })
  queue.add('a')
  await queue.take()
  t.equal(queue.unfinished().length, 1)
  await sleep(20)
  queue.addRateLimited('a')
  queue.done('a')
  queue.close()
  t.strictSame(told, ['added 0', 'depth 0 1', 'depth 0 0', 'started', 'retried', 'finished true'])
})

t.test('a bucket hands out what has refilled, in order', async (t) => {
  let now = 0
  const bucket = new TokenBucket({ perSecond: 10, burst: 2, now: () => now })
  t.strictSame([bucket.reserve(), bucket.reserve(), bucket.reserve(), bucket.reserve()], [0, 0, 100, 200])
  t.notOk(bucket.tryTake())
  now = 350
  t.ok(bucket.tryTake())
  t.notOk(bucket.tryTake())
  now = 10_000
  t.strictSame([bucket.reserve(), bucket.reserve(), bucket.reserve()], [0, 0, 100], 'never more than the burst')
})
