import { createHash } from 'node:crypto'
import { cp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sampleTracks } from '../../local/demo/sample-music.ts'
import { madeOnce } from './clips.ts'

const DEMO = join(import.meta.dirname, '../../local/demo')

/**
 * Puts the sample music of the demo into the data folder of a platform, where it would be computed for seconds. It is made
 * once per machine, and anew when the code that makes it changes.
 */
export async function withSampleMusic(folder: string): Promise<void> {
  const digest = createHash('sha256')
  for (const file of ['sample-music.ts', 'instruments.ts', 'reverb.ts']) digest.update(await readFile(join(DEMO, file)))
  const made = await madeOnce(
    `music-${digest.digest('hex').slice(0, 16)}`,
    async (path) => void (await sampleTracks(path)),
  )
  await cp(made, join(folder, 'samples'), { recursive: true })
}
