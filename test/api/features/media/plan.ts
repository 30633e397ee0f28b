import { parse } from 'content-disposition'
import t from 'tap'
import { attachment, cleanFilename } from '../../../../api/features/media/filename.ts'
import {
  lengthOfChunk,
  type MergeFacts,
  type MergeMove,
  mergeMove,
  missingOf,
  planUpload,
  progressOf,
  rangesOf,
} from '../../../../api/features/media/uploads/plan.ts'

const MiB = 1024 * 1024
const video = (fileBytes: number, chunkBytes: number) => planUpload({ fileBytes, chunkBytes, mimeType: 'video/mp4' })

const PLANS: [string, ReturnType<typeof video>, object][] = [
  ['even chunks', video(20 * MiB, 5 * MiB), { totalChunks: 4, layout: 'multipart' }],
  ['a rest', video(20 * MiB + 1, 5 * MiB), { totalChunks: 5, layout: 'multipart' }],
  ['chunks too small for parts', video(20 * MiB, 5 * MiB - 1), { totalChunks: 5, layout: 'staged' }],
  ['one small chunk', video(1000, 1000), { totalChunks: 1, layout: 'multipart' }],
  ['a chunk larger than the file', video(1000, 64 * MiB), { totalChunks: 1, layout: 'multipart' }],
  ['as many chunks as there may be', video(10_000, 1), { totalChunks: 10_000, layout: 'staged' }],
  ['one more', video(10_001, 1), { field: 'chunk_size_bytes', tooLarge: false }],
  ['the largest file', video(10 * 1024 * MiB, 5 * MiB), { totalChunks: 2048, layout: 'multipart' }],
  ['one byte more', video(10 * 1024 * MiB + 1, 5 * MiB), { field: 'file_size_bytes', tooLarge: true }],
  ['the largest staged file', video(512 * MiB, MiB), { layout: 'staged' }],
  ['a byte more in small chunks', video(512 * MiB + 1, MiB), { field: 'chunk_size_bytes', tooLarge: false }],
]
for (const [name, plan, expected] of PLANS) t.test(`a plan for ${name}`, async (t) => t.match(plan, expected))

t.test('the lengths of all chunks add up to the file', async (t) => {
  for (const [fileBytes, chunkBytes] of [
    [1, 1],
    [10, 3],
    [9, 3],
    [1000, 64],
    [5, 100],
  ] as const) {
    const totalChunks = Math.ceil(fileBytes / chunkBytes)
    const lengths = Array.from({ length: totalChunks }, (_, i) =>
      lengthOfChunk({ fileBytes, chunkBytes, totalChunks }, i),
    )
    t.equal(
      lengths.reduce((a, b) => a + b, 0),
      fileBytes,
    )
    t.ok(lengths.every((length) => length > 0 && length <= chunkBytes))
  }
})

t.test('indexes become ranges, and gaps become what is missing', async (t) => {
  t.strictSame(rangesOf([]), [])
  t.strictSame(rangesOf([3]), [[3, 3]])
  t.strictSame(rangesOf([0, 1, 2, 5, 7, 8]), [
    [0, 2],
    [5, 5],
    [7, 8],
  ])
  t.strictSame(missingOf(5, new Set([0, 2])), [1, 3, 4])
  t.strictSame(missingOf(10_000, new Set(), 3), [0, 1, 2])
  t.strictSame(missingOf(2, new Set([0, 1])), [])
})

t.test('of a merged upload all has arrived, although its chunks are forgotten', async (t) => {
  t.strictSame(progressOf({ state: 'completed', totalChunks: 3 }, []), { received: 3, ranges: [[0, 2]] })
  t.strictSame(progressOf({ state: 'completed', totalChunks: 1 }, [0]), { received: 1, ranges: [[0, 0]] })
  for (const state of ['open', 'merging', 'aborted', 'expired'] as const) {
    t.strictSame(progressOf({ state, totalChunks: 3 }, [0, 2]), {
      received: 2,
      ranges: [
        [0, 0],
        [2, 2],
      ],
    })
    t.strictSame(progressOf({ state, totalChunks: 3 }, []), { received: 0, ranges: [] })
  }
})

const facts = {
  state: 'open',
  pastExpiry: false,
  leaseExpired: false,
  received: 3,
  totalChunks: 3,
  refusal: null,
} as const
const MOVES: [string, Partial<MergeFacts>, MergeMove][] = [
  ['a complete upload', {}, 'start'],
  ['an incomplete one', { received: 2 }, 'refuse-incomplete'],
  ['one whose time is over', { pastExpiry: true }, 'refuse-ended'],
  ['one that somebody merges', { state: 'merging' }, 'wait'],
  ['one whose maker died', { state: 'merging', leaseExpired: true }, 'take-over'],
  ['one whose maker died long ago', { state: 'merging', leaseExpired: true, pastExpiry: true }, 'take-over'],
  ['one that is merged', { state: 'completed' }, 'answer'],
  ['one that was merged long ago', { state: 'completed', pastExpiry: true }, 'answer'],
  ['an aborted one', { state: 'aborted' }, 'refuse-ended'],
  ['an expired one', { state: 'expired' }, 'refuse-ended'],
]
for (const [name, change, move] of MOVES) {
  t.test(`who asks to merge ${name}: ${move}`, async (t) => t.equal(mergeMove({ ...facts, ...change }), move))
}

const NAMES: [string, string][] = [
  ['clip.mp4', 'clip.mp4'],
  ['../../etc/passwd', 'passwd'],
  ['C:\\x\\y.mov', 'y.mov'],
  ['a\u0000b\r\nc.mp4', 'abc.mp4'],
  ['\u202egpj.exe', 'gpj.exe'],
  ['\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u2066\u2067\u2068\u2069gpj.exe', 'gpj.exe'],
  ['..', 'file'],
  ['', 'file'],
  ['/', 'file'],
  ['   ', 'file'],
  ['e\u0301.mp4', 'é.mp4'],
  ['\ud800.mp4', '\ufffd.mp4'],
  [`${'é'.repeat(300)}.jpeg`, `${'é'.repeat(250)}.jpeg`],
  ['x'.repeat(300), 'x'.repeat(255)],
]
for (const [given, kept] of NAMES) {
  t.test(`the name ${JSON.stringify(given).slice(0, 40)} is kept as ${kept.slice(0, 20)}`, async (t) =>
    t.equal(cleanFilename(given), kept),
  )
}

const SAVED = [
  'clip.mp4',
  'a b.mp4',
  "l'eau; filename=x.exe",
  'a"b\\c.mp4',
  '%41%00.mp4',
  'Fête à l’eau.mp4',
  '🏖️ Sommer 🎉.mov',
  'שלום עולם.jpg',
  'صورة ١.jpg',
  '日本語'.repeat(85),
  '😀'.repeat(255),
  'x\u0301'.repeat(127),
  '()<>@,;:[]?={}.mp4',
]
for (const name of SAVED) {
  t.test(`the name ${name.slice(0, 20)} is the name of the saved file`, async (t) => {
    const header = attachment(name)
    t.match(header, /^attachment; [\x20-\x7e]+$/, 'a header that every server may send')
    t.strictSame({ ...parse(header).parameters }['filename'], name)
    t.strictSame(
      Object.keys(parse(header).parameters).filter((k) => !k.startsWith('filename')),
      [],
    )
  })
}

t.test('a name that is not Unicode is sent with replacement characters', async (t) => {
  for (const half of ['\ud800.mp4', 'a\udc00'])
    t.equal(parse(attachment(half)).parameters['filename'], half.toWellFormed())
})
