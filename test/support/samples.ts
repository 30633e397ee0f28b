import { createHash } from 'node:crypto'
import { cp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sampleTracks } from '../../local/demo/sample-music.ts'
import { samplePhotos } from '../../local/demo/sample-photos.ts'
import { madeOnce } from './clips.ts'

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
