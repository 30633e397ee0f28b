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

const put = (bench: Bench, key: string, body: Buffer | string) =>
  bench.store.put(key, body, { contentType: 'application/octet-stream' })

async function three(t: Parameters<typeof highlightBench>[0]) {
  const bench = await highlightBench(t)
  const [red, green, blue] = [
    await colorItem(bench, 'red'),
    await colorItem(bench, 'green'),
    await colorItem(bench, 'blue'),
  ]
  return { bench, red, green, blue }
}

/** A highlight of red and green, made once: each test goes on from a copy of its store. */
const earlier = await three(t)
t.before(async () => {
  const { exit, output } = await earlier.bench.run([earlier.red, earlier.green])
  t.equal(exit, 0, 'exits with 0', { output })
  t.equal((await earlier.bench.manifest()).encode.reused, 0)
})

async function rendered(t: Parameters<typeof highlightBench>[0]) {
  const made = await three(t)
  await cp(join(earlier.bench.folder, 'store'), join(made.bench.folder, 'store'), { recursive: true })
  return made
}

/** Puts another file in the place of a stored piece, with an index that names it. */
async function plant(bench: Bench, folder: string, bytes: Buffer) {
  const sha256 = createHash('sha256').update(bytes).digest('hex')
  await put(bench, `${folder}${sha256.slice(0, 16)}-180p.ts`, bytes)
  await put(bench, `${folder}piece.json`, JSON.stringify({ files: [{ name: '180p.ts', bytes: bytes.length, sha256 }] }))
}

/** The keys of the stored piece of an item, of which it has no other but those of `others`. */
async function pieceOf(bench: Bench, { cachePrefix }: { cachePrefix: string }, others: readonly string[] = []) {
  const keys = (await bench.keys(cachePrefix)).filter((key) => !others.includes(key)).map((key) => cachePrefix + key)
  const index = keys.find((key) => key.endsWith('piece.json')) ?? ''
  return { folder: index.replace('piece.json', ''), index, file: keys.find((key) => key.endsWith('.ts')) ?? '' }
}

t.test(
  'what is damaged, does not fit or is no piece is made again, and an earlier one is used where there is one',
  async (t) => {
    const { bench, red, green, blue } = await rendered(t)
    const grey = await colorItem(bench, 'grey')
    const first = await bench.keys(red.cachePrefix)
    const newer = await bench.run([red, blue, grey], { outputPrefix: 'org/o/highlights/newer/v1/' })
    t.equal(newer.exit, 0, 'exits with 0', { output: newer.output })
    // Of red there is another one.
    await put(bench, (await pieceOf(bench, red, first)).index, 'no JSON')
    // As it says itself, it is whole; it would be 64x36.
    await plant(bench, (await pieceOf(bench, green)).folder, await readFile(await clip('tiny')))
    const { file } = await pieceOf(bench, blue)
    const bytes = await bench.bytes(file, '')
    bytes.writeUInt8(bytes.readUInt8(bytes.length / 2) ^ 1, bytes.length / 2)
    await put(bench, file, bytes)
    const outside = { files: [{ name: '../../x.ts', bytes: 1, sha256: 'a'.repeat(64) }] }
    await put(bench, (await pieceOf(bench, grey)).index, JSON.stringify(outside))
    const { exit, output } = await bench.run([red, green, blue, grey], { outputPrefix: NEXT })
    t.equal(exit, 0, 'exits with 0', { output })
    t.match(output, `"piece":"${(await pieceOf(bench, blue)).folder}"`, 'blue is damaged')
    t.match(output, 'a stored piece is damaged')
    t.equal(
      output.match(/a stored piece could not be read/g)?.length,
      2,
      'the newest of red was tried first, and that of grey',
    )
    t.equal((await bench.manifest(NEXT)).encode.reused, 1, 'only the earlier one of red is used')
    t.strictSame(await colorsOf(bench, NEXT), [
      ['red', 30],
      ['green', 30],
      ['blue', 30],
      ['grey', 30],
    ])
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
  const again = { ...red, id: 'again' }
  t.equal(await run([red, green, again], 'org/o/highlights/1/v1/'), 1, 'a source that is shown twice is encoded once')
  const first = await bench.keys(red.cachePrefix)
  t.equal(first.length, 2)
  // In another order and with one item more.
  t.equal(await run([blue, green, red], 'org/o/highlights/2/v1/'), 2, 'of a highlight whose items are all in this one')
  t.strictSame(await colorsOf(bench, 'org/o/highlights/2/v1/'), [
    ['blue', 30],
    ['green', 30],
    ['red', 30],
  ])
  t.equal(await run([red, blue], 'org/o/highlights/3/v1/'), 0, 'not without one of the items')
  const both = await bench.keys(red.cachePrefix)
  t.same([both.length, first.every((key) => both.includes(key))], [4, true], 'nor are they replaced')
  t.equal(await run([blue, { ...red, seconds: 0.8 }], 'org/o/highlights/4/v1/', { PIECES_MIB: '0' }), 1)
  const left = await bench.keys(red.cachePrefix)
  t.same([left.length, left.some((key) => both.includes(key))], [2, false], 'above the limit only the newest stays')
})

t.test(
  'a segment that no player could begin with does not leave, although the frames of its piece are whole',
  async (t) => {
    const { bench, red, green } = await rendered(t)
    const { file, folder } = await pieceOf(bench, red)
    const bytes = await bench.bytes(file, '')
    // Its parameter sets are of a type that decoders pass over.
    const sets = [0x67, 0x68].map((type) => Buffer.of(0, 0, 1, type))
    for (const set of sets)
      for (let at = bytes.indexOf(set); at !== -1; at = bytes.indexOf(set, at)) bytes[at + 3] = 0x78
    await plant(bench, folder, bytes)
    const { result, output } = await bench.run([red, green], { outputPrefix: NEXT, segmentSeconds: 1 })
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

t.test(
  'pieces with text are not stored, as they would outlive the highlight that shows it, and none is used for them',
  async (t) => {
    const { bench, red, green, blue } = await rendered(t)
    const before = [await bench.keys(red.cachePrefix), await bench.keys(green.cachePrefix)]
    const items = [red, { ...green, caption: 'At the lake' }, { ...green, id: 'again' }, blue]
    const { exit, output } = await bench.run(items, { title: 'Summer', showTitle: true, outputPrefix: NEXT })
    t.equal(exit, 0, 'exits with 0', { output })
    t.equal((await bench.manifest(NEXT)).encode.reused, 1, 'the one of green, where it is shown without text')
    t.strictSame([await bench.keys(red.cachePrefix), await bench.keys(green.cachePrefix)], before)
    t.equal((await bench.keys(blue.cachePrefix)).length, 2, 'one without text is')
  },
)

t.test('pieces of other options, or that another ffmpeg made, are not joined with new ones', async (t) => {
  const { bench, red, green } = await rendered(t)
  t.equal((await bench.run([red, green], { outputPrefix: NEXT, orientation: 'square' })).exit, 0)
  t.equal((await bench.manifest(NEXT)).encode.reused, 0)
  const script = `#!/bin/sh
[ "$*" = -encoders ] && { echo 'ffmpeg version 99.9' >&2; exec ${await programPath('ffmpeg')} -hide_banner "$@"; }
exec ${await programPath('ffmpeg')} "$@"
`
  await writeFile(join(bench.folder, 'ffmpeg'), script, { mode: 0o755 })
  const PATH = `${bench.folder}${delimiter}${process.env['PATH'] ?? ''}`
  const outputPrefix = 'org/o/highlights/third/v1/'
  const { exit, output } = await bench.start([red, green], { outputPrefix }, { PATH }).finished
  t.equal(exit, 0, 'exits with 0', { output })
  t.equal((await bench.manifest(outputPrefix)).encode.reused, 0)
})
