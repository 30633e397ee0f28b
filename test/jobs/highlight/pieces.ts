import { writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import t from 'tap'
import { colorItem, PALETTE } from '../../support/film-clips.ts'
import { frameColors, runsOf } from '../../support/film-frames.ts'
import { highlightBench } from '../../support/highlight-run.ts'
import { programPath } from '../../support/services/process.ts'

/** Pieces that earlier films left in the store. */

type Bench = Awaited<ReturnType<typeof highlightBench>>

const NEXT = 'org/o/highlights/other/v1/'

const colorsOf = async (bench: Bench, prefix: string) =>
  runsOf(await frameColors(join(await bench.checkout(prefix), '180p.m3u8')), PALETTE)

async function three(t: Parameters<typeof highlightBench>[0]) {
  const bench = await highlightBench(t)
  const [red, green, blue] = [
    await colorItem(bench, 'red'),
    await colorItem(bench, 'green'),
    await colorItem(bench, 'blue'),
  ]
  return { bench, red, green, blue }
}

t.test('a film in another order takes its pieces from the store', async (t) => {
  const { bench, red, green, blue } = await three(t)
  t.equal((await bench.run([red, green, blue])).exit, 0)
  t.equal((await bench.manifest()).encode.reused, 0)
  const { exit, output } = await bench.run([blue, red, green], { outputPrefix: NEXT })
  t.equal(exit, 0, 'exits with 0', { output })
  t.equal((await bench.manifest(NEXT)).encode.reused, 3)
  t.strictSame(await colorsOf(bench, NEXT), [
    ['blue', 30],
    ['red', 30],
    ['green', 30],
  ])
})

t.test('a damaged piece is made again, and one of other options is not taken', async (t) => {
  const { bench, red, green } = await three(t)
  t.equal((await bench.run([red, green])).exit, 0)
  const piece = (await bench.keys(red.cachePrefix)).find((key) => key.endsWith('.ts')) ?? ''
  const bytes = await bench.bytes(piece, red.cachePrefix)
  bytes.writeUInt8(bytes.readUInt8(bytes.length / 2) ^ 1, bytes.length / 2)
  await bench.store.put(red.cachePrefix + piece, bytes, { contentType: 'video/mp2t' })
  const { exit, output } = await bench.run([red, green], { outputPrefix: NEXT })
  t.equal(exit, 0, 'exits with 0', { output })
  t.match(output, 'is damaged and is made again')
  t.equal((await bench.manifest(NEXT)).encode.reused, 1)
  t.strictSame(await colorsOf(bench, NEXT), [
    ['red', 30],
    ['green', 30],
  ])
  const other = 'org/o/highlights/third/v1/'
  t.equal((await bench.run([red, green], { outputPrefix: other, orientation: 'square' })).exit, 0)
  t.equal((await bench.manifest(other)).encode.reused, 0)
})

t.test('pieces above the limit are removed, the oldest first', async (t) => {
  const { bench, red } = await three(t)
  const run = (seconds: number, outputPrefix: string) =>
    bench.run([{ ...red, seconds }], { outputPrefix }, { PIECES_MIB: '0' })
  t.equal((await run(0.9, 'org/o/highlights/1/v1/')).exit, 0)
  const first = await bench.keys(red.cachePrefix)
  t.equal(first.length, 2, 'the newest stays')
  t.equal((await run(0.8, 'org/o/highlights/2/v1/')).exit, 0)
  const second = await bench.keys(red.cachePrefix)
  t.equal(second.length, 2)
  t.notSame(second, first)
})

t.test('what a file says in place of a piece is not believed', async (t) => {
  const { bench, red } = await three(t)
  t.equal((await bench.run([red])).exit, 0)
  const index = (await bench.keys(red.cachePrefix)).find((key) => key.endsWith('piece.json')) ?? ''
  const bad = JSON.stringify({ files: [{ name: '../../x.ts', bytes: 1, sha256: 'a'.repeat(64) }] })
  await bench.store.put(red.cachePrefix + index, bad, { contentType: 'application/json' })
  const { exit, output } = await bench.run([red], { outputPrefix: NEXT })
  t.equal(exit, 0, 'exits with 0', { output })
  t.equal((await bench.manifest(NEXT)).encode.reused, 0)
})

t.test('pieces with text are not stored: they would outlive the film that shows it', async (t) => {
  const { bench, red, green, blue } = await three(t)
  const items = [red, { ...green, caption: 'At the lake' }, blue]
  const spec = { title: 'Summer', showTitle: true }
  const { exit, output } = await bench.run(items, spec)
  t.equal(exit, 0, 'exits with 0', { output })
  t.strictSame([await bench.keys(red.cachePrefix), await bench.keys(green.cachePrefix)], [[], []])
  t.equal((await bench.keys(blue.cachePrefix)).length, 2)
  t.equal((await bench.run(items, { ...spec, outputPrefix: NEXT })).exit, 0)
  t.equal((await bench.manifest(NEXT)).encode.reused, 1)
})

t.test('pieces that another ffmpeg made are not joined with new ones', async (t) => {
  const { bench, red } = await three(t)
  t.equal((await bench.run([red])).exit, 0)
  const script = `#!/bin/sh
[ "$*" = -version ] && { echo 'ffmpeg version 99.9'; exit 0; }
exec ${await programPath('ffmpeg')} "$@"
`
  await writeFile(join(bench.folder, 'ffmpeg'), script, { mode: 0o755 })
  const PATH = `${bench.folder}${delimiter}${process.env['PATH'] ?? ''}`
  const { exit, output } = await bench.run([red], { outputPrefix: NEXT }, { PATH })
  t.equal(exit, 0, 'exits with 0', { output })
  t.equal((await bench.manifest(NEXT)).encode.reused, 0)
})
