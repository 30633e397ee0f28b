import t from 'tap'
import { boundsOf, isFinished } from '../../crds/run.ts'
import { parseTranscodeJob } from '../../crds/transcode-job.ts'
import { anInput, newTranscodeJob } from '../support/transcode-job.ts'

t.test('parsing fills in the defaults and leaves the status alone', async (t) => {
  const metadata = { uid: 'u' }
  const status = { phase: 'FromTheFuture', conditions: [{ type: 'Succeeded', status: 'True' }] }
  const parsed = parseTranscodeJob({ ...newTranscodeJob({ metadata }), status })
  t.match(parsed, {
    resource: { spec: { segmentSeconds: 6, priority: 'normal', suspend: false, parallelism: 1 }, status },
  })
  t.ok('resource' in parsed && isFinished(parsed.resource.status))
  t.throws(() => parseTranscodeJob({ spec: {} }), 'no object at all is a bug, not a verdict')
})

t.test('how long a run may take can be read of a resource that a newer version made', async (t) => {
  const defaults = { attemptDeadlineSeconds: 7200, maxAttempts: 3, suspend: false }
  t.strictSame(boundsOf({ inputs: [{ type: 'hologram' }], renditions: ['8640p'] }), defaults)
  t.strictSame(boundsOf({ maxAttempts: 1, suspend: true }), { ...defaults, maxAttempts: 1, suspend: true })
})

const refused: [string, object, RegExp][] = [
  ['no input', { inputs: [] }, /spec.inputs/],
  ['two inputs with one id', { inputs: [anInput('a'), { ...anInput('b'), id: 'a' }] }, /ids must be unique/],
  [
    'two inputs with one output prefix',
    { inputs: [anInput('a'), { ...anInput('b'), outputPrefix: anInput('a').outputPrefix }] },
    /outputPrefix of its own/,
  ],
  ['an output prefix without slash', { inputs: [{ ...anInput(), outputPrefix: 'a/b' }] }, /spec.inputs.0.outputPrefix/],
  ['a source below its output', { inputs: [{ ...anInput(), outputPrefix: 'org/' }] }, /must not lie below/],
  ['text in a key', { inputs: [{ ...anInput(), sourceKey: 'a/"b' }] }, /spec.inputs.0.sourceKey/],
  ['a rendition twice', { renditions: ['360p', '360p'] }, /unique/],
  ['no pod', { parallelism: 0 }, /spec.parallelism/],
  ['65 pods', { parallelism: 65 }, /spec.parallelism/],
  ['two pods for two videos', { inputs: [anInput('a'), anInput('b')], parallelism: 2 }, /exactly one input/],
  [
    'two pods for an image',
    { inputs: [{ ...anInput(), type: 'image' }], parallelism: 2 },
    /spec.parallelism: more than 1/,
  ],
  ['no attempt', { maxAttempts: 0 }, /spec.maxAttempts/],
]
for (const [name, spec, message] of refused) {
  t.test(`parsing refuses ${name}`, async (t) => {
    t.match(parseTranscodeJob(newTranscodeJob({ metadata: { uid: 'u' }, spec })), { problem: message })
  })
}

t.test('a video may have 64 pods, and images together have one', async (t) => {
  const parse = (spec: object) => parseTranscodeJob(newTranscodeJob({ metadata: { uid: 'u' }, spec }))
  t.match(parse({ parallelism: 64 }), { resource: { spec: { parallelism: 64 } } })
  t.match(parse({ inputs: [{ ...anInput(), type: 'motion' }], parallelism: 2 }), { resource: {} })
  const images = ['a', 'b'].map((id) => ({ ...anInput(id), type: 'image' }))
  t.match(parse({ inputs: images, parallelism: 1 }), { resource: {} })
})

t.test('64 inputs of the longest keys fit in one environment variable', async (t) => {
  const long = 'k'.repeat(512)
  const inputs = Array.from({ length: 64 }, (_, i) => ({
    id: String(i).padStart(64, '0'),
    type: 'video' as const,
    sourceKey: long,
    outputPrefix: `${String(i).padStart(511, 'p')}/`,
  }))
  const parsed = parseTranscodeJob(newTranscodeJob({ metadata: { uid: 'u' }, spec: { inputs } }))
  t.ok('resource' in parsed)
  t.ok(Buffer.byteLength(JSON.stringify(parsed)) < 128 * 1024 - 1024)
})
