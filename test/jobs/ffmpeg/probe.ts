import { mkdtemp, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { type ProbedSource, probe, probeWithPackets } from '../../../jobs/ffmpeg/probe.ts'
import { type ProbeDocument, refuseSparse, toSource } from '../../../jobs/ffmpeg/source.ts'
import { cameraOf, capturedAtOf, locationOf } from '../../../jobs/ffmpeg/source-tags.ts'
import { type ClipName, clip, clipOf } from '../../support/clips.ts'

const signal = new AbortController().signal
const folder = await mkdtemp(join(tmpdir(), 'keepsake-probe-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))

const facts: [ClipName, string, Partial<Omit<ProbedSource, 'video'>> & { video?: Partial<ProbedSource['video']> }][] = [
  [
    'landscape',
    'everything a phone writes down',
    {
      container: 'mov,mp4,m4a,3gp,3g2,mj2',
      width: 1440,
      height: 1080,
      rotation: 0,
      videoSeconds: 13,
      frameRate: { num: 10, den: 1 },
      variableFrameRate: false,
      hdr: null,
      capturedAt: '2024-05-17T10:20:30.000000Z',
      camera: { make: 'Acme', model: 'Phone 3' },
      location: { latitude: 48.1351, longitude: 11.582 },
    },
  ],
  [
    'rotated',
    'a lying picture that is shown standing',
    { width: 360, height: 640, video: { frame: { width: 640, height: 360 } } },
  ],
  ['wide', 'pixels that are not square', { width: 640, height: 360 }],
  ['silent', 'that there is no sound', { audio: null, frameRate: { num: 25, den: 1 } }],
  ['variable', 'a variable frame rate', { variableFrameRate: true, frameRate: { num: 30, den: 1 } }],
  ['ntsc', '29.97 frames per second', { variableFrameRate: false, frameRate: { num: 30000, den: 1001 } }],
  ['hdr', 'HDR', { hdr: 'arib-std-b67' }],
  ['upright', 'the size of frames', { video: { frame: { width: 640, height: 360 } } }],
  ['tiny', 'a tiny picture', { width: 64, height: 36, frameRate: { num: 15, den: 1 } }],
  ['webm', 'a duration that Matroska keeps as a tag', { container: 'matroska,webm', videoSeconds: 1 }],
  ['slides', 'a picture every five seconds', { frameRate: { num: 10, den: 1 }, videoSeconds: 26 }],
  ['screen', 'a screen that hardly changes', { frameRate: { num: 10, den: 1 }, variableFrameRate: true }],
  ['recorded', 'how long it is where the file does not say', { videoSeconds: 1 }],
]
for (const [name, what, want] of facts) {
  t.test(`reads off a file ${what}`, async (t) => {
    const got = await probe(await clip(name), signal)
    t.match({ ...got, videoSeconds: Math.round(got.videoSeconds) }, want)
    const { source, packets } = await probeWithPackets(await clip(name), signal)
    t.strictSame(source, got, 'the same beside its packets')
    t.ok(packets?.some(({ isKey, bytes }) => isKey && bytes > 0))
  })
}

const tone = ['-f', 'lavfi', '-i', 'sine=r=48000:d=3']
const bars = ['-f', 'lavfi', '-i', 'smptebars=s=64x36:r=25:d=1']
const vp8 = ['-c:v', 'libvpx', '-deadline', 'realtime', '-cpu-used', '8']
const live = ['-c:a', 'libopus', '-live', '1', '-f', 'webm']

t.test('a recording that says nothing of its length ends with its sound', async (t) => {
  const source = await probe(await clipOf([...bars, ...tone, ...vp8, ...live], 'webm'), signal)
  t.ok(Math.abs(source.videoSeconds - 1) < 0.05, `${source.videoSeconds} s`)
  t.ok(Math.abs((source.audioSeconds ?? 0) - 3) < 0.05, `${source.audioSeconds} s`)
})

const begins: [string, string[]][] = [
  ['webm', [...vp8, ...live]],
  ['mkv', ['-c:v', 'mpeg4', '-c:a', 'flac']],
]
for (const [extension, encoders] of begins) {
  t.test(`sound that begins late begins with its first packet in ${extension}`, async (t) => {
    // ffprobe reads no further than 5 seconds.
    const late = ['-f', 'lavfi', '-i', 'smptebars=s=64x36:r=25:d=12', '-itsoffset', '8', ...tone]
    const path = await clipOf([...late, ...encoders], extension)
    const source = await probe(path, signal)
    t.ok(Math.abs((source.audio?.startSeconds ?? 0) - 8) < 0.05, `${source.audio?.startSeconds} s`)
    t.strictSame((await probeWithPackets(path, signal)).source, source)
  })
}

t.test('the pictures of a recording may stop long before its sound', async (t) => {
  const silence = ['-f', 'lavfi', '-i', 'anullsrc=r=48000:d=310']
  const path = await clipOf([...bars, ...silence, ...vp8, ...live, '-b:a', '6k', '-frame_duration', '60'], 'webm')
  const source = await probe(path, signal)
  t.ok(Math.abs((source.audioSeconds ?? 0) - 310) < 0.1, `${source.audioSeconds} s`)
  t.ok(source.videoSeconds < 2, `${source.videoSeconds} s`)
})

t.test('sound whose end lies beyond the limit is refused as a picture is', async (t) => {
  const late = ['-itsoffset', '14500', ...tone]
  const path = await clipOf([...bars, ...late, ...vp8, ...live, '-cluster_time_limit', '1000'], 'webm')
  await t.rejects(probe(path, signal), { code: 12, reason: 'LimitExceeded', message: /longer than 4 hours/ })
})

t.test('a recording whose stamps begin late is as long as what it shows', async (t) => {
  const path = await clipOf([...bars, ...vp8, ...live, '-output_ts_offset', '0.8'], 'webm')
  const { startSeconds, videoSeconds } = await probe(path, signal)
  t.equal(startSeconds, 0.8)
  t.ok(Math.abs(videoSeconds - 1) < 0.05, `${videoSeconds} s`)
})

const unused: [string, string[]][] = [
  ['webm', [...vp8, '-c:a', 'libopus']],
  ['mp4', ['-c:v', 'mpeg4', '-c:a', 'aac', '-movflags', 'frag_keyframe+empty_moov']],
]
for (const [extension, encoders] of unused) {
  t.test(`sound without a packet is no sound in ${extension} either`, async (t) => {
    const silenced = ['-filter_complex', '[1:a]atrim=end=0[a]', '-map', '0:v', '-map', '[a]']
    const path = await clipOf([...bars, ...tone, ...silenced, ...encoders], extension)
    t.equal((await probe(path, signal)).audio, null)
    const { source } = await probeWithPackets(path, signal)
    t.match(source, { audio: null, audioSeconds: null })
    t.ok(Math.abs(source.videoSeconds - 1) < 0.05, `${source.videoSeconds} s`)
  })
}

t.test('tags that fill more than a line are read', async (t) => {
  const tags = ['prompt', 'workflow'].flatMap((name) => ['-metadata', `${name}=${'"'.repeat(40_000)}`])
  const dated = ['-metadata', 'creation_time=2024-05-17T10:20:30Z', '-movflags', 'use_metadata_tags']
  const path = await clipOf(['-i', await clip('tiny'), '-c', 'copy', ...tags, ...dated])
  const { source, packets } = await probeWithPackets(path, signal)
  t.equal(packets, undefined)
  t.match(source, { capturedAt: '2024-05-17T10:20:30.000000Z' })
})

t.test('a file with more packets than a document holds is read without them', async (t) => {
  const [picture, silence] = ['color=s=64x36:r=1:d=130', 'anullsrc=d=130:r=48000']
  const encoders = [
    '-c:v',
    'libx264',
    '-preset',
    'ultrafast',
    '-c:a',
    'libopus',
    '-frame_duration',
    '2.5',
    '-b:a',
    '6k',
  ]
  const path = await clipOf(['-f', 'lavfi', '-i', picture, '-f', 'lavfi', '-i', silence, ...encoders])
  const { source, packets } = await probeWithPackets(path, signal)
  t.equal(packets, undefined)
  t.strictSame(source, await probe(path, signal))
})

t.test('the rotation is what the player has to turn counterclockwise', async (t) => {
  t.equal((await probe(await clip('rotated'), signal)).rotation, 90)
  // The matrix (0, 1, -1, 0) of a phone held upright, whose pictures players turn clockwise.
  const upright = ['-i', await clip('upright'), '-c', 'copy', '-metadata:s:v', 'rotate=270']
  t.equal((await probe(await clipOf(upright), signal)).rotation, 270)
})

const disguises: [string, string][] = [
  ['an HLS playlist called .mp4', '#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n'],
  ['a list of files called .mp4', 'ffconcat version 1.0\nfile /etc/passwd\n'],
  ['a DASH manifest called .mp4', '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"><Period/></MPD>'],
  [
    'a drawing called .mp4',
    '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><image href="/etc/passwd"/></svg>',
  ],
]
for (const [what, text] of disguises) {
  t.test(`${what} is no video, and what it names is not opened`, async (t) => {
    const path = join(folder, 'disguised.mp4')
    await writeFile(path, text)
    await t.rejects(probe(path, signal), {
      name: 'PermanentError',
      code: 12,
      reason: /^(UnsupportedFormat|CorruptInput)$/,
    })
  })
}

const refused: [string, () => Promise<string>, string][] = [
  ['a codec nobody needs', () => clip('exotic'), 'UnsupportedCodec'],
  ['sound without a picture', () => clip('audioOnly'), 'NoVideoStream'],
  ['music with a cover', () => clip('cover'), 'NoVideoStream'],
  ['half a file whose index is at the end', () => clip('headless'), 'CorruptInput'],
  ['a text', () => written('hello, this is no video at all\n'.repeat(50)), 'CorruptInput'],
  ['an empty file', () => written(''), 'CorruptInput'],
  ['two frames nearly four hours apart', () => clip('farApart'), 'LimitExceeded'],
  ['the same where the file claims a frame rate', () => clip('farApartWebm'), 'LimitExceeded'],
  ['more than 10 GiB', () => sparse(10 * 1024 ** 3 + 1), 'LimitExceeded'],
]
for (const [what, path, reason] of refused) {
  t.test(`${what} is refused as ${reason}`, async (t) => {
    await t.rejects(probe(await path(), signal), { name: 'PermanentError', code: 12, reason })
  })
}

t.test('a file that we cannot open is not the fault of its uploader', async (t) => {
  await t.rejects(probe(join(folder, 'missing.mp4'), signal), { code: 'ENOENT' })
})

const stream = { index: 0, codec_type: 'video', codec_name: 'h264', width: 1920, height: 1080, r_frame_rate: '30/1' }
const documentOf = (video: object, format: object = {}): ProbeDocument => ({
  streams: [
    { ...stream, avg_frame_rate: '30/1', duration: '10', disposition: {}, side_data_list: [], tags: {}, ...video },
  ],
  format: { format_name: 'mov', tags: {}, ...format },
})
const absurd: [string, object][] = [
  ['longer than four hours', { duration: '14401' }],
  ['wider than 8192', { width: 8194, height: 100 }],
  ['larger than 36 megapixels', { width: 8000, height: 8000 }],
  ['stretched beyond reason', { sample_aspect_ratio: '1:9000' }],
  ['smaller than 16 pixels', { width: 8, height: 400 }],
]
for (const [what, video] of absurd) {
  t.test(`a picture ${what} is beyond the limits`, async (t) => {
    t.throws(() => toSource(documentOf(video)), { code: 12, reason: 'LimitExceeded' })
  })
}

t.test('a video of more than five minutes needs a frame per second on average', async (t) => {
  const table: [number, number, boolean][] = [
    [1, 300, true],
    [300, 301, false],
    [301, 301, true],
    [2, 14_001, false],
    [14_400, 14_400, true],
  ]
  for (const [frames, seconds, isFine] of table) {
    const look = () => refuseSparse(frames, seconds)
    if (isFine) t.doesNotThrow(look, `${frames} frames in ${seconds} s`)
    else t.throws(look, { code: 12, reason: 'LimitExceeded', message: /at least 1 frame per second/ })
  }
})

t.test('the timeline begins with the container, not with the picture', async (t) => {
  t.equal(toSource(documentOf({ start_time: '2.5' }, { start_time: '0.5' })).videoSeconds, 12)
})

t.test('a second sound track that nobody can decode does not matter; an only one does', async (t) => {
  const audio = {
    codec_type: 'audio',
    channels: 2,
    sample_rate: '48000',
    disposition: {},
    side_data_list: [],
    tags: {},
  }
  const document = documentOf({})
  document.streams.push({ ...audio, index: 1, codec_name: 'apac' }, { ...audio, index: 2, codec_name: 'aac' })
  t.match(toSource(document).audio, { index: 2, codec: 'aac' })
  document.streams.pop()
  t.throws(() => toSource(document), { code: 12, reason: 'UnsupportedCodec' })
  document.streams.pop()
  document.streams.push({ ...audio, index: 1, codec_name: 'aac', nb_frames: '0' })
  t.equal(toSource(document).audio, null)
})

t.test('a time of capture keeps its offset, and the epoch of a camera without a clock is none', async (t) => {
  t.equal(capturedAtOf({ 'com.apple.quicktime.creationdate': '2023-07-01T18:00:00+0200' }), '2023-07-01T18:00:00+02:00')
  for (const bad of ['1904-01-01T00:00:00.000000Z', 'yesterday', '2023-99-99T00:00:00Z', '']) {
    t.equal(capturedAtOf({ creation_time: bad }), null)
  }
})
t.test(
  'a digitized film has the time that its tags say, and the clock of its container counts from 1980',
  async (t) => {
    const [then, now] = ['1974-05-17T12:20:30Z', '2015-03-02T10:00:00.000000Z']
    t.equal(capturedAtOf({ 'com.apple.quicktime.creationdate': then, creation_time: now }), then)
    t.equal(capturedAtOf({ creation_time: '1904-01-01T00:00:00.000000Z', date: then }), then)
    t.equal(capturedAtOf({ 'com.apple.quicktime.creationdate': '1970-01-01T00:00:00Z', creation_time: now }), now)
    t.equal(capturedAtOf({ creation_time: then }), null, 'a clock that was set to no date')
    t.equal(capturedAtOf({ date: '1970-01-01T01:00:00+0100' }), null)
    t.equal(capturedAtOf({ date: '1825-01-01T00:00:00Z' }), null)
  },
)
t.test('a place is read in degrees, and 0,0 is no place', async (t) => {
  t.strictSame(locationOf({ location: '-33.8688+151.2093/' }), { latitude: -33.8688, longitude: 151.2093 })
  for (const bad of ['+00.0000+000.0000/', '+91.0+000.0/', '+10.0+181.0/', 'Berlin', ''])
    t.equal(locationOf({ location: bad }), null)
})
t.test('names of cameras are cut and cleaned', async (t) => {
  t.strictSame(cameraOf({ make: `A\u0000\u001b[31m${'x'.repeat(500)}`, model: ' ' }), {
    make: `A[31m${'x'.repeat(123)}`,
    model: null,
  })
  t.equal(cameraOf({ model: `${'x'.repeat(127)}📷` }).model, 'x'.repeat(127), 'no half of a pair')
})

async function written(text: string): Promise<string> {
  const path = join(folder, `written-${text.length}.mp4`)
  await writeFile(path, text)
  return path
}
async function sparse(size: number): Promise<string> {
  const path = join(folder, 'sparse.mp4')
  await writeFile(path, '')
  await truncate(path, size)
  return path
}
