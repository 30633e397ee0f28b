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
  t.strictSame(await sampleTracks(t.testdirName), tracks)
})
