import { mkdtemp, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import t from 'tap'
import { clip, ffmpeg } from '../../support/clips.ts'
import { colorItem, damagedItem, PALETTE, truncatedItem } from '../../support/highlight-clips.ts'
import { frameColors, runsOf } from '../../support/highlight-frames.ts'
import { highlightBench } from '../../support/highlight-run.ts'
import { programPath } from '../../support/services/process.ts'

/** Items that cannot be used: the highlight fails and names one, or goes without them. */

type Bench = Awaited<ReturnType<typeof highlightBench>>

async function withBroken(t: Parameters<typeof highlightBench>[0]) {
  const bench = await highlightBench(t)
  const [red, green, blue] = [
    await colorItem(bench, 'red'),
    await colorItem(bench, 'green'),
    await colorItem(bench, 'blue'),
  ]
  return { bench, red, green, blue, notAnImage: await bench.imageOf(Buffer.from('no image'), 'words') }
}

t.test('a broken item fails the highlight for good, is named, and leaves nothing behind', async (t) => {
  const { bench, red, notAnImage } = await withBroken(t)
  const { exit, result } = await bench.run([red, notAnImage])
  t.equal(exit, 12)
  t.match(result, {
    ok: false,
    reason: 'ItemFailed',
    outputs: [{ id: 'hlt_1', state: 'Failed', reason: 'ItemFailed', item: 'words', message: /^Item words: .*image/ }],
  })
  t.strictSame(await bench.keys(), [])
  t.strictSame(await bench.leftovers(), [])
})

t.test('an item that proves broken only when decoded is named too, and what was published is withdrawn', async (t) => {
  const { bench } = await withBroken(t)
  const red = await colorItem(bench, 'red', { seconds: 2 })
  const half = await truncatedItem(bench, 'half')
  const spec = { transition: 'cut', segmentSeconds: 1 } as const
  const earlier = await bench.run([red, half], spec, { KEEPSAKE_FAILPOINT: 'highlight.playable' })
  t.equal(earlier.killedBy, 'SIGKILL', 'segments are published before the item is decoded', earlier)
  // What only that attempt has published.
  await bench.store.put(`${bench.prefix}180p_00099.ts`, 'earlier', { contentType: 'video/mp2t' })
  for (const transition of ['cut', 'crossfade'] as const) {
    const { exit, result, output } = await bench.run([red, half], { ...spec, transition })
    t.equal(exit, 12, 'exits with 12', { output })
    t.match(result?.outputs, [{ reason: 'ItemFailed', item: 'half' }])
    t.strictSame(await bench.keys(), [])
  }
})

const NEXT = 'org/o/highlights/next/v1/'

/** Arguments that open the second source. */
const SECOND = '*source-1/source*'

/** A PATH with a tool that runs `line` of a shell script when its arguments match `pattern`. */
async function failingPath(folder: string, tool: 'ffmpeg' | 'ffprobe', pattern: string, line: string): Promise<string> {
  const bin = await mkdtemp(join(folder, 'failing-'))
  const script = `#!/bin/sh
case "$*" in
  ${pattern}) ${line} ;;
esac
exec ${await programPath(tool)} "$@"
`
  await writeFile(join(bin, tool), script, { mode: 0o755 })
  return `${bin}${delimiter}${process.env['PATH'] ?? ''}`
}

for (const [tool, transition, skipBroken] of [
  ['ffprobe', 'cut', true],
  ['ffmpeg', 'cut', false],
  ['ffmpeg', 'crossfade', true],
] as const) {
  t.test(
    `an item that crashes ${tool} is broken, and ${skipBroken ? 'left out' : 'named'}: ${transition}`,
    async (t) => {
      const { bench, red, green } = await withBroken(t)
      const PATH = await failingPath(bench.folder, tool, SECOND, 'kill -SEGV $$')
      const { exit, result, output } = await bench.run([red, green], { transition, skipBroken }, { PATH })
      t.equal(exit, skipBroken ? 0 : 12, 'exits with 0 or 12', { output })
      if (skipBroken) t.match((await bench.manifest()).skipped, [{ id: 'green', reason: 'CorruptInput' }])
      else t.match(result?.outputs, [{ reason: 'ItemFailed', item: 'green' }])
    },
  )
}

t.test('a failure that may pass is retried, names its item, and leaves nothing out', async (t) => {
  const { bench, red, green } = await withBroken(t)
  for (const [line, reason, transition] of [
    ['echo "Cannot allocate memory" >&2; exit 1', 'EncodeFailed', 'cut'],
    ['echo "Cannot allocate memory" >&2; exit 1', 'EncodeFailed', 'crossfade'],
    ['kill -KILL $$', 'Killed', 'cut'],
  ] as const) {
    const PATH = await failingPath(bench.folder, 'ffmpeg', SECOND, line)
    const { exit, result, output } = await bench.run([red, green], { transition, skipBroken: true }, { PATH })
    t.equal(exit, 20, 'exits with 20', { output })
    t.match(result?.outputs, [{ state: 'Failed', reason, item: 'green', message: /^Item green: / }])
  }
})

const piecesOf = async (bench: Bench, { cachePrefix }: { cachePrefix: string }) =>
  (await bench.keys(cachePrefix)).filter((key) => key.endsWith('piece.json')).length

t.test('an item is judged by the damage in all its pieces together', async (t) => {
  const { bench, red, blue } = await withBroken(t)
  const spec = { transition: 'crossfade' as const }
  // It is divided at 15 and 45; up to two of 60 frames are tolerated.
  const everywhere = await damagedItem(bench, 'everywhere', { seconds: 2, damaged: [5, 30, 50] })
  const { exit, result, output } = await bench.run([red, everywhere, blue], spec)
  t.equal(exit, 12, 'one frame in each piece is too many', { output })
  t.match(result?.outputs, [{ item: 'everywhere', message: 'Item everywhere: 3 frames are damaged' }])
  // It is divided after 30 and 282 frames; up to three of 312 are tolerated.
  const long = await damagedItem(bench, 'long', { seconds: 5.2, rate: 60, damaged: [286, 290, 294] })
  const tolerated = await bench.run([red, long], { ...spec, outputPrefix: NEXT })
  t.equal(tolerated.exit, 0, 'three of 312 frames are not', { output: tolerated.output })
  t.strictSame((await bench.manifest(NEXT)).skipped, [])
  t.equal(await piecesOf(bench, long), 1, 'its middle is stored, and its damaged end is not')
})

t.test('an item of which only the end is damaged is broken', async (t) => {
  const { bench, red, blue } = await withBroken(t)
  // Decoding the last half second begins a second and a half before it.
  const end = await damagedItem(bench, 'end', { seconds: 3, damaged: [76, 78, 80, 82, 84] })
  for (const items of [
    [red, end],
    [end, blue],
  ]) {
    const { exit, result, output } = await bench.run(items, { transition: 'crossfade' })
    t.equal(exit, 12, 'exits with 12', { output })
    t.match(result?.outputs, [{ item: 'end', message: 'Item end: 5 frames are damaged' }])
  }
})

t.test('what a crossfade made of each of its items alone is removed', async (t) => {
  const { bench, red } = await withBroken(t)
  const scratched = await damagedItem(bench, 'scratched', { seconds: 1, damaged: [20] })
  const spec = { transition: 'crossfade' as const, skipBroken: true }
  // The first piece is the beginning of the first item, the second is the crossfade.
  const { killedBy, output } = await bench.run([scratched, red], spec, { KEEPSAKE_FAILPOINT: 'highlight.piece:2' })
  t.equal(killedBy, 'SIGKILL', 'is stopped after the crossfade', { output })
  const left = await bench.leftFiles()
  t.ok(
    left.some((name) => /piece-\w+-\w+$/.test(name)),
    'the crossfade was made',
    { left },
  )
  t.notOk(
    left.some((name) => name.includes('alone')),
    'and nothing else is left of it',
    { left },
  )
})

t.test('with skipBroken the highlight goes without them, and says so', async (t) => {
  const { bench, red, green, blue, notAnImage } = await withBroken(t)
  const half = await truncatedItem(bench, 'half')
  const spec = { skipBroken: true, transition: 'crossfade' as const }
  const { exit, output } = await bench.run([red, notAnImage, green, half, blue], spec)
  t.equal(exit, 0, 'exits with 0', { output })
  const manifest = await bench.manifest()
  t.match(manifest.skipped, [
    { id: 'words', reason: 'UnsupportedFormat' },
    { id: 'half', reason: 'Truncated' },
  ])
  t.strictSame(
    manifest.items.map((i) => [i.id, i.startSec]),
    [
      ['red', 0],
      ['green', 0.5],
      ['blue', 1],
    ],
  )
  const name = manifest.hls.renditions[0]?.name
  const frames = await frameColors(join(await bench.checkout(), `${name}.m3u8`))
  t.equal(frames.length, 60)
  t.strictSame(runsOf(frames.slice(0, 10), PALETTE), [['red', 10]])
  t.strictSame(runsOf(frames.slice(50), PALETTE), [['blue', 10]])
})

t.test('a highlight of broken items only fails', async (t) => {
  const { bench, notAnImage } = await withBroken(t)
  const { exit, result } = await bench.run([notAnImage], { skipBroken: true })
  t.equal(exit, 12)
  t.match(result?.outputs, [{ reason: 'ItemFailed', item: 'words' }])
})

t.test('a source that is gone ends the highlight, also with skipBroken', async (t) => {
  const { bench, red, green } = await withBroken(t)
  await bench.store.delete(green.sourceKey)
  const { exit, result } = await bench.run([red, green], { skipBroken: true })
  t.equal(exit, 11)
  t.match(result?.outputs, [{ state: 'Failed', reason: 'InputMissing', item: 'green' }])
})

t.test('music that is gone is named', async (t) => {
  const { bench, red } = await withBroken(t)
  const { exit, result } = await bench.run([red], { music: { id: 'trk_1', sourceKey: 'tracks/1/audio' } })
  t.equal(exit, 11)
  t.match(result, { reason: 'InputMissing', message: /music track trk_1/ })
  t.strictSame(await bench.keys(), [])
})

t.test('music that ffmpeg cannot read for want of memory is no fault of the track', async (t) => {
  const { bench, red } = await withBroken(t)
  const sourceKey = 'tracks/1/audio'
  const sound = join(bench.folder, 'tune.wav')
  await ffmpeg(['-f', 'lavfi', '-i', 'sine=d=1', sound])
  await bench.store.upload(sound, sourceKey, { contentType: 'audio/wav' })
  const run = (PATH: string) => bench.run([red], { music: { id: 'trk_1', sourceKey } }, { PATH })
  const short = await failingPath(bench.folder, 'ffmpeg', '*"/music "*', 'echo "Cannot allocate memory" >&2; exit 1')
  const { exit, result, output } = await run(short)
  t.equal(exit, 20, 'exits with 20', { output })
  t.match(result, { reason: 'EncodeFailed', message: /Cannot allocate memory/ })
  const crash = await run(await failingPath(bench.folder, 'ffmpeg', '*"/music "*', 'kill -SEGV $$'))
  t.match(crash, { exit: 12, result: { reason: 'MusicFailed', message: /trk_1/ } })
})

t.test('sound that ffmpeg cannot read for want of memory is no fault of the item', async (t) => {
  const { bench, red } = await withBroken(t)
  const heard = await bench.videoOf(await clip('short'), 'heard', 1)
  const PATH = await failingPath(
    bench.folder,
    'ffmpeg',
    '*source-1/source*f32le*',
    'echo "Cannot allocate memory" >&2; exit 1',
  )
  const { exit, result, output } = await bench.run([red, heard], { skipBroken: true }, { PATH })
  t.equal(exit, 20, 'exits with 20', { output })
  t.match(result?.outputs, [{ reason: 'EncodeFailed', item: 'heard' }])
})
