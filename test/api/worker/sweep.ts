import t from 'tap'
import { type SweepTask, startSweep } from '../../../api/worker/sweep.ts'
import { quietLog } from '../../support/quiet-log.ts'

/** Sweeps so often, and returns which tasks ran in each. */
async function sweeps(times: number, tasks: (ran: string[]) => SweepTask[]): Promise<string[][]> {
  const all: string[][] = []
  const ran: string[] = []
  let successes = 0
  const enough = Promise.withResolvers<void>()
  const end: SweepTask = {
    name: 'end',
    run: async () => {
      all.push(ran.splice(0))
      if (all.length === times) enough.resolve()
    },
  }
  const loop = startSweep({
    log: quietLog(),
    tasks: [...tasks(ran), end],
    sweepSeconds: 0.001,
    idleSeconds: 0,
    synced: Promise.resolve(),
    onSwept: () => {
      successes += 1
    },
  })
  await enough.promise
  await loop.stop()
  return [...all.slice(0, times), [String(successes > 0)]]
}

t.test('what must come first does, and where it fails nothing of that sweep purges', async (t) => {
  let looks = 0
  const ran = await sweeps(2, (ran) => [
    { name: 'repair', run: async () => void ran.push('repair') },
    { name: 'purge', order: 'purges', run: async () => void ran.push('purge') },
    {
      name: 'policies',
      order: 'first',
      async run() {
        ran.push('policies')
        looks += 1
        if (looks === 1) throw new Error('no answer')
      },
    },
    { name: 'more', order: 'purges', run: async () => void ran.push('more') },
  ])
  t.strictSame(ran.slice(0, 2), [
    ['policies', 'repair'],
    ['policies', 'repair', 'purge', 'more'],
  ])
})

t.test('another task that fails keeps none from running, and the sweep does not count as a success', async (t) => {
  const ran = await sweeps(1, (ran) => [
    { name: 'policies', order: 'first', run: async () => void ran.push('policies') },
    { name: 'repair', run: async () => Promise.reject(new Error('no answer')) },
    { name: 'purge', order: 'purges', run: async () => void ran.push('purge') },
  ])
  t.strictSame(ran, [['policies', 'purge'], ['false']])
})
