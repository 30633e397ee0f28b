import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { backoffSeconds } from '../../../api/worker/backoff.ts'
import { type KeyedQueueOptions, keyedQueue } from '../../../api/worker/keyed-queue.ts'
import { eventually } from '../../support/eventually.ts'

function diary(options: Partial<KeyedQueueOptions> = {}) {
  const seen: string[] = []
  const busy = new Set<string>()
  const trouble: string[] = []
  let most = 0
  const queue = keyedQueue({
    concurrency: 2,
    backoffMs: () => 1,
    onError: (_, key, attempt) => trouble.push(`${key} ${attempt}`),
    async look(key) {
      if (busy.has(key)) throw new Error('twice at once')
      busy.add(key)
      most = Math.max(most, busy.size)
      await sleep(5)
      busy.delete(key)
      seen.push(key)
      return undefined
    },
    ...options,
  })
  return { queue, seen, trouble, most: () => most }
}

t.test('ten changes of a key that waits are one look', async (t) => {
  const d = diary({ concurrency: 1 })
  d.queue.add('first')
  for (let i = 0; i < 10; i++) d.queue.add('a')
  await eventually('an empty queue', () => d.queue.size() === 0)
  t.strictSame(d.seen, ['first', 'a'])
})

t.test('a change during a look is looked at afterwards, never at the same time', async (t) => {
  const d = diary()
  d.queue.add('a')
  d.queue.add('a')
  d.queue.add('a')
  await eventually('an empty queue', () => d.queue.size() === 0)
  t.strictSame(d.seen, ['a', 'a'])
  t.strictSame(d.trouble, [])
})

t.test('no more keys than allowed are looked at together', async (t) => {
  const d = diary()
  for (const key of 'abcdefgh') d.queue.add(key)
  await eventually('an empty queue', () => d.queue.size() === 0)
  t.equal(d.seen.length, 8)
  t.equal(d.most(), 2)
})

t.test('a failure comes back, counted, and does not hold up others', async (t) => {
  const seen: string[] = []
  const d = diary({
    async look(key) {
      if (key === 'bad' && d.trouble.length < 2) throw new Error('not now')
      seen.push(key)
      return undefined
    },
  })
  d.queue.add('bad')
  d.queue.add('good')
  await eventually('an empty queue', () => d.queue.size() === 0)
  t.strictSame(seen, ['good', 'bad'])
  t.strictSame(d.trouble, ['bad 1', 'bad 2'])
})

t.test('a look may ask for another one later', async (t) => {
  let looks = 0
  const d = diary({ look: async () => (++looks < 3 ? { againAfterMs: 1 } : undefined) })
  d.queue.add('a')
  await eventually('an empty queue', () => d.queue.size() === 0)
  t.equal(looks, 3)
})

t.test('stopping waits for what is being looked at and forgets the rest', async (t) => {
  const d = diary({ concurrency: 1 })
  for (const key of 'abc') d.queue.add(key)
  await d.queue.stop()
  d.queue.add('d')
  await sleep(20)
  t.strictSame(d.seen, ['a'])
})

t.test('waits double and end at five minutes', async (t) => {
  t.strictSame(
    [1, 2, 3, 9, 10, 1000].map((n) => backoffSeconds(n, 1)),
    [1, 2, 4, 256, 300, 300],
  )
  t.ok(backoffSeconds(1, 0) > 0.7)
})
