import { cp, mkdtemp, readFile, rename, rm, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { probe } from '../../../jobs/ffmpeg/probe.ts'
import { rational } from '../../../jobs/ffmpeg/rational.ts'
import type { CopiedTop } from '../../../jobs/hls/copied-top.ts'
import { type LadderRun, ladderOf } from '../../../jobs/hls/one-pass.ts'
import { openPublisher, readPlaylist } from '../../../jobs/hls/publisher.ts'
import { explainRefusal, runEncodePass } from '../../../jobs/hls/run-encode-pass.ts'
import { type Layout, segmentLayout, timelineOf } from '../../../jobs/hls/timeline.ts'
import { crc32, PACKET } from '../../../jobs/hls/ts-packets.ts'
import { openSegmentReader, type ReadStream, verifyVideo, wrong } from '../../../jobs/hls/verify.ts'
import { EXIT } from '../../../lib/contract/job-result.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'
import { clip, ffmpeg } from '../../support/clips.ts'
import { eventually } from '../../support/eventually.ts'

/** What an encoder has made is not committed unless it is what the layout requires. */
const FRAMES = 130
const frameRate = rational(10)
const rendition = { name: 'v', width: 320, height: 240, frameRate, step: 1, maxrate: 1, bufsize: 2 } as const
const timeline = timelineOf([rendition], 2)
const { signal } = new AbortController()

const place = await mkdtemp(join(tmpdir(), 'keepsake-verify-'))
t.teardown(() => rm(place, { recursive: true, force: true }))
const [whole, other] = [join(place, 'whole'), join(place, 'other')]
await make(whole, 'high')
await make(other, 'baseline')

async function make(folder: string, profile: string): Promise<void> {
  await cp(await clip('early'), join(folder, 'source.mp4'), { recursive: true })
  await ffmpeg([
    ...[
      '-i',
      join(folder, 'source.mp4'),
      '-map',
      '0:v:0',
      '-c:v',
      'libx264',
      '-preset',
      'veryfast',
      '-profile:v',
      profile,
    ],
    ...['-force_key_frames', 'expr:gte(t,n_forced*2)', '-g', '999', '-f', 'hls', '-hls_time', '2'],
    ...['-hls_playlist_type', 'event', '-hls_segment_filename', join(folder, 'v_%05d.ts'), join(folder, 'v.m3u8')],
  ])
}

let copies = 0
async function changed(change: (folder: string) => Promise<void>): Promise<string> {
  const folder = join(place, `copy-${copies++}`)
  await cp(whole, folder, { recursive: true })
  await change(folder)
  return folder
}
const rewrite = async (path: string, of: (bytes: Buffer) => Buffer) => writeFile(path, of(await readFile(path)))
const playlist = (of: (text: string) => string) => (folder: string) =>
  rewrite(join(folder, 'v.m3u8'), (bytes) => Buffer.from(of(bytes.toString())))
const layout = (frames: number) => segmentLayout(timeline, frameRate, frames)
const verified = (folder: string, wanted: (frames: number) => Layout = layout) =>
  verifyVideo(folder, rendition, wanted, openSegmentReader(folder, signal).readAll)

t.test('what is whole is verified, and described', async (t) => {
  const made = await verified(whole)
  t.equal(made.frames, FRAMES)
  t.equal(made.segments.length, 7)
  t.match(made.codec, /^avc1\.64/)
  t.ok(made.first >= 0 && made.segments.every(({ bytes }) => bytes > 0))
})

t.test('whatever is not as it is due is refused', async (t) => {
  const second = (folder: string) => join(folder, 'v_00001.ts')
  const table: [string, RegExp, (folder: string) => Promise<void>][] = [
    ['a missing segment', /v_00001\.ts: is listed but missing/, (f) => unlink(second(f))],
    ['an empty one', /v_00001\.ts: is listed but missing or empty/, (f) => writeFile(second(f), '')],
    ['no end', /its playlist is not complete/, playlist((text) => text.replace('#EXT-X-ENDLIST\n', ''))],
    [
      'another length',
      /v_00002\.ts: lasts 1\.5 s, not 2 s/,
      playlist((text) => text.replace('2.000000,\nv_00002', '1.5,\nv_00002')),
    ],
    [
      'a lost one',
      /v_00002\.ts: a packet is missing before it/,
      playlist((text) => text.replace('#EXTINF:2.000000,\nv_00001.ts\n', '')),
    ],
    [
      'a picture that is cut short at the end of one',
      /v_00002\.ts: a packet is missing before it/,
      (f) => rewrite(second(f), (bytes) => bytes.subarray(0, -PACKET)),
    ],
    ['a lost packet', /v_00001\.ts: a packet is missing/, (f) => rewrite(second(f), without)],
    ['one cut short', /v_00001\.ts: half a packet/, (f) => rewrite(second(f), (bytes) => bytes.subarray(0, 1000))],
    ['another codec', /v_00001\.ts: is avc1\.42.*, not avc1\.64/, (f) => cp(second(other), second(f))],
  ]
  for (const [what, message, change] of table) {
    const folder = await changed(change)
    await t.rejects(verified(folder), { reason: 'VerificationFailed', message }, what)
  }
  const due: [string, RegExp, Layout][] = [
    ['more frames', /130 frames over 130 where 131 were due/, { ...layout(FRAMES), frames: 131 }],
    [
      'another keyframe',
      /7 keyframes where 8 were due/,
      { ...layout(FRAMES), keyframes: [0, 10, 20, 40, 60, 80, 100, 120] },
    ],
    [
      'a keyframe elsewhere',
      /keyframe 1 is frame 20.*, not 21/,
      { ...layout(FRAMES), keyframes: [0, 21, 40, 60, 80, 100, 120] },
    ],
  ]
  for (const [what, message, wanted] of due) {
    await t.rejects(
      verified(whole, () => wanted),
      { reason: 'VerificationFailed', message },
      what,
    )
  }
})

t.test('fewer frames than their times span are refused', async (t) => {
  const { readAll } = openSegmentReader(whole, signal)
  const fewer: ReadStream = async (segments) => ({ ...(await readAll(segments)), frames: FRAMES - 20 })
  await t.rejects(verifyVideo(whole, rendition, layout, fewer), { message: /110 frames over 130 where 110 were due/ })
})

/** A packet in the middle. */
function without(bytes: Buffer): Buffer {
  const at = PACKET * Math.floor(bytes.length / PACKET / 2)
  return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + PACKET)])
}

t.test('a segment that was read before it left is not read again', async (t) => {
  const folder = await changed(async () => {})
  const reader = openSegmentReader(folder, signal)
  await reader.read('v_00001.ts')
  await rewrite(join(folder, 'v_00001.ts'), without)
  await rewrite(join(folder, 'v_00002.ts'), without)
  await t.rejects(verifyVideo(folder, rendition, layout, reader.readAll), {
    message: /v_00002\.ts: a packet is missing/,
  })
})

t.test('what a disk refuses is no fault of a segment, and is asked again', async (t) => {
  const folder = await changed(async () => {})
  const reader = openSegmentReader(folder, signal)
  const [path, away] = [join(folder, 'v_00001.ts'), join(folder, 'away')]
  await rename(path, away)
  await t.rejects(reader.read('v_00001.ts'), { code: 'ENOENT' })
  await rename(away, path)
  t.match(await reader.read('v_00001.ts'), { frames: 20 })
})

t.test('a segment that a GPU has made and no player could play is a fault of the GPU', (t) => {
  const refused = wrong('v_00001.ts', 'does not begin with a keyframe')
  t.match(explainRefusal(refused, { accelerator: 'gpu' }), { reason: 'GpuFailed', code: EXIT.gpuBusy, cause: refused })
  t.equal(explainRefusal(refused, { accelerator: 'cpu' }), refused)
  const other = new Error('the store is away')
  t.equal(explainRefusal(other, { accelerator: 'gpu' }), other)
  t.end()
})

t.test('renditions of other lengths are a fault of the GPU, but beside a copied stream', (t) => {
  const video = (name: string, frames: number) => ({
    ...{ rendition: { ...rendition, name }, frames, first: 10, codec: 'avc1.640028', segments: [] },
  })
  const passes = [{ videos: [video('v', 100), video('w', 98)], audio: null, isWhole: true }]
  const joined = (accelerator: 'gpu' | 'cpu', copied: LadderRun['copied']) => () =>
    ladderOf({ accelerator, copied }, passes, 'because')
  const refused = { code: EXIT.verificationFailed, message: /v: 100 frames where another rendition has 98/ }
  t.throws(joined('cpu', 'it has B-frames'), refused)
  t.throws(joined('gpu', 'it has B-frames'), { code: EXIT.gpuBusy, cause: refused })
  t.throws(joined('gpu', {} as CopiedTop), refused)
  t.end()
})

t.test('a pass ends at the first segment that is refused, and nothing of that leaves', async (t) => {
  const folder = t.testdir({ hls: {}, store: {} })
  const [hls, sourcePath] = [join(folder, 'hls'), await clip('early')]
  const store = openFolderStore({ folder: join(folder, 'store') })
  t.teardown(() => store.close())
  const publisher = openPublisher({ store, prefix: 'p/', folder: hls, targetSeconds: 2, signal })
  const source = await probe(sourcePath, signal)
  const common = { accelerator: 'cpu', cores: 1, preset: 'ultrafast', withAudio: false } as const
  const pass = { source, renditions: [rendition], timeline, ...common }
  const asked: string[] = []
  const inspect = async (name: string, uri: string) => {
    asked.push(uri)
    if (uri === 'v_00002.ts') throw wrong(name, 'is refused')
  }
  // The first look ends after the encoder has: what that has written meanwhile is looked at all the same.
  let looks = 0
  const onPublished = async () => {
    if (looks++ > 0) return
    const isWhole = async () => (await readPlaylist(join(hls, 'v.m3u8')))?.ended
    await eventually('the end of the encoder', isWhole)
    await sleep(300)
  }
  const looking = { inspect, onPublished, lookMs: () => 0 }
  const run = { sourcePath, folder: hls, publisher, signal, pass, ...looking, onProgress: () => {} }
  await t.rejects(runEncodePass(run), { reason: 'VerificationFailed', message: /is refused/ })
  t.ok(asked.includes('v_00000.ts'))
  t.equal(await store.head('p/v_00002.ts'), undefined)
  // A look that found only the segments before it may have listed these.
  const list = (await store.head('p/v.m3u8')) ? await text((await store.get('p/v.m3u8')).body) : ''
  t.notMatch(list, 'v_00002.ts', 'no list names what was refused')
})

t.test('the checksum of tables is that of the standard', (t) => {
  t.equal(crc32(Buffer.from('123456789')), 0x0376e6e7)
  t.end()
})
