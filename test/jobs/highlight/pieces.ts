import { createHash } from 'node:crypto'
import { cp, readFile, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import t from 'tap'
import { HighlightRenderSpec } from '../../../crds/highlight-render.ts'
import { startStoreProxy } from '../../../jobs/store-proxy/server.ts'
import { StoreGrant } from '../../../lib/contract/store-proxy.ts'
import { highlightRender } from '../../../operator/highlight-render/kind.ts'
import { clip } from '../../support/clips.ts'
import { colorItem, PALETTE } from '../../support/highlight-clips.ts'
import { frameColors, runsOf } from '../../support/highlight-frames.ts'
import { highlightBench } from '../../support/highlight-run.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { programPath } from '../../support/services/process.ts'

/** Pieces that earlier highlights left in the store. */

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

/** A highlight of the three, made once: each test goes on from a copy of its store. */
const earlier = await three(t)
t.before(async () => {
  const { exit, output } = await earlier.bench.run([earlier.red, earlier.green, earlier.blue])
  t.equal(exit, 0, 'exits with 0', { output })
  t.equal((await earlier.bench.manifest()).encode.reused, 0)
})

async function rendered(t: Parameters<typeof highlightBench>[0]) {
  const made = await three(t)
  await cp(join(earlier.bench.folder, 'store'), join(made.bench.folder, 'store'), { recursive: true })
  return made
}

t.test('a damaged piece is made again, and one of other options is not taken', async (t) => {
  const { bench, red, green, blue } = await rendered(t)
  const piece = (await bench.keys(red.cachePrefix)).find((key) => key.endsWith('.ts')) ?? ''
  const bytes = await bench.bytes(piece, red.cachePrefix)
  bytes.writeUInt8(bytes.readUInt8(bytes.length / 2) ^ 1, bytes.length / 2)
  await bench.store.put(red.cachePrefix + piece, bytes, { contentType: 'video/mp2t' })
  const { exit, output } = await bench.run([red, green, blue], { outputPrefix: NEXT })
  t.equal(exit, 0, 'exits with 0', { output })
  t.match(output, 'a stored piece is damaged')
  t.equal((await bench.manifest(NEXT)).encode.reused, 2)
  t.strictSame(await colorsOf(bench, NEXT), [
    ['red', 30],
    ['green', 30],
    ['blue', 30],
  ])
  const other = 'org/o/highlights/third/v1/'
  t.equal((await bench.run([red, green, blue], { outputPrefix: other, orientation: 'square' })).exit, 0)
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

t.test(
  'a highlight in another order and with one item more takes the pieces of the others from the store',
  async (t) => {
    const { bench, red, green, blue } = await rendered(t)
    const grey = await colorItem(bench, 'grey')
    const { exit, output } = await bench.run([blue, grey, red, green], { outputPrefix: NEXT })
    t.equal(exit, 0, 'exits with 0', { output })
    t.equal((await bench.manifest(NEXT)).encode.reused, 3)
    t.strictSame(await colorsOf(bench, NEXT), [
      ['blue', 30],
      ['grey', 30],
      ['red', 30],
      ['green', 30],
    ])
  },
)

t.test('a source that is shown twice is encoded once', async (t) => {
  const { bench, red, green } = await three(t)
  const { exit, output } = await bench.run([red, green, { ...red, id: 'again' }], { outputPrefix: NEXT })
  t.equal(exit, 0, 'exits with 0', { output })
  t.equal((await bench.manifest(NEXT)).encode.reused, 1)
})

t.test('a damaged piece of the newest highlight is replaced by one of an earlier highlight', async (t) => {
  const { bench, red, green, blue } = await rendered(t)
  const first = await bench.keys(red.cachePrefix)
  const grey = await colorItem(bench, 'grey')
  const two = await bench.run([red, grey], { outputPrefix: 'org/o/highlights/two/v1/' })
  t.equal(two.exit, 0, 'exits with 0', { output: two.output })
  const newest = (await bench.keys(red.cachePrefix)).filter((key) => !first.includes(key))
  t.equal(newest.length, 2, 'the highlight of two stored a piece of its own')
  for (const index of newest.filter((key) => key.endsWith('piece.json'))) {
    await bench.store.put(red.cachePrefix + index, 'no JSON', { contentType: 'application/json' })
  }
  const { exit, output } = await bench.run([red, green, blue, grey], { outputPrefix: NEXT })
  t.equal(exit, 0, 'exits with 0', { output })
  t.match(output, /a stored piece could not be read/, 'the newest was tried first')
  t.equal((await bench.manifest(NEXT)).encode.reused, 4)
})

t.test(
  'a highlight without one of the items neither uses the pieces nor replaces them, but removes them above the limit',
  async (t) => {
    const { bench, red, green } = await rendered(t)
    const first = await bench.keys(red.cachePrefix)
    t.equal((await bench.run([red, green], { outputPrefix: NEXT })).exit, 0)
    t.equal((await bench.manifest(NEXT)).encode.reused, 0)
    const both = await bench.keys(red.cachePrefix)
    t.same([first.length, both.length, first.every((key) => both.includes(key))], [2, 4, true])
    const third = 'org/o/highlights/third/v1/'
    t.equal((await bench.run([green, { ...red, seconds: 0.8 }], { outputPrefix: third }, { PIECES_MIB: '0' })).exit, 0)
    t.equal((await bench.keys(red.cachePrefix)).length, 2, 'the newest stays')
  },
)

t.test('what the operator grants is enough to store pieces, use them again and remove those of others', async (t) => {
  const { bench, red, green, blue } = await three(t)
  const run = async (items: (typeof red)[], outputPrefix: string, env: Record<string, string> = {}) => {
    const spec = HighlightRenderSpec.parse({ id: 'hlt_1', title: 'Highlight', items, outputPrefix })
    const address = join(bench.folder, `socket-${outputPrefix.split('/')[3]}`)
    const proxy = await startStoreProxy({
      ...{ address, grant: StoreGrant.parse(highlightRender.grant(spec)), store: bench.store, log: quietLog() },
    })
    const { exit, output } = await bench.run(
      items,
      { outputPrefix },
      { STORE_KIND: 'proxy', STORE_SOCKET: address, ...env },
    )
    await proxy.close()
    t.equal(exit, 0, 'exits with 0', { output })
    t.notMatch(output, 'could not be')
    return (await bench.manifest(outputPrefix)).encode.reused
  }
  t.equal(await run([red, green], 'org/o/highlights/1/v1/'), 0)
  t.equal(await run([green, red], 'org/o/highlights/2/v1/'), 2)
  t.equal(await run([red, green, blue], 'org/o/highlights/3/v1/'), 2, 'of a highlight whose items are all in this one')
  t.equal(await run([red, blue], 'org/o/highlights/4/v1/', { PIECES_MIB: '0' }), 0)
  t.equal((await bench.keys(red.cachePrefix)).length, 2, 'those of the earlier highlights are gone')
})

/** Puts another file in the place of a stored piece, with an index that names it. */
async function plant({ store }: Awaited<ReturnType<typeof rendered>>['bench'], folder: string, bytes: Buffer) {
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  const put = (name: string, body: Buffer | string) =>
    store.put(folder + name, body, { contentType: 'application/octet-stream' })
  await put(`${sha256.slice(0, 16)}-180p.ts`, bytes)
  await put('piece.json', JSON.stringify({ files: [{ name: '180p.ts', bytes: bytes.length, sha256 }] }))
}

t.test('a piece that does not fit into the highlight is made again, whatever its index says', async (t) => {
  const { bench, red, green, blue } = await rendered(t)
  const index = (await bench.keys(red.cachePrefix)).find((key) => key.endsWith('piece.json')) ?? ''
  const planted = await readFile(await clip('tiny'))
  await plant(bench, red.cachePrefix + index.replace('piece.json', ''), planted)
  const { exit, output } = await bench.run([red, green, blue], { outputPrefix: NEXT })
  t.equal(exit, 0, 'exits with 0', { output })
  t.equal((await bench.manifest(NEXT)).encode.reused, 2)
  t.strictSame((await colorsOf(bench, NEXT))[0], ['red', 30])
})

t.test(
  'a segment that no player could begin with does not leave, although the frames of its piece are whole',
  async (t) => {
    const { bench, red, green, blue } = await rendered(t)
    const names = await bench.keys(red.cachePrefix)
    const index = names.find((key) => key.endsWith('piece.json')) ?? ''
    const bytes = await bench.bytes(names.find((key) => key.endsWith('.ts')) ?? '', red.cachePrefix)
    // Its parameter sets are of a type that decoders pass over.
    const sets = [0x67, 0x68].map((type) => Buffer.of(0, 0, 1, type))
    for (const set of sets)
      for (let at = bytes.indexOf(set); at !== -1; at = bytes.indexOf(set, at)) bytes[at + 3] = 0x78
    await plant(bench, red.cachePrefix + index.replace('piece.json', ''), bytes)
    const { result, output } = await bench.run([red, green, blue], { outputPrefix: NEXT, segmentSeconds: 1 })
    const message = /^180p_00000\.ts: does not begin with a keyframe/
    t.match(result, { ok: false, outputs: [{ reason: 'VerificationFailed', message }] }, output)
    const left = await bench.keys(NEXT)
    t.ok(left.includes('audio_00000.ts'), 'what was made before it is there')
    t.strictSame(
      left.filter((key) => /^(180p|master)/.test(key)),
      [],
    )
  },
)

t.test('what a file says in place of a piece is not believed', async (t) => {
  const { bench, red, green, blue } = await rendered(t)
  const index = (await bench.keys(red.cachePrefix)).find((key) => key.endsWith('piece.json')) ?? ''
  const bad = JSON.stringify({ files: [{ name: '../../x.ts', bytes: 1, sha256: 'a'.repeat(64) }] })
  await bench.store.put(red.cachePrefix + index, bad, { contentType: 'application/json' })
  const { exit, output } = await bench.run([red, green, blue], { outputPrefix: NEXT })
  t.equal(exit, 0, 'exits with 0', { output })
  t.equal((await bench.manifest(NEXT)).encode.reused, 2)
})

t.test('pieces with text are not stored: they would outlive the highlight that shows it', async (t) => {
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
  const { bench, red, green, blue } = await rendered(t)
  const script = `#!/bin/sh
[ "$*" = -encoders ] && { echo 'ffmpeg version 99.9' >&2; exec ${await programPath('ffmpeg')} -hide_banner "$@"; }
exec ${await programPath('ffmpeg')} "$@"
`
  await writeFile(join(bench.folder, 'ffmpeg'), script, { mode: 0o755 })
  const PATH = `${bench.folder}${delimiter}${process.env['PATH'] ?? ''}`
  const { exit, output } = await bench.start([red, green, blue], { outputPrefix: NEXT }, { PATH }).finished
  t.equal(exit, 0, 'exits with 0', { output })
  t.equal((await bench.manifest(NEXT)).encode.reused, 0)
})
