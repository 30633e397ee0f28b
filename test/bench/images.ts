import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { heic, PHONE, tiffOf } from '../support/pictures.ts'
import { transcodeBench } from '../support/transcode-run.ts'

/** The job's processor time for a batch of photos, compared with a bare loop of vips that writes the same files. */

/** The libvips of sharp sets VIPSHOME in this process, where the system's vips would look for its decoders. */
const env = { PATH: process.env['PATH'] }
const execute = promisify(execFile)
const run = (command: string, args: string[]) => execute(command, args, { env })
const PHOTOS = 8
const after: (() => unknown)[] = []
const folder = await mkdtemp(join(tmpdir(), 'keepsake-bench-images-'))
const bench = await transcodeBench({ teardown: (f) => after.push(f) })

/** Seconds of all ended children; `/proc/self/stat` counts hundredths. */
async function childSeconds(): Promise<number> {
  const fields = (await readFile('/proc/self/stat', 'utf8')).split(') ')[1]?.split(' ') ?? []
  return (Number(fields[13]) + Number(fields[14])) / 100
}

async function costOf(work: () => Promise<unknown>): Promise<number> {
  const before = await childSeconds()
  await work()
  return (await childSeconds()) - before
}

async function vipsLoop(file: string, full: boolean): Promise<void> {
  for (let i = 0; i < PHOTOS; i++) {
    if (full) await run('vips', ['copy', file, `${folder}/full.jpg[Q=82,strip]`])
    const from = full ? `${folder}/full.jpg` : file
    for (const [side, quality] of [
      [2048, 80],
      [512, 75],
    ]) {
      const to = `${folder}/small.webp[Q=${quality},strip,effort=2]`
      await run('vips', ['thumbnail', from, to, String(side), '--height', String(side), '--size', 'down'])
    }
  }
}

const jpeg = join(folder, 'photo.jpg')
const noisy = 'mandelbrot=s=4032x3024,noise=alls=8'
await run('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', noisy, '-frames:v', '1', '-q:v', '3', jpeg])
const photo = await readFile(jpeg)
await writeFile(join(folder, 'photo.heic'), await heic(photo, { tile: 512, irot: 3, exif: await tiffOf(PHONE, 6) }))

console.log('| 12 MP photo | job, CPU s per photo | bare vips | ratio |\n|---|---|---|---|')
for (const [name, full] of [
  ['photo.heic', true],
  ['photo.jpg', false],
] as const) {
  const bytes = await readFile(join(folder, name))
  const inputs = await bench.imagesOf(
    Object.fromEntries(Array.from({ length: PHOTOS }, (_, i) => [`${name}-${i}`, bytes])),
  )
  const job = await costOf(async () => {
    const { exit, output } = await bench.run(inputs)
    if (exit !== 0) throw new Error(output)
  })
  const bare = await costOf(() => vipsLoop(join(folder, name), full))
  console.log(`| ${name} | ${(job / PHOTOS).toFixed(2)} | ${(bare / PHOTOS).toFixed(2)} | ${(job / bare).toFixed(2)} |`)
}
for (const f of after) await f()
await rm(folder, { recursive: true, force: true })
