import { join } from 'node:path'
import t from 'tap'
import { SAMPLE_TITLES } from '../../../local/demo/sample-music.ts'
import { offerFirstTracks, offerTracks } from '../../../local/demo/tracks.ts'
import { startTestApi } from '../../support/api.ts'
import { ffmpeg } from '../../support/clips.ts'

/** The music of the demo and of `npm start`, against a whole API. */
const api = await startTestApi(t)
const place = { database: api.database.url, objects: api.config.STORE_FOLDER ?? '' }
const path = join(t.testdir(), 'waves.m4a')
await ffmpeg(['-f', 'lavfi', '-i', 'sine=frequency=330:duration=2', '-c:a', 'aac', path])
const aTrack = (title: string) => ({ path, title, license: 'CC0-1.0', attribution: 'Ann' })
const offered = async () =>
  ((await api.call(api.people.member, 'GET', '/api/music-tracks')).data.tracks as { title: string }[]).map(
    (track) => track.title,
  )
const retire = (title: string) =>
  api.database.admin.query('update music_tracks set retired_at = now() where title = $1', [title])

const [first = '', second = ''] = SAMPLE_TITLES
let times = 0
const offerSamples = () =>
  offerFirstTracks(place, SAMPLE_TITLES, async () => {
    times++
    return SAMPLE_TITLES.map(aTrack)
  })

t.test('a start that was cut off after the first sample is followed by one that adds the rest', async (t) => {
  await offerTracks(place, [aTrack(first)])
  await offerSamples()
  t.strictSame(await offered(), [first, second].sort())
})

t.test('what is there is neither made nor added again, also not when it was retired', async (t) => {
  times = 0
  await offerSamples()
  await retire(second)
  await offerSamples()
  t.strictSame(await offered(), [first])
  t.equal(times, 0)
})

t.test('a track is added once', async (t) => {
  const [made, again] = [await offerTracks(place, [aTrack('Waves')]), await offerTracks(place, [aTrack('Waves')])]
  t.match(made, /^trk_/)
  t.equal(again, made)
  const { tracks } = (await api.call(api.people.member, 'GET', '/api/music-tracks')).data
  t.match(tracks.at(-1), { music_track_id: made, title: 'Waves', license: 'CC0-1.0', attribution: 'Ann' })
})

t.test('the samples stay out of a library that an administrator has filled', async (t) => {
  await api.database.admin.query('delete from music_tracks where title <> $1', ['Waves'])
  await offerSamples()
  t.strictSame(await offered(), ['Waves'])
})
