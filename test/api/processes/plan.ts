import t from 'tap'
import {
  hangs,
  heapOf,
  isClean,
  MAX_DEATHS,
  MIN_HEAP_MIB,
  PATIENCE,
  saysHeap,
  shareOf,
  WINDOW_MS,
  waitAfter,
} from '../../../api/processes/plan.ts'

t.test('a process that dies is replaced ever later, and after too many deaths not at all', async (t) => {
  const deaths: number[] = []
  const waits: (number | undefined)[] = []
  for (let n = 0; n <= MAX_DEATHS; n++) {
    deaths.push(n * 1000)
    waits.push(waitAfter(deaths, n * 1000, 0))
  }
  t.strictSame(waits, [250, 500, 1000, 2000, 4000, undefined])
})

t.test('while others listen, it is tried again and again, at most every 30 seconds', async (t) => {
  const deaths = Array.from({ length: 12 }, (_, n) => n * 1000)
  const waits = deaths.map((now, n) => waitAfter(deaths.slice(0, n + 1), now, 1))
  t.strictSame(waits, [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000, 30_000, 30_000])
})

t.test('deaths of long ago do not count', async (t) => {
  const rare = Array.from({ length: 100 }, (_, n) => n * WINDOW_MS)
  t.equal(waitAfter(rare, rare.at(-1) ?? 0, 0), 250)
})

t.test('processes share what the settings give to the replica', async (t) => {
  const settings = { DATABASE_CONNECTIONS: 10, MAX_BODIES: 128, MAX_EVENT_STREAMS: 2000, LOG_LEVEL: 'info' }
  const of = (processes: number) => Object.values(shareOf(settings, processes))
  t.strictSame(of(1), Object.values(settings))
  t.strictSame(of(2), [5, 64, 1000, 'info'])
  t.strictSame(of(3), [3, 42, 666, 'info'], 'never more in all than one process would take')
})

t.test('a process hangs when it does not begin, or has not answered several times', async (t) => {
  const { maxMissed, beginMs } = PATIENCE
  const cases = [
    [{ hasBegun: false, ageMs: beginMs - 1, missed: 0 }, undefined],
    [{ hasBegun: false, ageMs: beginMs, missed: 0 }, 'it has not begun to answer'],
    [{ hasBegun: true, ageMs: 10 * beginMs, missed: maxMissed - 1 }, undefined],
    [{ hasBegun: true, ageMs: 0, missed: maxMissed }, 'it does not answer'],
  ] as const
  for (const [seen, why] of cases) t.equal(hangs(seen, PATIENCE), why, JSON.stringify(seen))
})

t.test('an end is clean with status 0, or of a signal before signals are handled', async (t) => {
  const cases = [
    [0, null, true, true],
    [0, null, false, true],
    [1, null, true, false],
    [143, null, true, false],
    [143, null, false, true],
    [130, null, false, true],
    [null, 'SIGTERM', true, false],
    [null, 'SIGTERM', false, true],
    [null, 'SIGKILL', false, false],
  ] as const
  for (const [code, signal, hasBegun, clean] of cases) {
    t.equal(isClean(code, signal, hasBegun), clean, `${code} ${signal} ${hasBegun}`)
  }
})

t.test('the heaps together are half of the memory, and none is too small', async (t) => {
  const MIB = 2 ** 20
  const cases = [
    [768, 2, 192],
    [768, 8, undefined],
    [16_384, 2, 4096],
    [16_384, 4, 2048],
    [65_536, 2, 4096],
    [2 * MIN_HEAP_MIB * 3, 3, MIN_HEAP_MIB],
    [2 * MIN_HEAP_MIB * 3 - 1, 3, undefined],
  ] as const
  for (const [memory, processes, heap] of cases) {
    t.equal(heapOf(memory * MIB, processes), heap, `${memory} MiB for ${processes}`)
  }
})

t.test('a heap that the options of Node give is left alone', async (t) => {
  const given = [
    '--max-old-space-size=300',
    '--max_old_space_size 300',
    '--max-heap-size=300',
    '--max-old-space-size-percentage=20',
  ]
  for (const options of given) t.ok(saysHeap(`--enable-source-maps ${options}`), options)
  t.notOk(saysHeap('--enable-source-maps --max-semi-space-size=16'))
})
