import t from 'tap'
import { imageBombs } from '../../support/image-bombs.ts'
import { transcodeBench } from '../../support/transcode-run.ts'
import { watchMemory } from '../../support/tree-memory.ts'

/** Files of a few kilobytes or megabytes that would cost a naive reader gigabytes or hours. */

const MEMORY = 512 * 1024 ** 2

t.test('each bomb is refused or converted, for a stable reason and within the memory of a job', async (t) => {
  const bench = await transcodeBench(t)
  const bombs = Object.entries(await imageBombs())
  const inputs = await bench.imagesOf(Object.fromEntries(bombs.map(([id, [bytes]]) => [id, bytes])))
  const job = bench.start(inputs)
  const peak = watchMemory(job.process.pid ?? 0, 20)
  const { result } = await job.finished
  t.strictSame(
    Object.fromEntries(result?.outputs?.map((o) => [o.id, o.reason ?? null]) ?? []),
    Object.fromEntries(bombs.map(([id, [, reason]]) => [id, reason])),
    'reasons',
  )
  const { held } = peak()
  t.ok(held > 0 && held < MEMORY, `${held / 1024 ** 2} MiB`)
  t.strictSame(await bench.leftovers(), [])
})
