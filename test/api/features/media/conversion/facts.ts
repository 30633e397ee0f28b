import t from 'tap'
import { factsOf } from '../../../../../api/features/media/conversion/facts.ts'
import type { RunStatus } from '../../../../../crds/run.ts'
import { formatId, newUuid } from '../../../../../lib/contract/ids.ts'
import { failed, running, succeeded } from '../../../../support/conversion-world.ts'

const media = newUuid()
const id = formatId('media', media)
const inputOf = (text: string) => ({ id: text, type: 'video' as const, sourceKey: 'a/o', outputPrefix: `out/${text}/` })
const of = (status: RunStatus | undefined, type: 'video' | 'image' = 'video') =>
  factsOf({ metadata: { name: 'tj-1' }, spec: { inputs: [{ ...inputOf(id), type }] }, ...(status && { status }) })[0]
const INTERNAL = 'The conversion failed for a reason unrelated to the file'

const table: [string, RunStatus | undefined, object][] = [
  ['a new resource waits', undefined, { state: 'queued' }],
  ['a pending one waits', { phase: 'Pending', attempts: 0 }, { state: 'queued' }],
  ['a suspended one waits', { phase: 'Suspended' }, { state: 'queued' }],
  [
    'a running one tells how far it is',
    running(40),
    {
      state: 'running',
      attempts: 1,
      startedAt: new Date('2026-05-01T10:00:00Z'),
      progress: { percent: 40, speed: '1.8x', eta_sec: 60, stage: 'Encoding' },
      playable: false,
    },
  ],
  [
    'one that runs without a report has no progress',
    { phase: 'Running', attempts: 2 },
    { attempts: 2, progress: null },
  ],
  ['what can be played is said', running(40, { playable: [id] }), { playable: true }],
  ['what can be played of another input is not ours', running(40, { playable: ['other'] }), { playable: false }],
  ['success is success', succeeded(media), { state: 'succeeded' }],
  [
    'success that names no output is success: the manifest tells',
    { ...succeeded(media), outputs: [] },
    { state: 'succeeded' },
  ],
  [
    'a codec is blamed on the file, with the message',
    failed('UnsupportedCodec', 'ProRes'),
    {
      state: 'failed',
      error: { code: 'UNSUPPORTED_CODEC', message: 'ProRes' },
    },
  ],
  [
    'our own trouble is not spread',
    failed('EncoderMissing', 'node 10.0.0.7'),
    {
      state: 'failed',
      error: { code: 'INTERNAL', message: INTERNAL },
    },
  ],
  [
    'a deadline is a timeout',
    failed('DeadlineExceeded', 'pod x'),
    {
      state: 'failed',
      error: { code: 'TIMEOUT', message: 'The conversion exceeded its time limit' },
    },
  ],
  [
    'the reason of the output goes before that of the whole',
    {
      ...failed('BackoffLimitExceeded'),
      outputs: [{ id, state: 'Failed', reason: 'CorruptInput', message: 'No frames' }],
    },
    { state: 'failed', error: { code: 'CORRUPT_INPUT', message: 'No frames' } },
  ],
  [
    'an input that is done stays done when another failed',
    {
      ...failed('SomeInputsFailed'),
      outputs: [{ id, state: 'Succeeded' }],
    },
    { state: 'succeeded' },
  ],
]
for (const [name, status, expected] of table) {
  t.test(name, async (t) => t.match(of(status), { id: media, prefix: `out/${id}/`, ...expected }))
}

const WORDS: [reason: string, type: 'video' | 'image', message: string][] = [
  ['LimitExceeded', 'image', 'The picture is too large to be converted'],
  ['LimitExceeded', 'video', 'The video is too large to be converted'],
  ['UnsupportedFormat', 'image', 'The format of the picture is not supported'],
  ['UnsupportedCodec', 'video', 'The format of the video is not supported'],
  ['CorruptInput', 'image', 'The file is damaged'],
  ['Truncated', 'video', 'The file is damaged'],
  ['DeadlineExceeded', 'image', 'The conversion exceeded its time limit'],
  ['StoreUnavailable', 'image', INTERNAL],
]
for (const [reason, type, message] of WORDS) {
  t.test(`${reason} of ${type} without a message is said in words, and kept for administrators`, async (t) => {
    t.match(of(failed(reason, ''), type), { state: 'failed', error: { message, reason } })
  })
}

t.test('every input has its fact, and what is no media has none', async (t) => {
  const other = newUuid()
  const inputs = [id, 'holiday', formatId('media', other)].map(inputOf)
  t.strictSame(
    factsOf({ metadata: { name: 'tj-1' }, spec: { inputs } }).map((f) => f.id),
    [media, other],
  )
})

t.test('what a batch says of an image that has no result of its own is about the batch', async (t) => {
  const [good, bad, unknown] = [newUuid(), newUuid(), newUuid()]
  const inputs = [good, bad, unknown].map((one) => ({ ...inputOf(formatId('media', one)), type: 'image' as const }))
  const status: RunStatus = {
    ...failed('OOMKilled', 'pod x'),
    outputs: [
      { id: formatId('media', good), state: 'Succeeded' },
      { id: formatId('media', bad), state: 'Failed', reason: 'CorruptInput', message: 'broken' },
    ],
  }
  const facts = factsOf({ metadata: { name: 'tj-batch' }, spec: { inputs }, status })
  t.match(facts, [
    { id: good, state: 'succeeded' },
    { id: bad, state: 'failed', sharedBy: null, error: { code: 'CORRUPT_INPUT' } },
    { id: unknown, state: 'failed', sharedBy: 'tj-batch', error: { code: 'INTERNAL' } },
  ])
  const alone = factsOf({ metadata: { name: 'tj-batch' }, spec: { inputs: inputs.slice(2) }, status })
  t.match(alone, [{ id: unknown, state: 'failed', sharedBy: null }], 'alone there is no one else to blame')
})

t.test('the progress of a batch is not written to its images', async (t) => {
  const inputs = [{ ...inputOf(id), type: 'image' as const }]
  const of = (percent: number) => factsOf({ metadata: { name: 'tj-1' }, spec: { inputs }, status: running(percent) })
  t.match(of(40), [{ state: 'running', progress: null, attempts: 1 }])
  t.strictSame(of(40), of(50))
})
