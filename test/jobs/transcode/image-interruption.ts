import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { eventually } from '../../support/eventually.ts'
import { quarters } from '../../support/pictures.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

/** A batch of images that dies at every step, and the next attempt. Takes over 20 s: every place costs two runs. */

type Bench = Awaited<ReturnType<typeof transcodeBench>>

const IDS = ['a', 'b', 'c']
const FILES = ['image.jpg', 'image.webp', 'manifest.json', 'thumb.webp']

/** Turned pictures, which get all three files. */
const batch = async (bench: Bench) => {
  const picture = await quarters(60, 40).withMetadata({ orientation: 6 }).jpeg().toBuffer()
  return bench.imagesOf(Object.fromEntries(IDS.map((id) => [id, picture])))
}

const keysOf = (bench: Bench, id: string) => bench.keys(`${bench.prefix}${id}/`)
const committed = async (bench: Bench): Promise<string[]> => {
  const keys = await Promise.all(IDS.map((id) => keysOf(bench, id)))
  return IDS.filter((_, i) => keys[i]?.includes('manifest.json'))
}

/** How far the batch is at each place: the inputs that are committed, and the files of the one that is not. */
const PLACES: readonly (readonly [place: string, committed: string[], begun: string[]])[] = [
  ['job.encoded:1', [], []],
  ['job.image-uploaded:2', [], ['image.jpg', 'image.webp']],
  ['job.uploaded:2', ['a'], ['image.jpg', 'image.webp', 'thumb.webp']],
  ['job.manifest-written:1', ['a'], []],
  ['job.manifest-written:3', ['a', 'b', 'c'], []],
]

for (const [place, done, begun] of PLACES) {
  t.test(`death at ${place}: the next attempt converts what has no manifest, and only that`, async (t) => {
    const bench = await transcodeBench(t)
    const inputs = await batch(bench)
    t.equal((await bench.run(inputs, {}, { KEEPSAKE_FAILPOINT: place })).killedBy, 'SIGKILL')
    t.strictSame(await committed(bench), done)
    t.strictSame((await keysOf(bench, IDS[done.length] ?? 'none')).sort(), begun)
    t.equal((await bench.leftovers()).length, 1)
    const before = await Promise.all(done.map((id) => bench.bytes('manifest.json', `${bench.prefix}${id}/`)))
    // Without its original, a second conversion could only fail.
    for (const { id, sourceKey } of inputs) if (done.includes(id)) await bench.store.delete(sourceKey)

    const { exit, result, output } = await bench.run(inputs)
    t.equal(exit, 0, 'exits with 0', { output })
    t.strictSame(
      result?.outputs?.map((o) => o.state),
      IDS.map(() => 'Succeeded'),
    )
    for (const id of IDS) t.strictSame((await keysOf(bench, id)).sort(), FILES, id)
    t.strictSame(await Promise.all(done.map((id) => bench.bytes('manifest.json', `${bench.prefix}${id}/`))), before)
    t.strictSame(await bench.leftovers(), [])
  })
}

/** A vips that never ends, and writes its process id. */
async function endlessVips(bench: Bench): Promise<{ PATH: string; pid: () => Promise<number> }> {
  const bin = join(bench.folder, 'bin')
  const file = join(bench.folder, 'pid')
  await mkdir(bin)
  await writeFile(join(bin, 'vips'), `#!/bin/sh\necho $$ > ${file}.new; mv ${file}.new ${file}\nexec sleep 600\n`, {
    mode: 0o755,
  })
  const pid = () => readFile(file, 'utf8').then(Number)
  return { PATH: `${bin}:${process.env['PATH']}`, pid }
}

const isRunning = async (pid: number) => {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return /^State:\s+[^ZX]/m.test(status)
}

for (const signal of ['SIGKILL', 'SIGTERM'] as const) {
  t.test(`${signal} during decoding takes vips along`, async (t) => {
    const bench = await transcodeBench(t)
    const inputs = await batch(bench)
    const { PATH, pid } = await endlessVips(bench)
    const job = bench.start(inputs, {}, { PATH })
    await eventually('a vips', () => pid().then(isRunning, () => false))
    const vips = await pid()
    job.process.kill(signal)
    const { exit, killedBy } = await job.finished
    t.strictSame([exit, killedBy], signal === 'SIGKILL' ? [null, 'SIGKILL'] : [143, null])
    await eventually('no vips', async () => !(await isRunning(vips)))
    t.equal((await bench.run(inputs)).exit, 0)
    t.strictSame(await readdir(join(bench.folder, 'work')), [])
  })
}
