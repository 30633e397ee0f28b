import { execFile } from 'node:child_process'
import { createReadStream } from 'node:fs'
import { readdir, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import t from 'tap'
import { withInput } from '../../../../api/features/music-tracks/input.ts'
import { pathOf, startTestApi, uuidOf } from '../../../support/api.ts'
import { commandLine } from '../../../support/command-line.ts'

/** Music tracks: what administrators offer by the command line, and what users hear of them. */
const api = await startTestApi(t)
const { people, call, database, config } = api
const folder = t.testdir()
const env = { DATABASE_URL: database.url, STORE_KIND: 'folder', STORE_FOLDER: config.STORE_FOLDER }

const cli = (...args: string[]) => commandLine(args, env)

/** A tone of so many seconds; the name decides the format. */
async function tone(name: string, seconds: number, options: readonly string[] = []): Promise<string> {
  const path = join(folder, name)
  const source = ['-f', 'lavfi', '-i', `sine=frequency=440:duration=${seconds}`]
  await promisify(execFile)('ffmpeg', ['-v', 'error', '-y', ...source, ...options, path])
  return path
}
const texts = ['--title', 'Waves', '--license', 'CC BY 4.0', '--attribution', 'Waves, by Ann']
const list = async () => (await call(people.member, 'GET', '/api/music-tracks')).data
const audited = () =>
  database.admin
    .query(`select details from audit_log where resource_type = 'track' order by id`)
    .then(({ rows }) => rows.map(({ details }) => details.operation))

t.test('a track is offered, heard, and retired', async (t) => {
  t.match(await list(), { tracks: { length: 0 }, expires_in: 3600 })
  const added = await cli('track', 'add', await tone('waves.mp3', 3), ...texts)
  t.match(added, { code: 0, out: { music_track_id: /^trk_/, mime_type: 'audio/mpeg', retired: false } })
  const { music_track_id: id } = added.out
  const { tracks } = await list()
  t.match(tracks, [
    { music_track_id: id, title: 'Waves', license: 'CC BY 4.0', attribution: 'Waves, by Ann', preview_url: String },
  ])
  t.ok(Math.abs(tracks[0].duration_sec - 3) < 0.2, String(tracks[0].duration_sec))
  const heard = await call(undefined, 'GET', pathOf(tracks[0].preview_url), { headers: { range: 'bytes=0-99' } })
  t.strictSame(
    [heard.status, heard.headers.get('content-type'), heard.headers.get('content-range')],
    [206, 'audio/mpeg', `bytes 0-99/${added.out.file_size_bytes}`],
  )
  t.strictSame(await api.keys('tracks/'), [`tracks/${uuidOf('track', id)}/audio`])

  for (let n = 0; n < 2; n++) t.match(await cli('track', 'retire', id), { code: 0, out: { retired: true } })
  t.strictSame((await list()).tracks, [])
  t.equal((await call(undefined, 'GET', pathOf(tracks[0].preview_url))).status, 404)
  t.match(await cli('track', 'list'), { code: 0, out: { tracks: [{ music_track_id: id, retired: true }] } })
  t.equal((await api.keys('tracks/')).length, 1, 'highlights that use it need the file')
  t.strictSame(await audited(), ['add track', 'retire track'])
})

t.test('the containers that browsers play are accepted, by what is in the file', async (t) => {
  const types = { 'a.m4a': 'audio/mp4', 'a.ogg': 'audio/ogg', 'a.flac': 'audio/flac', 'a.wav': 'audio/wav' }
  for (const [name, type] of Object.entries(types)) {
    t.match(await cli('track', 'add', await tone(name, 1), ...texts), { code: 0, out: { mime_type: type } }, name)
  }
})

t.test('a track can be read from standard input, the only way for a file into a pod', async (t) => {
  const path = await tone('piped.flac', 2)
  const temporary = async () => (await readdir(tmpdir())).filter((name) => name.startsWith('keepsake-track-'))
  const before = await temporary()
  const piped = (input: Readable) => commandLine(['track', 'add', '-', ...texts], env, input)
  const { size } = await stat(path)
  t.match(await piped(createReadStream(path)), {
    code: 0,
    out: { mime_type: 'audio/flac', file_size_bytes: size },
  })
  t.match(await piped(Readable.from([])), { code: 3, err: /is no audio file/ })
  const tooMuch = withInput(Readable.from([Buffer.alloc(8), Buffer.alloc(8)]), async () => t.fail('it is used'), 15)
  await t.rejects(tooMuch, { code: 'FILE_TOO_LARGE' })
  t.strictSame(await temporary(), before, 'nothing is left of the file')
})

t.test('a file that is no track is refused, and nothing of it is kept', async (t) => {
  const before = await api.keys('tracks/')
  const wordy = join(folder, 'words.mp3')
  await writeFile(wordy, 'These are words.')
  const playlist = join(folder, 'list.mp3')
  await writeFile(playlist, '#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nfile:///etc/passwd\n')
  const bad: [string, string, number][] = [
    ['no file', join(folder, 'missing.mp3'), 3],
    ['a folder', folder, 3],
    ['words', wordy, 3],
    ['a playlist', playlist, 3],
    ['another container', await tone('a.aiff', 2), 3],
    ['half a second', await tone('short.wav', 0.5), 3],
    ['what jobs do not decode: 64 bits', await tone('double.wav', 1, ['-c:a', 'pcm_f64le']), 3],
    ['ADPCM', await tone('adpcm.wav', 1, ['-c:a', 'adpcm_ms']), 3],
    ['Speex', await tone('speex.ogg', 1, ['-ar', '16000', '-c:a', 'libspeex']), 3],
  ]
  for (const [what, path, status] of bad) t.equal((await cli('track', 'add', path, ...texts)).code, status, what)
  t.strictSame(await api.keys('tracks/'), before)
})

t.test('license and attribution are required', async (t) => {
  const path = await tone('b.mp3', 1)
  for (const missing of ['--title', '--license', '--attribution']) {
    const at = texts.indexOf(missing)
    t.match(await cli('track', 'add', path, ...texts.toSpliced(at, 2)), { code: 2, err: /needs --title/ })
    t.match(await cli('track', 'add', path, ...texts.with(at + 1, ' ')), { code: 3, err: /must not be empty/ })
  }
  t.equal((await cli('track', 'retire', `trk_${'0'.repeat(26)}`)).code, 3)
  t.equal((await cli('track', 'retire', 'waves')).code, 2)
  t.equal((await cli('org', 'create', 'x', '--title', 'y')).code, 2)
})

t.test('users without an organization hear them too, others are asked to sign in', async (t) => {
  t.equal((await call(people.platformAdmin, 'GET', '/api/music-tracks')).status, 200)
  t.equal((await call(undefined, 'GET', '/api/music-tracks')).status, 401)
})
