import t from 'tap'
import type { ProbedSource } from '../../../jobs/ffmpeg/probe.ts'
import { rational } from '../../../jobs/ffmpeg/rational.ts'
import { type CopiedTop, copiedLayout, copyFault, openCopyScan } from '../../../jobs/hls/copied-top.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'
import { firstFrameOf, keyframeExpression, longestGop, segmentLayout, timelineOf } from '../../../jobs/hls/timeline.ts'

const SOURCE: ProbedSource = {
  container: 'mov,mp4',
  startSeconds: 0,
  video: {
    index: 0,
    codec: 'h264',
    pixelFormat: 'yuv420p',
    interlaced: false,
    colorSpace: 'bt709',
    frame: { width: 1920, height: 1080 },
  },
  stream: { profile: 'High', level: 40, hasSquarePixels: true, isMirrored: false, startSeconds: 0 },
  audio: { index: 1, codec: 'aac', channels: 2, startSeconds: 0 },
  ...{ width: 1920, height: 1080, rotation: 0, videoSeconds: 20, audioSeconds: 20.02 },
  ...{ frameRate: rational(30), averageFrameRate: 30, variableFrameRate: false, hdr: null },
  ...{ capturedAt: null, camera: { make: null, model: null }, location: null },
}
const WANTED = ['360p', '720p', '1080p']
const { video, stream } = SOURCE

for (const [what, change, fault] of [
  ['a plain one', {}, undefined],
  ['one without colors', { video: { ...video, colorSpace: null } }, undefined],
  ['a portrait', { width: 1080, height: 1920 }, undefined],
  ['HEVC', { video: { ...video, codec: 'hevc' } }, /is hevc/],
  ['ten bits', { video: { ...video, pixelFormat: 'yuv420p10le' } }, /pixels are yuv420p10le/],
  ['full range', { video: { ...video, pixelFormat: 'yuvj420p' } }, /pixels are yuvj420p/],
  ['fields', { video: { ...video, interlaced: true } }, /interlaced/],
  ['wide colors', { video: { ...video, colorSpace: 'bt2020nc' } }, /colors/],
  ['HDR', { hdr: 'smpte2084' }, /colors/],
  ['High 10', { stream: { ...stream, profile: 'High 10' } }, /profile is High 10/],
  ['Baseline', { stream: { ...stream, profile: 'Baseline' } }, /profile is Baseline/],
  ['an unknown profile', { stream: { ...stream, profile: null } }, /profile is unknown/],
  ['level 5', { stream: { ...stream, level: 50 } }, /level/],
  ['a mirrored one', { stream: { ...stream, isMirrored: true } }, /mirrored/],
  ['wide pixels', { stream: { ...stream, hasSquarePixels: false } }, /square/],
  ['late pictures', { stream: { ...stream, startSeconds: 0.02 } }, /later than its sound/],
  ['a rotated one', { rotation: 90 }, /rotated/],
  ['4K', { width: 3840, height: 2160 }, /larger/],
  ['one between two renditions', { width: 1600, height: 900 }, /larger/],
  ['the smallest alone', { width: 640, height: 360 }, /no smaller/],
  ['a variable rate', { variableFrameRate: true }, /not constant/],
  ['240 frames a second at 60', { averageFrameRate: 240, frameRate: rational(60) }, /not that of the rendition/],
  ['a longer sound', { audioSeconds: 25 }, /sound is longer/],
] as const) {
  t.test(`${what}: ${fault === undefined ? 'its packets decide' : 'is encoded'}`, async (t) => {
    const source = { ...SOURCE, ...change }
    const said = copyFault(source, ladderOf(source, WANTED))
    if (fault === undefined) t.equal(said, undefined)
    else t.match(said, fault)
  })
}

interface Stream {
  frames: number
  keys: (frame: number) => boolean
  rate?: [number, number]
  bytes?: (frame: number) => number
  pts?: (frame: number) => number
  /** The order in the file. */
  order?: (frames: number[]) => number[]
  /** The first frame of another stream. */
  other?: number
}

function scan({ frames, keys, rate = [30, 1], bytes = () => 20_000, pts = (n) => n, order = (o) => o, other }: Stream) {
  const frameRate = rational(...rate)
  const ladder = ladderOf({ ...SOURCE, frameRate }, WANTED)
  const top = ladder.at(-1)
  if (!top) throw new Error('no ladder')
  const timeline = timelineOf(ladder, 6)
  const scan = openCopyScan({ top, timeline, seconds: (frames * frameRate.den) / frameRate.num })
  for (const n of order(Array.from({ length: frames }, (_, n) => n))) {
    const seconds = (pts(n) * frameRate.den) / frameRate.num
    scan.add({
      pts: Number(seconds.toFixed(6)),
      bytes: bytes(n),
      isKey: keys(n),
      isDiscarded: false,
      isOther: n === other,
    })
  }
  return { found: scan.end(), ladder, timeline }
}
const every = (n: number) => (frame: number) => frame % n === 0
const among =
  (...keys: number[]) =>
  (frame: number) =>
    keys.includes(frame)

for (const [what, stream, starts, targetSeconds] of [
  ['a keyframe a second', { frames: 400, keys: every(30) }, [0, 180, 360], 6],
  ['a keyframe every 8.3 s', { frames: 600, keys: every(250) }, [0, 250, 500], 9],
  ['scene cuts', { frames: 600, keys: among(0, 17, 170, 190, 341, 362, 500) }, [0, 190, 362], 8],
  ['29.97', { frames: 1300, keys: every(30), rate: [30000, 1001] }, [0, 180, 360, 540, 720, 900, 1080, 1260], 7],
  ['B-frames', { frames: 400, keys: every(180), order: reordered }, [0, 180, 360], 6],
  [
    'time stamps of a coarse clock',
    { frames: 400, keys: every(30), pts: (n: number) => n + 0.05 * (n % 2) },
    [0, 180, 360],
    6,
  ],
  [
    'a keyframe a moment early',
    { frames: 600, keys: every(60), pts: (n: number) => (n === 180 ? n - 0.05 : n) },
    [0, 240, 360],
    8,
  ],
  ['a keyframe every 5 s', { frames: 900, keys: every(150), rate: [30000, 1001] }, [0, 300, 450, 600, 750], 11],
  ['60 beside 30', { frames: 800, keys: every(60), rate: [60, 1] }, [0, 180, 360], 6],
] as const satisfies [string, Stream, number[], number][]) {
  t.test(`${what}: segments begin at keyframes of the source`, async (t) => {
    const { found } = scan(stream)
    t.match(found, { starts, targetSeconds, frames: stream.frames })
  })
}

/** As an encoder writes them: two frames after the one that they need. */
function reordered(frames: number[]): number[] {
  const order: number[] = []
  for (let at = 0; at < frames.length; at += 3) {
    const [a, b, c] = frames.slice(at, at + 3)
    for (const n of [a, c, b]) if (n !== undefined) order.push(n)
  }
  return order
}

for (const [what, stream, fault] of [
  ['a keyframe every 13 s', { frames: 900, keys: every(390) }, /up to 13\.0 s long/],
  ['more than a pod keeps twice', { frames: 60_000, keys: every(30), bytes: () => 20_000 }, /1\.1 GiB/],
  ['no keyframe at the beginning', { frames: 400, keys: among(30, 180) }, /begin with a keyframe/],
  ['a missing frame', { frames: 400, keys: every(30), pts: (n: number) => (n < 99 ? n : n + 1) }, /follow each other/],
  ['a frame twice', { frames: 400, keys: every(30), pts: (n: number) => (n < 99 ? n : n - 1) }, /follow each other/],
  ['a drifting clock', { frames: 400, keys: every(30), pts: (n: number) => n * 1.002 }, /not constant/],
  ['frames before their keyframe', { frames: 400, keys: every(30), order: opened }, /not closed/],
  ['too many bits', { frames: 400, keys: every(30), bytes: () => 40_000 }, /9\.6 Mbit/],
  [
    'too many bits in one part',
    { frames: 900, keys: every(30), bytes: (n: number) => (n < 180 ? 70_000 : 9_000) },
    /a part of it has 16\.8/,
  ],
  ['more frames than it says', { frames: 400, keys: every(30), pts: (n: number) => n + 500 }, /follow each other/],
  ['keyframes at odd frames of 60', { frames: 800, keys: among(0, 361, 723), rate: [60, 1] }, /smaller renditions/],
  ['two streams in one', { frames: 400, keys: every(30), other: 90 }, /joined/],
  ['nothing', { frames: 0, keys: every(30) }, /follow each other/],
] as const satisfies [string, Stream, RegExp][]) {
  t.test(`${what}: is encoded`, async (t) => t.match(scan(stream).found, fault))
}

/** The two frames before a keyframe follow it in the file. */
function opened(frames: number[]): number[] {
  const order = [...frames]
  order.splice(58, 3, 60, 58, 59)
  return order
}

t.test('frames that an edit list hides are not shown by copying them', async (t) => {
  const ladder = ladderOf(SOURCE, WANTED)
  const top = ladder.at(-1)
  if (!top) throw new Error('no ladder')
  const scan = openCopyScan({ top, timeline: timelineOf(ladder, 6), seconds: 1 })
  scan.add({ pts: 0, bytes: 1000, isKey: true, isDiscarded: true, isOther: false })
  t.match(scan.end(), /edit list/)
})

t.test('the other renditions are cut where the copied one is', async (t) => {
  const { found, ladder, timeline } = scan({ frames: 800, keys: among(0, 122, 400, 500, 722), rate: [60, 1] })
  const copied = found as CopiedTop
  t.strictSame(copied.starts, [0, 200, 361])
  const own = { ...timeline, starts: copied.starts }
  const [small, top] = [ladder[0], ladder.at(-1)]
  if (!small || !top) throw new Error('no ladder')
  t.strictSame(copiedLayout(copied, own).starts, [0, 400, 722])
  t.strictSame(copiedLayout(copied, own).keyframes, [0, 122, 400, 500, 722])
  t.strictSame(segmentLayout(own, small.frameRate, 400).starts, [0, 200, 361])
  t.equal(firstFrameOf(own, top.frameRate, 1), 400)
  t.equal(keyframeExpression(own, small.frameRate), '0.000000,6.658333,12.025000')
  // 12.5 s at 30 frames a second. What is behind the last start may last as long as the scan lets any segment be; with a
  // smaller number the encoder would add keyframes there, which the copied rendition does not have.
  t.equal(longestGop(own, small.frameRate), 12.5 * 30, 'no keyframe is added in the longest segment that may be copied')
})
