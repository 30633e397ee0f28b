import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { heic, PHONE, tiffOf } from '../support/pictures.ts'
import { transcodeBench } from '../support/transcode-run.ts'
import { measureMemory } from './image-memory.ts'

/**
 * The job's processor time for a batch of photos, compared with a bare loop of vips that writes the same files; then the
 * memory of a job for the largest pictures.
 */

/** The libvips of sharp sets VIPSHOME in this process, where the system's vips would look for its decoders. */
const env = { PATH: process.env['PATH'] }
const execute = promisify(execFile)
const run = (command: string, args: string[]) => execute(command, args, { env })
const PHOTOS = 8
/** A batch as full as the worker makes it: mostly photos, some from iPhones, some screenshots. */
const MIX = { 'photo.jpg': 45, 'photo.heic': 10, 'screen.png': 9 } as const
/** Screenshots and ordinary photos are shown as they are; a HEIC becomes a JPEG too. */
const needsFull = (name: string) => name.endsWith('.heic')
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

/** As a script would do it: each file in turn, and for each one the same files as the job makes. */
async function vipsLoop(counts: Readonly<Record<string, number>>): Promise<void> {
  for (const [name, count] of Object.entries(counts)) {
    for (let i = 0; i < count; i++) await vipsFiles(join(folder, name))
  }
}

async function vipsFiles(file: string): Promise<void> {
  if (needsFull(file)) await run('vips', ['copy', file, `${folder}/full.jpg[Q=82,strip]`])
  const from = needsFull(file) ? `${folder}/full.jpg` : file
  for (const [side, quality] of [
    [2048, 80],
    [512, 75],
  ]) {
    const to = `${folder}/small.webp[Q=${quality},strip,effort=2]`
    await run('vips', ['thumbnail', from, to, String(side), '--height', String(side), '--size', 'down'])
  }
}

async function inputsOf(counts: Readonly<Record<string, number>>) {
  const pictures: Record<string, Buffer> = {}
  for (const [name, count] of Object.entries(counts)) {
    const bytes = await readFile(join(folder, name))
    for (let i = 0; i < count; i++) pictures[`${name}-${i}`] = bytes
  }
  return bench.imagesOf(pictures)
}

const jpeg = join(folder, 'photo.jpg')
const noisy = 'mandelbrot=s=4032x3024,noise=alls=8'
await run('ffmpeg', ['-v', 'error', '-f', 'lavfi', '-i', noisy, '-frames:v', '1', '-q:v', '3', jpeg])
const photo = await readFile(jpeg)
await writeFile(join(folder, 'photo.heic'), await heic(photo, { tile: 512, irot: 3, exif: await tiffOf(PHONE, 6) }))

// A screenshot: text, areas and a picture.
const text = Array.from(
  { length: 40 },
  (_, i) => `<text x="40" y="${60 * i + 400}">Message ${i}: see you there!</text>`,
)
const svg = `<svg width="1170" height="2532"><rect width="100%" height="100%" fill="#eef"/><g font-size="40">${text.join('')}</g></svg>`
const inset = await sharp(photo).resize(900, 675).toBuffer()
await sharp(Buffer.from(svg))
  .composite([{ input: inset, top: 300, left: 135 }])
  .png()
  .toFile(join(folder, 'screen.png'))

console.log('| one job | CPU s per photo | bare vips | job / bare | target |\n|---|---|---|---|---|')
for (const [name, counts, target] of [
  ['8 HEIC', { 'photo.heic': PHOTOS }, 1.3],
  ['8 JPEG', { 'photo.jpg': PHOTOS }, 1 / 0.7],
  ['64 mixed', MIX, 1 / 0.7],
] as const) {
  const inputs = await inputsOf(counts)
  const job = await costOf(async () => {
    const { exit, output } = await bench.run(inputs)
    if (exit !== 0) throw new Error(output)
  })
  const bare = await costOf(() => vipsLoop(counts))
  const [each, eachBare, ratio] = [job / inputs.length, bare / inputs.length, job / bare]
  const verdict = `≤ ${target.toFixed(2)}: ${ratio <= target ? 'met' : 'MISSED'}`
  console.log(`| ${name} | ${each.toFixed(2)} | ${eachBare.toFixed(2)} | ${ratio.toFixed(2)} | ${verdict} |`)
}
await measureMemory(bench, folder, (args) => run('vips', [...args]))
for (const f of after) await f()
await rm(folder, { recursive: true, force: true })
