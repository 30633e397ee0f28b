import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import sharp from 'sharp'
import { gif, segment, withSegments } from '../support/image-bombs.ts'
import { heic, PHONE, tiffOf } from '../support/pictures.ts'
import type { transcodeBench } from '../support/transcode-run.ts'
import { watchMemory } from '../support/tree-memory.ts'

/** The memory that one job needs for the largest picture of each kind. */

type Bench = Awaited<ReturnType<typeof transcodeBench>>
type Vips = (args: readonly string[]) => Promise<unknown>

const MIB = 1024 ** 2
const LIMIT_MIB = 512
/** What the job's own process may need beside a decoder that holds the whole picture. */
const OWN_MIB = 128

const turned = async (jpeg: Buffer, orientation: number) =>
  withSegments(jpeg, segment(0xe1, 'Exif\0\0', await tiffOf(PHONE, orientation)))

export async function measureMemory(bench: Bench, folder: string, vips: Vips): Promise<void> {
  console.log('\n| picture | end | MiB held | with mapped files | target |\n|---|---|---|---|---|')
  const row = async (name: string, picture: Buffer, target: number) => {
    const job = bench.start(await bench.imagesOf({ [name.replaceAll(/\W/g, '-')]: picture }))
    const peak = watchMemory(job.process.pid ?? 0)
    const { result } = await job.finished
    const { held, resident } = peak()
    const mib = Math.round(held / MIB)
    const end = result?.outputs?.[0]?.reason ?? 'converted'
    const verdict = `≤ ${target}: ${mib <= target ? 'met' : 'MISSED'}`
    console.log(`| ${name} | ${end} | ${mib} | ${Math.round(resident / MIB)} | ${verdict} |`)
  }
  const made = (width: number, height: number, to: string) => makePicture(vips, folder, { width, height, to })

  const jpeg = await made(16_000, 12_500, 'large.jpg')
  for (let o = 1; o <= 8; o++) await row(`JPEG, 200 MP, orientation ${o}`, await turned(jpeg, o), LIMIT_MIB)
  const whole = LIMIT_MIB + OWN_MIB
  await row('progressive JPEG, 200 MP', await made(16_000, 12_500, 'large.jpg[interlace]'), LIMIT_MIB)
  await row('progressive JPEG, 160 MP', await made(16_000, 10_000, 'large.jpg[interlace]'), whole)
  await row('PNG, 200 MP', await made(16_000, 12_500, 'large.png[compression=1]'), LIMIT_MIB)
  await row('interlaced PNG, 160 MP', await made(16_000, 10_000, 'large.png[compression=1,interlace]'), whole)
  await row('WebP, 43 MP', await made(8000, 5400, 'large.webp[effort=0]'), whole)
  await row('GIF, 57 MP, 1,000 frames', gif(7600, 7500, 1000, 7500), whole)
  const forty = await made(8192, 6144, 'large.png[compression=0]')
  const grid = { tile: 1024, exif: await tiffOf(PHONE, 6), irot: 3 }
  await row('HEIC, 48 tiles, 50 MP', await heic(forty, grid), whole)
  const smaller = await sharp(forty).resize(7168, 6144, { fit: 'fill' }).png({ compressionLevel: 0 }).toBuffer()
  await row('HEIC of 10 bits, 42 tiles, 44 MP', await heic(smaller, { ...grid, columns: 7, tenBit: true }), whole)
  await row('AVIF, 4:2:0, 50 MP', await sharp(forty).avif({ effort: 0, chromaSubsampling: '4:2:0' }).toBuffer(), whole)
}

/** Noise, so that nothing can be left out. */
async function makePicture(
  vips: Vips,
  folder: string,
  { width, height, to }: { width: number; height: number; to: string },
): Promise<Buffer> {
  const path = (name: string) => join(folder, name)
  const file = path(to.replace(/\[.*/, ''))
  await vips(['gaussnoise', path('noise.v'), '2000', '1600', '--mean', '128', '--sigma', '20'])
  await vips(['cast', path('noise.v'), path('bytes.v'), 'uchar'])
  await vips(['bandjoin', Array.from({ length: 3 }, () => path('bytes.v')).join(' '), path('rgb.v')])
  await vips(['copy', path('rgb.v'), path('srgb.v'), '--interpretation', 'srgb'])
  await vips(['replicate', path('srgb.v'), path('all.v'), '8', '8'])
  await vips(['crop', path('all.v'), path(to), '0', '0', String(width), String(height)])
  const bytes = await readFile(file)
  await rm(path('all.v'))
  await writeFile(file, '')
  return bytes
}
