import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { ClusterError } from '../../../lib/runtime/kube/cluster.ts'
import { LatestWriter } from '../../../operator/runtime/latest-writer.ts'
import { eventually } from '../../support/eventually.ts'

function open(intervalMs: number, write?: (value: number) => Promise<void>) {
  const written: [number, number][] = []
  const dropped: unknown[] = []
  const startedAt = performance.now()
  const writer = new LatestWriter<number>({
    intervalMs,
    async write(_, value) {
      await write?.(value)
      written.push([value, performance.now() - startedAt])
    },
    onDropped: (_, error) => dropped.push(error),
  })
  return { writer, written, dropped, values: () => written.map(([value]) => value) }
}

t.test('the first value is written at once, the newest of the rest when the interval is over', async (t) => {
  const { writer, values, written } = open(60)
  for (let i = 1; i <= 9; i++) writer.put('a', i)
  await eventually('trailing write', () => written.length === 2)
  t.strictSame(values(), [1, 9])
  t.ok((written[1]?.[1] ?? 0) >= 55)
  await sleep(130)
  t.strictSame(values(), [1, 9], 'nothing is repeated')
  t.equal(writer.size, 0, 'and nothing is left behind')
  writer.put('a', 10)
  t.strictSame(values().length, 2)
  await sleep(1)
  t.strictSame(values(), [1, 9, 10], 'after a pause, the first again')
  await writer.close()
})

t.test('what is urgent does not wait, keys do not wait for each other', async (t) => {
  const { writer, values } = open(10_000)
  writer.put('a', 1)
  writer.put('a', 2)
  writer.put('b', 3)
  await sleep(5)
  writer.put('a', 4, { urgent: true })
  await sleep(5)
  t.strictSame(values(), [1, 3, 4])
  await writer.close()
})

t.test('two writes of one key never overlap, and the newest is always the last', async (t) => {
  let running = 0
  let overlaps = 0
  const { writer, values } = open(1, async () => {
    running += 1
    if (running > 1) overlaps += 1
    await sleep(10)
    running -= 1
  })
  for (let i = 1; i <= 30; i++) {
    writer.put('a', i, { urgent: i % 3 === 0 })
    await sleep(2)
  }
  await writer.close()
  t.equal(overlaps, 0)
  t.equal(values().at(-1), 30)
  t.strictSame(
    values(),
    [...values()].sort((a, b) => a - b),
  )
})

t.test('an outage is waited out, a refusal is not repeated', async (t) => {
  let failures = 2
  const { writer, values, dropped } = open(10, async (value) => {
    if (value === 13) throw new ClusterError('Conflict', 'another object now')
    if (failures-- > 0) throw new ClusterError('Unavailable', 'down')
  })
  writer.put('a', 1)
  await eventually('written', () => values().length === 1)
  writer.put('b', 13)
  await eventually('dropped', () => dropped.length === 1)
  await sleep(30)
  t.strictSame(values(), [1])
  t.equal(dropped.length, 1)
  await writer.close()
})

t.test('closing writes what was waiting; forgetting does not', async (t) => {
  const { writer, values } = open(10_000)
  for (const key of ['a', 'b']) writer.put(key, 1)
  await sleep(5)
  for (const key of ['a', 'b']) writer.put(key, 2)
  writer.forget('b')
  await writer.close()
  t.strictSame(values(), [1, 1, 2])
  writer.put('a', 3)
  await sleep(5)
  t.strictSame(values(), [1, 1, 2])
})
