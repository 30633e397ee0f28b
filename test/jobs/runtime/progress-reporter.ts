import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { trackProgress } from '../../../jobs/runtime/progress.ts'
import { openProgressReporter } from '../../../jobs/runtime/progress-reporter.ts'
import type { ProgressReport } from '../../../lib/contract/progress.ts'
import { eventually } from '../../support/eventually.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { progressReceiver } from '../../support/transcode-run.ts'

const report = (percent: number): ProgressReport => ({ percent, speed: null, etaSeconds: null, stage: 'Encoding' })
const log = quietLog()

t.test('sends the newest report and leaves out what was overtaken', async (t) => {
  const { url, reports } = await progressReceiver(t)
  const reporter = openProgressReporter({ url, token: 'x', log, intervalMs: 100 })
  const started = performance.now()
  for (let percent = 1; percent <= 50; percent++) reporter.report(report(percent))
  await eventually('two reports', () => reports.length === 2)
  t.strictSame(
    reports.map((r) => r.percent),
    [1, 50],
  )
  // From the first call: two that were sent in time may reach a busy receiver together.
  t.ok((reports[1]?.at ?? 0) - started >= 90)
  await reporter.close()
})

for (const status of [401, 410]) {
  t.test(`stops for good after ${status}`, async (t) => {
    const { url, reports } = await progressReceiver(t, status)
    const reporter = openProgressReporter({ url, token: 'x', log, intervalMs: 10 })
    reporter.report(report(1))
    await eventually('a report', () => reports.length === 1)
    await sleep(30)
    reporter.report(report(2))
    await sleep(50)
    t.equal(reports.length, 1)
    await reporter.close()
  })
}

t.test('goes on after an error of the other side', async (t) => {
  const { url, reports } = await progressReceiver(t, 503)
  const reporter = openProgressReporter({ url, token: 'x', log, intervalMs: 10 })
  reporter.report(report(1))
  await eventually('a report', () => reports.length === 1)
  reporter.report(report(2))
  await eventually('another', () => reports.length === 2)
  await reporter.close()
})

t.test('nobody listening, or nobody named, disturbs nothing', async (t) => {
  for (const url of ['http://127.0.0.1:1/progress', undefined]) {
    const reporter = openProgressReporter({ url, token: 'x', log, intervalMs: 1 })
    reporter.report(report(1))
    await sleep(20)
    await t.resolves(reporter.close())
  }
})

t.test('percent is shared by the inputs, never falls, and 100 is the end', async (t) => {
  const seen: ProgressReport[] = []
  let now = 0
  const tracker = trackProgress(
    2,
    (r) => seen.push(r),
    () => now,
  )
  const [a, b] = [tracker.input(0, 'a'), tracker.input(1, 'b')]
  a.at('Downloading', 0)
  now = 10_000
  a.at('Encoding', 0, 60)
  now = 20_000
  a.at('Encoding', 0.5, 60)
  t.match(seen.at(-1), { speed: 3, stage: 'Encoding' })
  t.ok((seen.at(-1)?.percent ?? 0) > 20 && (seen.at(-1)?.percent ?? 0) < 30)
  a.planned('one pass')
  a.playable()
  // The GPU gave up and the CPU begins again.
  a.accelerator({ kind: 'cpu', reason: 'why' })
  a.at('Encoding', 0, 60)
  t.match(seen.at(-1), { playable: ['a'], accelerator: 'cpu', acceleratorReason: 'why', planReason: 'one pass' })
  a.finished()
  t.equal(seen.at(-1)?.percent, 50)
  b.at('Downloading', 0)
  b.finished()
  t.equal(seen.at(-1)?.percent, 100)
  for (const [i, next] of seen.slice(1).entries()) t.ok(next.percent >= (seen[i]?.percent ?? 0))
})

t.test('what an earlier attempt has left does not count for the speed', async (t) => {
  const seen: ProgressReport[] = []
  let now = 0
  const tracker = trackProgress(
    1,
    (r) => seen.push(r),
    () => now,
  )
  const item = tracker.input(0, 'a')
  item.at('Encoding', 0.5, 60)
  t.match(seen.at(-1), { speed: null })
  now = 499
  item.at('Encoding', 0.6, 60)
  t.match(seen.at(-1), { speed: null }, 'too short to measure')
  now = 10_000
  item.at('Encoding', 0.75, 60)
  t.match(seen.at(-1), { speed: 1.5 })
})

t.test('the speed is measured anew when encoding begins again', (t) => {
  const seen: ProgressReport[] = []
  let now = 0
  const tracker = trackProgress(
    1,
    (r) => seen.push(r),
    () => now,
  )
  const item = tracker.input(0, 'a')
  item.at('Encoding', 0, 60)
  now = 10_000
  item.at('Encoding', 0.5, 60)
  item.at('Encoding', 0, 60)
  t.match(seen.at(-1), { speed: null })
  now = 20_000
  item.at('Encoding', 0.25, 60)
  t.match(seen.at(-1), { speed: 1.5 })
  t.end()
})

t.test('each report reads the clock once', (t) => {
  let now = 0
  const seen: ProgressReport[] = []
  // A clock that moves by a second whenever it is read.
  const item = trackProgress(
    1,
    (r) => seen.push(r),
    () => (now += 1000),
  ).input(0, 'a')
  item.at('Encoding', 0, 60)
  item.at('Encoding', 0.5, 60)
  t.match(seen.at(-1), { speed: 30 })
  t.end()
})
