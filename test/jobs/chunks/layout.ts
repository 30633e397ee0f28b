import t from 'tap'
import { missingOf } from '../../../jobs/chunks/sparse-source.ts'
import { rational } from '../../../jobs/ffmpeg/rational.ts'
import { openRangeScan } from '../../../jobs/hls/chunks/byte-ranges.ts'
import { chooseChunk } from '../../../jobs/hls/chunks/choose.ts'
import { isFirstPassEnough } from '../../../jobs/hls/chunks/cut.ts'
import { chunksOf, firstPassChunks, type SharedCosts, segmentsOf } from '../../../jobs/hls/chunks/layout.ts'
import { type ByteRange, ChunkPart, SharedPlan } from '../../../jobs/hls/chunks/protocol.ts'
import { joined, stitch } from '../../../jobs/hls/chunks/stitch.ts'
import { sharedCosts } from '../../../jobs/hls/pass-plan.ts'
import { firstFrameOf, timelineOf } from '../../../jobs/hls/timeline.ts'
import type { VerifiedVideo } from '../../../jobs/hls/verify.ts'

/** How a video is shared by several pods: all decisions, without any file. */

const ntsc = timelineOf([{ frameRate: rational(30_000, 1001) }], 6)
const FILM_FRAMES = Math.round((7200 * 30_000) / 1001)

t.test('the segments of a video are counted, also at rates that are no whole numbers', async (t) => {
  const thirty = timelineOf([{ frameRate: rational(30) }], 6)
  t.strictSame(
    [0, 1, 180, 181, 360, 1800].map((frames) => segmentsOf(thirty, frames)),
    [0, 1, 1, 2, 2, 10],
  )
  for (const k of [1, 99, 1198]) {
    const begins = firstFrameOf(ntsc, ntsc.grid, k)
    t.strictSame([segmentsOf(ntsc, begins), segmentsOf(ntsc, begins + 1)], [k, k + 1], `segment ${k}`)
  }
})

t.test('chunks follow each other, are 30 to 120 seconds long, and the last one goes to the end', async (t) => {
  const seconds = (s: number) => Math.round((s * 30_000) / 1001)
  const table: [number, number, number, number][] = [
    // Seconds of video, pods, chunks, segments of each.
    [10, 4, 0, 0],
    [36, 4, 0, 0],
    [60, 4, 2, 5],
    [600, 2, 8, 13],
    [7200, 2, 60, 20],
    [7200, 14, 55, 22],
    [7200, 64, 240, 5],
    [14_400, 64, 240, 10],
  ]
  for (const [length, pods, count] of table) {
    const chunks = chunksOf(ntsc, seconds(length), pods)
    t.equal(chunks.length > 0, count > 0, `${length} s by ${pods}`)
    let next = 0
    for (const { firstSegment, segments } of chunks.slice(0, -1)) {
      t.equal(firstSegment, next)
      t.ok(segments && segments >= 5 && segments <= 20)
      next += segments ?? 0
    }
    if (count === 0) continue
    const rest = segmentsOf(ntsc, seconds(length)) - next
    t.match(chunks.at(-1), { firstSegment: next, segments: undefined })
    t.ok(rest >= 2 && rest <= 21, 'the last one is never empty where a container promises a little too much', { rest })
    t.ok(chunks.length >= Math.min(3.7 * pods, Math.floor(length / 42)), 'enough for all pods', {
      chunks: chunks.length,
    })
  }
  t.ok(chunksOf(ntsc, FILM_FRAMES, 64).length <= 512)
})

const ladder = (sides: [number, number][]) =>
  sides.map(([width, height]) => ({
    ...{ name: `${height}p`, width, height, frameRate: rational(30_000, 1001), step: 1 as const },
    ...{ maxrate: 1e6, bufsize: 2e6 },
  }))
const HD = sharedCosts(
  ladder([
    [640, 360],
    [1280, 720],
    [1920, 1080],
  ]),
  { width: 1920, height: 1080, hasAudio: true },
)
const SMALL = sharedCosts(
  ladder([
    [640, 360],
    [1280, 720],
  ]),
  { width: 1280, height: 720, hasAudio: true },
)

t.test('the first pass takes at most the share of one pod, and ends where a chunk begins', async (t) => {
  const segments = segmentsOf(ntsc, FILM_FRAMES)
  const covered = (pods: number, costs: SharedCosts, frames = FILM_FRAMES) => {
    const chunks = chunksOf(ntsc, frames, pods)
    return [chunks.length, firstPassChunks(chunks, segmentsOf(ntsc, frames), pods, costs)]
  }
  t.strictSame(
    [1, 2, 4].map((pods) => covered(pods, HD)),
    [
      [60, 60],
      [60, 60],
      [60, 60],
    ],
    'few pods: all of the video',
  )
  let before = 60
  for (const pods of [6, 8, 14]) {
    const [count = 0, from = 0] = covered(pods, HD)
    t.ok(from >= 1 && from < count && from <= before, `${pods} pods`, { from, count })
    before = from
    const at = chunksOf(ntsc, FILM_FRAMES, pods)[from]?.firstSegment ?? 0
    const lead = HD.ahead * at + HD.sound * segments
    const share = (lead + HD.others * at + HD.all * (segments - at)) / pods
    t.ok(lead <= share && lead > 0.8 * share, 'as much as the share allows', { lead, share })
  }
  t.equal(covered(64, HD)[1], 1, 'at least one chunk, where the sound alone is more than a share')
  t.ok((covered(4, SMALL)[1] ?? 0) < 60, 'a smaller video, whose first pass is more of the work')
  t.strictSame(covered(2, SMALL), [60, 60])
  const seconds = (s: number) => Math.round((s * 30_000) / 1001)
  t.strictSame(covered(64, SMALL, seconds(62)), [2, 2], 'a short one has no more pods than chunks')
  t.strictSame(covered(64, HD, seconds(120)), [4, 4])
  t.equal(SMALL.all + SMALL.sound < SMALL.ahead + SMALL.sound + SMALL.others, true)
})

t.test('the first pass ends where the pods that have come carry the rest', async (t) => {
  const chunks = chunksOf(ntsc, FILM_FRAMES, 8)
  const segments = segmentsOf(ntsc, FILM_FRAMES)
  const fullFrom = firstPassChunks(chunks, segments, 8, HD)
  const cut = { chunks, fullFrom, segments, costs: HD }
  const at = chunks[fullFrom]?.firstSegment ?? 0
  const others = Array.from({ length: 7 }, (_, k): [number, string] => [k + 1, `helper-${k}`])
  const enough = (covered: number, claims: [number, string][], done: number[]) =>
    isFirstPassEnough(cut, { claims: new Map(claims), done: new Set(done) }, 'lead', covered)
  t.ok(enough(at, others, [fullFrom]), 'all pods have come')
  t.notOk(enough(at - 1, others, [fullFrom]), 'not before the chunks hold the smallest rendition')
  t.notOk(enough(at, others, [fullFrom + 1]), 'not where the list would stay as it is')
  t.notOk(enough(at, [], [fullFrom]), 'not where no pod helps')
  t.notOk(enough(at, others.slice(0, 3), [fullFrom]), 'nor where few do')
  t.notOk(enough(at, [[1, 'helper-0'], [2, 'lead'], ...others.slice(2, 3)], [fullFrom]), 'this one does not count')
  const rest = [...chunks.keys()].filter((k) => k >= fullFrom)
  t.ok(enough(at, [], rest), 'all that follows is made, by whichever pod')
  const all = [...chunks.keys()]
  const claimed = all.filter((k) => k !== fullFrom).map((k): [number, string] => [k, `helper-${k % 7}`])
  t.notOk(enough(at, claimed, [fullFrom]), 'not where there is nothing else for this pod')
  const mine = claimed.map(([k, by]): [number, string] => [k, k === 3 ? 'lead' : by])
  t.ok(enough(at, mine, [fullFrom]), 'what it has claimed before it died is for itself')
  t.notOk(enough(at, others, []), 'nothing is done')
})

t.test('a pod goes on with its own chunk, then takes one that is free, then one whose pod is late', async (t) => {
  const choose = (claims: [number, string][], done: number[], late: number[] = [], start = 2) =>
    chooseChunk(
      { claims: new Map(claims), done: new Set(done) },
      { me: 'me', chunks: 4, start, isOverdue: (chunk) => late.includes(chunk) },
    )
  t.equal(choose([], []), 2, 'begins at its own place')
  t.equal(choose([[2, 'a']], []), 3)
  t.equal(
    choose(
      [
        [2, 'a'],
        [3, 'b'],
      ],
      [],
    ),
    0,
    'and goes round',
  )
  t.equal(choose([[1, 'me']], []), 1, 'goes on with its own')
  t.equal(choose([[1, 'me']], [1]), 2, 'which may be done')
  t.equal(
    choose(
      [
        [0, 'a'],
        [1, 'b'],
      ],
      [2, 3],
    ),
    undefined,
    'waits',
  )
  t.equal(
    choose(
      [
        [0, 'a'],
        [1, 'b'],
      ],
      [2, 3],
      [0],
    ),
    0,
    'takes over',
  )
  t.equal(choose([], [0, 1, 2, 3], [0]), undefined, 'all done')
})

t.test('of the source a pod reads the index, and from the keyframe before its chunk', async (t) => {
  const MB = 1024 * 1024
  const size = 400 * MB
  const scan = openRangeScan(
    [
      { from: 0, start: 0, to: 40 },
      { from: 58, start: 60, to: 100 },
      { from: 98, start: 100, to: undefined },
    ],
    size,
  )
  // A second is 2 MiB, behind 10 MiB of index; every tenth frame is a keyframe, and frames are stored out of order.
  for (let k = 0; k < 150; k++) {
    scan.add({ pts: k % 2 === 0 ? k + 1 : k - 1, bytes: 2 * MB, at: (10 + 2 * k) * MB, isKey: k % 10 === 1 })
  }
  scan.add({ pts: 3, bytes: 10, at: size - 5, isKey: false })
  const { header, ranges, hasGap } = scan.end()
  t.notOk(hasGap)
  t.strictSame(header, [
    [0, 14 * MB],
    [310 * MB, size],
  ])
  t.strictSame(
    ranges.map(([from, to]) => [from / MB, to / MB]),
    [
      [0, 95],
      [91, 215],
      [171, 311],
    ],
  )
})

t.test('a picture that is shown at the beginning of a chunk has to be among those that its pod decodes', async (t) => {
  for (const [what, shownAt, hasGap] of [
    ['one each second', [0, 1, 2, 57, 58, 59, 60, 61], false],
    ['one just before it', [0, 59.9, 70], false],
    ['one as old as what is decoded', [0, 58, 70], false],
    ['an older one', [0, 57.9, 70], true],
    ['the very first one, as of a song with a still', [0, 60.5], true],
    ['a video that begins late', [0.5, 59.9], false],
    ['one at its time, rounded', [0, 60.0005], false],
  ] as const) {
    const scan = openRangeScan(
      [
        { from: 0, start: 0, to: 62.5 },
        { from: 58, start: 60, to: undefined },
      ],
      1000,
    )
    for (const [k, pts] of shownAt.entries()) scan.add({ pts, bytes: 10, at: 10 * k, isKey: true })
    t.equal(scan.end().hasGap, hasGap, what)
  }
})

t.test('only what is missing is read', async (t) => {
  const table: [ByteRange[], ByteRange[], ByteRange[]][] = [
    [[[0, 10]], [], [[0, 10]]],
    [
      [
        [0, 10],
        [5, 20],
      ],
      [],
      [[0, 20]],
    ],
    [
      [[0, 10]],
      [[3, 5]],
      [
        [0, 3],
        [5, 10],
      ],
    ],
    [
      [[0, 10]],
      [
        [0, 4],
        [4, 10],
      ],
      [],
    ],
    [
      [
        [0, 10],
        [20, 30],
      ],
      [[8, 22]],
      [
        [0, 8],
        [22, 30],
      ],
    ],
    [[[5, 5]], [], []],
  ]
  for (const [wanted, present, left] of table) t.strictSame(missingOf(wanted, present), left)
})

const plan: SharedPlan = {
  version: 4,
  id: '0123456789abcdef',
  sourceKey: 'org/o/media/m/original',
  sourceBytes: 1000,
  header: [[0, 100]],
  source: {
    container: 'mov,mp4',
    startSeconds: 0,
    video: {
      index: 0,
      codec: 'h264',
      pixelFormat: 'yuv420p',
      interlaced: false,
      colorSpace: null,
      frame: { width: 1280, height: 720 },
    },
    ...{ width: 1280, height: 720, rotation: 0, videoSeconds: 60.06, audioSeconds: null },
    ...{ frameRate: rational(30_000, 1001), averageFrameRate: 29.97, variableFrameRate: false, hdr: null },
  },
  grid: rational(30_000, 1001),
  segmentSeconds: 6,
  renditions: [
    { name: '360p', width: 640, height: 360, frameRate: rational(30_000, 1001), step: 1, maxrate: 1e6, bufsize: 2e6 },
    { name: '720p', width: 1280, height: 720, frameRate: rational(30_000, 1001), step: 1, maxrate: 3e6, bufsize: 6e6 },
  ],
  accelerator: 'cpu',
  preset: 'veryfast',
  encoder: '0123456789abcdef',
  chunks: [
    { firstSegment: 0, segments: 5, isFull: false, bytes: [0, 500] },
    { firstSegment: 5, isFull: false, bytes: [400, 1000] },
  ],
}
const segmentsFrom = (from: number, count: number) =>
  Array.from({ length: count }, (_, k) => ({
    uri: `720pxaaaaaaaa_${String(from + k).padStart(5, '0')}.ts`,
    seconds: 6.006,
    bytes: 10,
  }))
const otherNames = segmentsFrom(5, 5).map((s) => ({ ...s, uri: s.uri.replace('720p', '360p') }))
const partOf = (
  from: number,
  count: number,
  frames: number,
  more: Partial<ChunkPart['renditions'][0]> = {},
): ChunkPart => ({
  ...{ version: 1, by: 'lead', seconds: 1, damaged: 1, endedEarly: false },
  renditions: [
    {
      ...{ name: '720p', codec: 'avc1.64001f', frames, segments: segmentsFrom(from, count) },
      first: 10.08 + (from === 0 ? 0 : (900 * 1001) / 30_000),
      ...more,
    },
  ],
})

t.test('parts are joined where every frame is there once, at its time', async (t) => {
  const parts = [partOf(0, 5, 900), partOf(5, 5, 900)]
  const made = stitch(plan, parts)
  if (typeof made === 'string') throw new Error(made)
  t.match(made.videos, [{ frames: 1800, first: 10.08, codec: 'avc1.64001f', rendition: { name: '720p' } }])
  t.equal(made.videos[0]?.segments.length, 10)
  t.match(made.complaints, { damaged: 2, endedEarly: false })
  const table: [string, ChunkPart[]][] = [
    ['720p: chunk 1 does not have it', [partOf(0, 5, 900)]],
    ['720p: chunk 1 does not have it', [partOf(0, 5, 900), partOf(5, 5, 900, { name: '360p' })]],
    ['720p: chunk 1 begins with frame 900 after 899', [partOf(0, 5, 899), partOf(5, 5, 900)]],
    ['720p: chunk 1 begins at 40.2 s', [partOf(0, 5, 900), partOf(5, 5, 900, { first: 40.2 })]],
    ['720p: chunk 1 is hvc1, not avc1.64001f', [partOf(0, 5, 900), partOf(5, 5, 900, { codec: 'hvc1' })]],
    ['720p: chunk 1 has gaps', [partOf(0, 5, 900), partOf(5, 5, 900, { segments: otherNames })]],
    ['720p: chunk 1 has gaps', [partOf(0, 5, 900), partOf(5, 5, 900, { segments: segmentsFrom(6, 4) })]],
  ]
  for (const [fault, given] of table) t.equal(stitch(plan, given), fault)
})

t.test('the smallest rendition goes on where the first pass has ended', async (t) => {
  const full: SharedPlan = { ...plan, chunks: plan.chunks.map((chunk, k) => ({ ...chunk, isFull: k === 1 })) }
  const second = (900 * 1001) / 30_000
  const begunWith = (count: number, more: Partial<VerifiedVideo> = {}): VerifiedVideo => ({
    segments: Array.from({ length: count }, (_, k) => ({ uri: `360p_0000${k}.ts`, seconds: 6.006, bytes: 10 })),
    ...{ frames: firstFrameOf(ntsc, ntsc.grid, count), first: 10.08, codec: 'avc1.64001e' },
    ...more,
  })
  const small = { name: '360p', codec: 'avc1.64001e', frames: 900, first: 10.08 + second, segments: otherNames }
  const whole = partOf(5, 5, 900)
  const parts = [partOf(0, 5, 900), { ...whole, renditions: [small, ...whole.renditions] }]
  const namesOf = (count: number) => [
    ...begunWith(count).segments.map(({ uri }) => uri),
    ...otherNames.slice(count - 5).map(({ uri }) => uri),
  ]
  for (const count of [5, 6, 9]) {
    const made = stitch(full, parts, begunWith(count))
    if (typeof made === 'string') throw new Error(made)
    t.match(made.videos, [
      { frames: 1800, first: 10.08, codec: 'avc1.64001e', rendition: { name: '360p' } },
      { frames: 1800, rendition: { name: '720p' } },
    ])
    const wanted = namesOf(count)
    t.strictSame(
      made.videos[0]?.segments.map(({ uri }) => uri),
      wanted,
      `${count} segments of the first pass`,
    )
    const done = new Map([...parts.entries()])
    t.strictSame(
      joined(full, done, begunWith(count)).map(({ uri }) => uri),
      wanted,
    )
  }
  const table: [string, Partial<typeof small>, VerifiedVideo][] = [
    ['360p: chunk 1 begins with frame 900 after 899', {}, begunWith(5, { frames: 899 })],
    ['360p: chunk 1 begins with frame 1079 after 1080', {}, begunWith(6, { frames: 1080 })],
    [`360p: chunk 1 begins at ${10.08 + second} s`, {}, begunWith(5, { first: 10 })],
    ['360p: chunk 1 is avc1.64001e, not avc1.64001f', {}, begunWith(5, { codec: 'avc1.64001f' })],
    ['360p: chunk 1 has gaps', { segments: otherNames.slice(1) }, begunWith(5)],
    ['360p: chunk 1 does not have it', { name: '480p' }, begunWith(5)],
  ]
  for (const [fault, more, begun] of table) {
    const given = [partOf(0, 5, 900), { ...whole, renditions: [{ ...small, ...more }, ...whole.renditions] }]
    t.equal(stitch(full, given, begun), fault)
    t.strictSame(joined(full, new Map(given.entries()), begun), begun.segments, 'and players never get it')
  }
  t.strictSame(joined(full, new Map([[0, partOf(0, 5, 900)]]), begunWith(5)).length, 5, 'nothing is done behind it')
})

t.test('a plan that another pod wrote is checked like an upload', async (t) => {
  t.ok(SharedPlan.safeParse(plan).success)
  const { source } = plan
  const hostile: Record<string, unknown> = {
    filter: { ...plan, source: { ...source, hdr: 'arib-std-b67,movie=/etc/passwd' } },
    pixels: { ...plan, source: { ...source, video: { ...source.video, pixelFormat: 'a;b' } } },
    path: { ...plan, sourceKey: 'a b' },
    name: { ...plan, renditions: [plan.renditions[0], { ...plan.renditions[1], name: '../x' }] },
    version: { ...plan, version: 1 },
    part: { ...plan, chunks: plan.chunks.map(({ isFull, ...chunk }) => ({ ...chunk, isFull: isFull ? 1 : 0 })) },
    id: { ...plan, id: '../../0123456789a' },
    endless: { ...plan, chunks: Array.from({ length: 513 }, () => plan.chunks[0]) },
    alone: { ...plan, chunks: plan.chunks.slice(1) },
    rate: { ...plan, grid: { num: 30, den: 0 } },
  }
  for (const [name, value] of Object.entries(hostile)) t.notOk(SharedPlan.safeParse(value).success, name)
  t.ok(ChunkPart.safeParse(partOf(0, 5, 900)).success)
  const [first] = segmentsFrom(0, 1)
  for (const more of [
    { codec: 'a"\nhttp://evil.example/x.m3u8\n#' },
    { segments: [{ ...first, uri: '720p_00000.ts' }] },
    { segments: [{ ...first, uri: '../720pxaaaaaaaa_00000.ts' }] },
    { frames: -1 },
  ] as Partial<ChunkPart['renditions'][0]>[]) {
    t.notOk(ChunkPart.safeParse(partOf(0, 5, 900, more)).success, JSON.stringify(more))
  }
})
