import t from 'tap'
import { MAX_DEATHS, shareOf, WINDOW_MS, waitAfter } from '../../../api/processes/plan.ts'

t.test('a process that dies is replaced ever later, and after too many deaths not at all', async (t) => {
  const deaths: number[] = []
  const waits: (number | undefined)[] = []
  for (let n = 0; n <= MAX_DEATHS; n++) {
    deaths.push(n * 1000)
    waits.push(waitAfter(deaths, n * 1000))
  }
  t.strictSame(waits, [250, 500, 1000, 2000, 4000, undefined])
})

t.test('deaths of long ago do not count', async (t) => {
  const rare = Array.from({ length: 100 }, (_, n) => n * WINDOW_MS)
  t.equal(waitAfter(rare, rare.at(-1) ?? 0), 250)
})

t.test('processes share what the settings give to the replica', async (t) => {
  const settings = { DATABASE_CONNECTIONS: 10, MAX_BODIES: 128, MAX_EVENT_STREAMS: 2000, LOG_LEVEL: 'info' }
  const of = (processes: number) => Object.values(shareOf(settings, processes))
  t.strictSame(of(1), Object.values(settings))
  t.strictSame(of(2), [5, 64, 1000, 'info'])
  t.strictSame(of(3), [3, 42, 666, 'info'], 'never more in all than one process would take')
  t.strictSame(of(64), [1, 2, 31, 'info'])
})
