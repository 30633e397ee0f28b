import { join } from 'node:path'
import t from 'tap'
import { colorItem, PALETTE } from '../../support/film-clips.ts'
import { frameColors, runsOf } from '../../support/film-frames.ts'
import { highlightBench } from '../../support/highlight-run.ts'
import { progressReceiver } from '../../support/transcode-run.ts'

/** A job that is killed at every step, and the attempt after it. */

type Bench = Awaited<ReturnType<typeof highlightBench>>

async function two(t: Parameters<typeof highlightBench>[0]) {
  const bench = await highlightBench(t)
  return { bench, items: [await colorItem(bench, 'red'), await colorItem(bench, 'green')] }
}

const colorsOf = async (bench: Bench) => runsOf(await frameColors(join(await bench.checkout(), '180p.m3u8')), PALETTE)

for (const [place, reused] of [
  ['highlight.piece', 1],
  ['highlight.playable', 2],
  ['highlight.joined', 2],
  ['highlight.uploaded', 2],
] as const) {
  t.test(`death at ${place} commits nothing, and the next attempt uses the pieces again`, async (t) => {
    const { bench, items } = await two(t)
    const spec = { segmentSeconds: 1 }
    t.equal((await bench.run(items, spec, { KEEPSAKE_FAILPOINT: place })).killedBy, 'SIGKILL')
    t.notOk((await bench.keys()).includes('manifest.json'))
    const { exit, output } = await bench.run(items, spec)
    t.equal(exit, 0, 'exits with 0', { output })
    t.equal((await bench.manifest()).encode.reused, reused)
    t.strictSame(await colorsOf(bench), [
      ['red', 30],
      ['green', 30],
    ])
    t.strictSame(await bench.leftovers(), [])
  })
}

t.test('death after the manifest has lost nothing: the next attempt needs not even the sources', async (t) => {
  const { bench, items } = await two(t)
  t.equal((await bench.run(items, {}, { KEEPSAKE_FAILPOINT: 'highlight.manifest-written' })).killedBy, 'SIGKILL')
  for (const { sourceKey } of items) await bench.store.delete(sourceKey)
  const { exit, result } = await bench.run(items)
  t.match({ exit, result }, { exit: 0, result: { ok: true, outputs: [{ id: 'hlt_1', state: 'Succeeded' }] } })
})

t.test('two pods for one film do not disturb each other', async (t) => {
  const { bench, items } = await two(t)
  const both = await Promise.all([bench.run(items), bench.run(items)])
  for (const { exit, output } of both) t.equal(exit, 0, 'exits with 0', { output })
  t.strictSame(await colorsOf(bench), [
    ['red', 30],
    ['green', 30],
  ])
})

t.test('the film can be watched before its end, and what was published stays', async (t) => {
  const { bench, items } = await two(t)
  const { killedBy } = await bench.run(items, { segmentSeconds: 1 }, { KEEPSAKE_FAILPOINT: 'highlight.playable' })
  t.equal(killedBy, 'SIGKILL')
  const folder = await bench.checkout()
  t.match(await bench.text('master.m3u8'), /AUDIO="audio"\n180p\.m3u8\n/)
  t.notMatch(await bench.text('180p.m3u8'), 'ENDLIST')
  const input = join(folder, '180p_00000.ts')
  t.strictSame(runsOf(await frameColors(input), PALETTE), [['red', 30]])
})

t.test('progress rises and names the film once it can be played', async (t) => {
  const { bench, items } = await two(t)
  const receiver = await progressReceiver(t)
  const { exit, output } = await bench.run(items, {}, { PROGRESS_URL: receiver.url, PROGRESS_TOKEN: 'x' })
  t.equal(exit, 0, 'exits with 0', { output })
  const { reports } = receiver
  t.ok(reports.length > 0)
  t.match(reports[0], { accelerator: 'cpu', acceleratorReason: 'films are encoded on the CPU' })
  for (const [k, report] of reports.slice(1).entries()) t.ok(report.percent >= (reports[k]?.percent ?? 0))
})
