import { createHash } from 'node:crypto'
import { cp, mkdir, readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import sharp from 'sharp'
import { encode } from '../../local/demo/sample-file.ts'
import { sampleTracks } from '../../local/demo/sample-music.ts'
import { samplePhotos } from '../../local/demo/sample-photos.ts'
import { ffmpeg, madeOnce } from './clips.ts'

const { signal } = new AbortController()
const DEMO = join(import.meta.dirname, '../../local/demo')

/**
 * Puts samples of the demo into the data folder of a platform, where they would be computed for seconds. They are made
 * once per machine, and anew when the code that makes them changes.
 */
async function withSamples(
  folder: string,
  kind: string,
  code: readonly string[],
  make: (path: string) => Promise<unknown>,
): Promise<void> {
  const digest = createHash('sha256')
  for (const file of code) digest.update(await readFile(join(DEMO, file)))
  const made = await madeOnce(`${kind}-${digest.digest('hex').slice(0, 16)}`, async (path) => void (await make(path)))
  await cp(made, join(folder, 'samples'), { recursive: true })
}

export const withSampleMusic = (folder: string) =>
  withSamples(folder, 'music', ['sample-file.ts', 'sample-music.ts', 'instruments.ts', 'reverb.ts'], (path) =>
    sampleTracks(path, signal),
  )

export const withSamplePhotos = (folder: string) =>
  withSamples(folder, 'photos', ['sample-file.ts', 'sample-photos.ts'], (path) => samplePhotos(path, signal))

/** Small files of the same names and times, for a test that is about their number: they cost a tenth to convert. */
export const withSmallPhotos = (folder: string) =>
  withSamples(folder, 'small-photos', ['sample-file.ts', 'sample-photos.ts', '../../test/support/samples.ts'], (path) =>
    smallPhotos(path),
  )

async function smallPhotos(folder: string): Promise<void> {
  const whole = `${folder}.whole`
  await withSamplePhotos(whole)
  await mkdir(folder)
  const names = await readdir(join(whole, 'samples'))
  const [from, to] = [(name: string) => join(whole, 'samples', name), (name: string) => join(folder, name)]
  for (const name of names.filter((name) => /\.(jpg|png)$/i.test(name)))
    await sharp(from(name)).resize({ width: 240 }).keepExif().toFile(to(name))
  for (const name of names.filter((name) => name.endsWith('.HEIC')))
    await encode(signal, ['vips', 'heifsave', to(name.replace('.HEIC', '.JPG')), to(name)])
  for (const name of names.filter((name) => name.endsWith('.MOV')))
    await ffmpeg(['-i', from(name), '-vf', 'scale=320:-2,fps=10', '-t', '1', '-map_metadata', '0', to(name)])
}
