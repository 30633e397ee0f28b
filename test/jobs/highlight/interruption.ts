import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import t, { type Test } from 'tap'
import { EXIT } from '../../../lib/contract/job-result.ts'
import { eventually } from '../../support/eventually.ts'
import { colorItem, PALETTE } from '../../support/highlight-clips.ts'
import { frameColors, runsOf } from '../../support/highlight-frames.ts'
import { highlightBench } from '../../support/highlight-run.ts'
import { programPath } from '../../support/services/process.ts'
import { progressReceiver } from '../../support/transcode-run.ts'

/** A job that is killed at every step, and the attempt after it. */

type Bench = Awaited<ReturnType<typeof highlightBench>>

async function two(t: Parameters<typeof highlightBench>[0]) {
  const bench = await highlightBench(t)
  return { bench, items: [await colorItem(bench, 'red'), await colorItem(bench, 'green')] }
}

const colorsOf = async (bench: Bench) => runsOf(await frameColors(join(await bench.checkout(), '180p.m3u8')), PALETTE)

/** What was published by then can be played, and more is to come. */
async function canBeWatched(t: Test, bench: Bench): Promise<void> {
  const folder = await bench.checkout()
  t.match(await bench.text('master.m3u8'), /AUDIO="audio"\n180p\.m3u8\n/)
  t.notMatch(await bench.text('180p.m3u8'), 'ENDLIST')
  t.strictSame(runsOf(await frameColors(join(folder, '180p_00000.ts')), PALETTE), [['red', 30]])
}

/** A PATH with an ffmpeg that notes each encoding of a piece. */
async function countingPath(folder: string) {
  const list = join(folder, 'encodings')
  await writeFile(list, '')
  const script = `#!/bin/sh
case "$*" in
  *libx264*) echo 1 >> ${list} ;;
esac
exec ${await programPath('ffmpeg')} "$@"
`
  const bin = join(folder, 'counting')
  await mkdir(bin)
  await writeFile(join(bin, 'ffmpeg'), script, { mode: 0o755 })
  const count = async () => (await readFile(list, 'utf8')).length / 2
  return { PATH: `${bin}${delimiter}${process.env['PATH'] ?? ''}`, count }
}

t.test(
  'killed at every step, each attempt goes on with the pieces of those before it, until one commits',
  async (t) => {
    const { bench, items } = await two(t)
    const spec = { segmentSeconds: 1 }
    const { PATH, count } = await countingPath(bench.folder)
    for (const [place, encodings] of [
      ['highlight.piece', 1],
      ['highlight.playable', 2],
      ['highlight.joined', 2],
      ['highlight.uploaded', 2],
    ] as const) {
      const { killedBy, output } = await bench.run(items, spec, { PATH, KEEPSAKE_FAILPOINT: place })
      t.equal(killedBy, 'SIGKILL', place, { output })
      t.equal(await count(), encodings, `${place}: no piece is encoded twice`)
      t.notOk((await bench.keys()).includes('manifest.json'), `${place}: nothing is committed`)
      if (place === 'highlight.playable') await canBeWatched(t, bench)
    }
    const { killedBy } = await bench.run(items, spec, { PATH, KEEPSAKE_FAILPOINT: 'highlight.manifest-written' })
    t.equal(killedBy, 'SIGKILL')
    t.equal(await count(), 2)
    t.equal((await bench.manifest()).encode.reused, 2)
    t.strictSame(await colorsOf(bench), [
      ['red', 30],
      ['green', 30],
    ])
    // Death after the manifest has lost nothing: the next attempt needs not even the sources.
    for (const { sourceKey } of items) await bench.store.delete(sourceKey)
    const { exit, result } = await bench.run(items, spec)
    t.match({ exit, result }, { exit: 0, result: { ok: true, outputs: [{ id: 'hlt_1', state: 'Succeeded' }] } })
    t.strictSame(await bench.leftovers(), [])
  },
)

t.test('two pods for one highlight do not disturb each other', async (t) => {
  const { bench, items } = await two(t)
  const both = await Promise.all([bench.run(items), bench.run(items)])
  for (const { exit, output } of both) t.equal(exit, 0, 'exits with 0', { output })
  t.strictSame(await colorsOf(bench), [
    ['red', 30],
    ['green', 30],
  ])
})

t.test('progress rises and names the highlight once it can be played, while the rest is encoded', async (t) => {
  const { bench, items } = await two(t)
  items.push(await colorItem(bench, 'blue'))
  const receiver = await progressReceiver(t)
  const mark = join(bench.folder, 'seen')
  const PATH = await stuckPath(bench.folder, 2, `while [ ! -e ${mark} ]; do sleep 0.1; done`)
  const reporting = { PROGRESS_URL: receiver.url, PROGRESS_TOKEN: 'x', PATH }
  const finished = bench.run(items, { segmentSeconds: 1 }, reporting)
  try {
    await eventually('the name of the highlight', () => receiver.reports.at(-1)?.playable?.includes('hlt_1'))
    t.notOk((await bench.keys()).includes('manifest.json'))
  } finally {
    // The program would wait for it, and this file for the program.
    await writeFile(mark, '')
  }
  const { exit, output } = await finished
  t.equal(exit, 0, 'exits with 0', { output })
  const { reports } = receiver
  t.match(reports[0], { accelerator: 'cpu', acceleratorReason: 'highlights are encoded on the CPU' })
  for (const [k, report] of reports.slice(1).entries()) t.ok(report.percent >= (reports[k]?.percent ?? 0))
  t.strictSame(reports[0]?.playable, [], 'nothing can be played at first')
})

/** A PATH with an ffmpeg that runs `line` of a shell script before it encodes the item at this position. */
async function stuckPath(folder: string, position: number, line: string): Promise<string> {
  const script = `#!/bin/sh
case "$*" in
  *source-${position}/source*libx264*) ${line} ;;
esac
exec ${await programPath('ffmpeg')} "$@"
`
  await writeFile(join(folder, 'ffmpeg'), script, { mode: 0o755 })
  return `${folder}${delimiter}${process.env['PATH'] ?? ''}`
}

t.test('an attempt that was killed for want of memory, or terminated, leaves the pieces there', async (t) => {
  const { bench, items } = await two(t)
  const killed = await bench.run(items, {}, { PATH: await stuckPath(bench.folder, 1, 'kill -KILL $$') })
  t.match(killed, { exit: 20, result: { outputs: [{ reason: 'Killed', item: 'green' }] } }, killed.output)
  const mark = join(bench.folder, 'encoding')
  const PATH = await stuckPath(bench.folder, 1, `: > ${mark}; exec sleep 600`)
  const { process, finished } = bench.start(items, {}, { PATH })
  await eventually('the encoding', () => existsSync(mark))
  process.kill('SIGTERM')
  const { exit, result } = await finished
  t.match({ exit, result }, { exit: EXIT.terminated, result: { ok: false, reason: 'Terminated' } })
  t.strictSame(await bench.leftovers(), [])
  const again = await bench.run(items)
  t.equal(again.exit, 0, 'exits with 0', { output: again.output })
  t.equal((await bench.manifest()).encode.reused, 1, 'the other item is encoded alone')
})
