import t from 'tap'
import type { ProbedSource } from '../../../jobs/ffmpeg/probe.ts'
import { rational } from '../../../jobs/ffmpeg/rational.ts'
import { hevcFault, withHevc } from '../../../jobs/hls/hevc-copy.ts'
import { beginsWithPicture, readInitialization } from '../../../jobs/hls/hevc-init.ts'
import { ownRendition } from '../../../jobs/hls/ladder.ts'

const SOURCE: ProbedSource = {
  container: 'mov,mp4',
  startSeconds: 0,
  video: {
    index: 0,
    codec: 'hevc',
    pixelFormat: 'yuv420p',
    interlaced: false,
    colorSpace: 'bt709',
    frame: { width: 1920, height: 1080 },
  },
  stream: { profile: 'Main', level: 123, hasSquarePixels: true, isMirrored: false, startSeconds: 0 },
  audio: { index: 1, codec: 'aac', channels: 2, startSeconds: 0 },
  ...{ width: 1920, height: 1080, rotation: 0, videoSeconds: 20, audioSeconds: 20.02 },
  ...{ frameRate: rational(30), averageFrameRate: 30, variableFrameRate: false, hdr: null },
  ...{ capturedAt: null, camera: { make: null, model: null }, location: null },
}
const { video, stream } = SOURCE

for (const [what, change, fault] of [
  ['a plain one', {}, undefined],
  [
    'ten bits',
    { video: { ...video, pixelFormat: 'yuv420p10le' }, stream: { ...stream, profile: 'Main 10' } },
    undefined,
  ],
  ['4K', { width: 3840, height: 2160, stream: { ...stream, level: 153 } }, undefined],
  ['720p at 60', { width: 1280, height: 720, frameRate: rational(60), averageFrameRate: 60 }, undefined],
  ['a portrait that lies upright', { width: 1080, height: 1920 }, undefined],
  ['H.264', { video: { ...video, codec: 'h264' } }, /is h264/],
  ['a rotated one', { rotation: 90 }, /rotated/],
  ['a mirrored one', { stream: { ...stream, isMirrored: true } }, /mirrored/],
  ['4:2:2', { video: { ...video, pixelFormat: 'yuv422p10le' } }, /pixels are yuv422p10le/],
  ['an extension of ranges', { stream: { ...stream, profile: 'Rext' } }, /profile is Rext/],
  ['an unknown profile', { stream: { ...stream, profile: null } }, /profile is unknown/],
  ['level 5.2', { stream: { ...stream, level: 156 } }, /level/],
  ['an unknown level', { stream: { ...stream, level: -99 } }, /level/],
  ['HDR', { hdr: 'arib-std-b67' }, /colors/],
  ['wide colors', { video: { ...video, colorSpace: 'bt2020nc' } }, /colors/],
  ['fields', { video: { ...video, interlaced: true } }, /interlaced/],
  ['wide pixels', { stream: { ...stream, hasSquarePixels: false } }, /square/],
  ['a variable rate', { variableFrameRate: true }, /not constant/],
  ['240 frames a second at 60', { averageFrameRate: 240, frameRate: rational(60) }, /not that of the rendition/],
  ['late pictures', { stream: { ...stream, startSeconds: 0.02 } }, /later than its sound/],
  ['a longer sound', { audioSeconds: 25 }, /sound is longer/],
] as const) {
  t.test(`${what}: ${fault === undefined ? 'its packets decide' : 'is not added'}`, async (t) => {
    const source = { ...SOURCE, ...change }
    const said = hevcFault(source, ownRendition(source))
    if (fault === undefined) t.equal(said, undefined)
    else t.match(said, fault)
  })
}

t.test('it may have more bits where its picture is larger, and has a name of its own', async (t) => {
  const [full, large] = [ownRendition(SOURCE), ownRendition({ ...SOURCE, width: 2160, height: 3840 })]
  t.match(full, { name: '1080p-hevc', width: 1920, height: 1080, maxrate: 6_000_000 })
  t.match(large, { name: '2160p-hevc', width: 2160, height: 3840 })
  t.ok(large.maxrate > 2 * full.maxrate)
})

t.test('the reason of a plan says what became of it', async (t) => {
  t.equal(withHevc('a; b', undefined), 'a; b')
  t.equal(withHevc('a', { name: '1080p-hevc' }), 'a; it is added as 1080p-hevc')
  t.equal(withHevc('a', { fault: 'it is rotated' }), 'a; nor is it added as HEVC: it is rotated')
  const [long, end] = [withHevc('a'.repeat(256), { fault: 'x' }), '; nor is it added as HEVC: x']
  t.equal(long, `${'a'.repeat(256 - end.length)}${end}`, 'the end stays')
})

const box = (type: string, ...content: Buffer[]): Buffer => {
  const body = Buffer.concat(content)
  const head = Buffer.alloc(8)
  head.writeUInt32BE(body.length + 8)
  head.write(type, 4, 'latin1')
  return Buffer.concat([head, body])
}
const units = (type: number, ...texts: string[]): Buffer =>
  Buffer.concat([
    Buffer.from([0x80 | type, 0, texts.length]),
    ...texts.flatMap((text) => [Buffer.from([0, text.length]), Buffer.from(text)]),
  ])

interface Configuration {
  profile?: number
  compatibility?: number
  constraints?: number[]
  level?: number
  arrays?: Buffer[]
  count?: number
}

/** As ISO/IEC 14496-15 §8.3.3.1.2 lays it out. */
function hvcC({
  profile = 1,
  compatibility = 0x60000000,
  constraints = [0xb0],
  level = 93,
  arrays,
  count,
}: Configuration) {
  const all = arrays ?? [units(32, 'vps'), units(33, 'sps'), units(34, 'pps')]
  const head = Buffer.alloc(23)
  head.writeUInt8(1, 0)
  head.writeUInt8(profile, 1)
  head.writeUInt32BE(compatibility, 2)
  Buffer.from(constraints).copy(head, 6)
  head.writeUInt8(level, 12)
  head.writeUInt8(count ?? all.length, 22)
  return box('hvcC', head, ...all)
}

function initialization(configuration: Buffer): Buffer {
  const entry = box('hvc1', Buffer.alloc(78), box('fiel', Buffer.alloc(2)), configuration, box('pasp', Buffer.alloc(8)))
  const table = box('stbl', box('stsd', Buffer.alloc(8), entry), box('stts', Buffer.alloc(8)))
  const media = box('mdia', box('mdhd', Buffer.alloc(24)), box('minf', box('vmhd', Buffer.alloc(12)), table))
  return Buffer.concat([
    box('ftyp', Buffer.from('iso6')),
    box('moov', box('mvhd', Buffer.alloc(100)), box('trak', box('tkhd', Buffer.alloc(84)), media), box('mvex')),
  ])
}

for (const [what, configuration, codec] of [
  ['Main', {}, 'hvc1.1.6.L93.B0'],
  ['Main 10', { profile: 2, compatibility: 0x20000000, constraints: [0x90], level: 153 }, 'hvc1.2.4.L153.90'],
  ['the high tier', { profile: 0x22, compatibility: 0x20000000, level: 150 }, 'hvc1.2.4.H150.B0'],
  ['a profile of others', { profile: 0x41, compatibility: 0x80000000 }, 'hvc1.A1.1.L93.B0'],
  ['no constraints', { constraints: [] }, 'hvc1.1.6.L93'],
  ['constraints in the middle', { constraints: [0xb0, 0, 8, 0, 0, 0] }, 'hvc1.1.6.L93.B0.00.08'],
] as const) {
  t.test(`${what} is called ${codec}`, async (t) => {
    const file = initialization(hvcC(configuration as Configuration))
    t.strictSame(readInitialization(file), { codec, bytes: file }, 'and nothing is changed')
  })
}

t.test('messages beside the parameter sets are removed, and all sizes fit', async (t) => {
  const sets = [units(32, 'vps'), units(33, 'sps', 'another'), units(34, 'pps')]
  const messages = [units(39, 'made at 48.1 11.5', 'by me'), units(40, 'serial number')]
  const [a, b, c] = sets as [Buffer, Buffer, Buffer]
  const file = initialization(hvcC({ arrays: [messages[0] as Buffer, a, b, messages[1] as Buffer, c] }))
  t.strictSame(readInitialization(file)?.bytes, initialization(hvcC({ arrays: sets })))
})

for (const [what, file] of [
  ['nothing', Buffer.alloc(0)],
  ['zeros', Buffer.alloc(4096)],
  ['no parameter sets', initialization(hvcC({ arrays: [] }))],
  ['no picture parameter set', initialization(hvcC({ arrays: [units(32, 'vps'), units(33, 'sps')] }))],
  ['more arrays than it has', initialization(hvcC({ count: 9 }))],
  ['fewer arrays than it has', initialization(hvcC({ count: 2 }))],
  ['a unit beyond its end', initialization(hvcC({ arrays: [Buffer.from([0x80 | 32, 0, 1, 0xff, 0xff])] }))],
  ['H.264', initialization(box('avcC', Buffer.alloc(30)))],
  ['half a file', initialization(hvcC({})).subarray(0, 300)],
] as const) {
  t.test(`${what}: is no initialization of HEVC`, async (t) => t.equal(readInitialization(file), undefined))
}

t.test('a decoder begins with a picture that needs no other', async (t) => {
  const unit = (type: number) => Buffer.from([0, 0, 1, 0, type << 1, 1])
  t.strictSame(
    [0, 1, 8, 15, 16, 19, 20, 21, 22, 32, 39].filter((type) => beginsWithPicture(unit(type))),
    [16, 19, 20, 21],
  )
  t.notOk(beginsWithPicture(Buffer.alloc(4)))
})
