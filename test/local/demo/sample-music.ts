import { readdir, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { sampleTracks } from '../../../local/demo/sample-music.ts'
import { loudness } from '../../support/sound.ts'

t.test('the demo has two tracks of its own, made once', async (t) => {
  t.testdir({})
  const tracks = await sampleTracks(t.testdirName)
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
  const [old, young] = ['morning-walk.m4a.11', 'evening-lights.m4a.12']
  for (const draft of [old, young]) await writeFile(join(t.testdirName, draft), 'half')
  await utimes(join(t.testdirName, old), new Date(0), new Date(0))
  t.strictSame(await sampleTracks(t.testdirName), tracks)
  const left = (await readdir(t.testdirName)).sort()
  t.strictSame(left, ['evening-lights.m4a', young, 'morning-walk.m4a'], 'what an interrupted start left is removed')
})
