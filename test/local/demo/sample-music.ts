import { readdir, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { sampleTracks } from '../../../local/demo/sample-music.ts'
import { tracksAside } from '../../../local/demo/samples.ts'
import { eventually } from '../../support/eventually.ts'
import { withSampleMusic } from '../../support/samples.ts'
import { loudness } from '../../support/sound.ts'

const { signal } = new AbortController()

t.test('the demo has two tracks of its own, made once', async (t) => {
  // Made by this code, once per machine.
  const data = t.testdir({})
  await withSampleMusic(data)
  const folder = join(data, 'samples')
  const tracks = await sampleTracks(folder, signal)
  t.match(tracks, [
    { title: 'Morning walk', license: 'CC0-1.0' },
    { title: 'Evening lights', attribution: /Keepsake/ },
  ])
  for (const { path, title } of tracks) {
    const { integrated, truePeak } = await loudness(path, 2, 34)
    t.ok(integrated > -24 && integrated < -9, `${title}: ${integrated} LUFS`)
    t.ok(truePeak < 0, `${title}: ${truePeak} dBTP`)
    t.ok((await loudness(path, 30, 34)).integrated > -30, `${title} still plays after 30 s`)
  }
  const young = 'evening-lights.12.m4a'
  const old = ['morning-walk.m4a.11', 'IMG_2107.11.MOV', 'into-the-fractal.mp4.11.mp4', 'fractal-journey.mp4']
  for (const draft of [young, ...old]) await writeFile(join(folder, draft), 'half')
  for (const draft of old) await utimes(join(folder, draft), new Date(0), new Date(0))
  t.strictSame(await sampleTracks(folder, signal), tracks)
  const left = (await readdir(folder)).sort()
  t.strictSame(left, [young, 'evening-lights.m4a', 'morning-walk.m4a'], 'what an interrupted start left is removed')
})

t.test('music that is stopped while it is encoded leaves nothing', async (t) => {
  t.testdir({})
  const ending = new AbortController()
  const making = tracksAside(t.testdirName, ending.signal)
  await eventually('a draft', async () => (await readdir(t.testdirName)).length > 0)
  ending.abort()
  await t.rejects(making, { name: 'AbortError' })
  t.strictSame(await readdir(t.testdirName), [])
})
