import { readFileSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import * as z from 'zod'
import { withCondition } from '../../crds/kind.ts'
import { crdSchema, crdYaml } from '../../crds/to-yaml.ts'
import { isFinished, parseTranscodeJob, TranscodeJobSpec, transcodeJobKind } from '../../crds/transcode-job.ts'
import { anInput, newTranscodeJob } from '../support/transcode-job.ts'

t.test('the committed CRD is what the schema generates', async (t) => {
  const committed = readFileSync(new URL('../../crds/transcodejobs.yaml', import.meta.url), 'utf8')
  t.equal(committed, crdYaml(transcodeJobKind), 'run `npm run gen`')
  const { spec } = parse(committed)
  t.match(spec.names, { shortNames: ['tj'], categories: ['keepsake'], listKind: 'TranscodeJobList' })
  t.strictSame(spec.versions[0].subresources, { status: {} })
  t.notMatch(committed, /preserve-unknown-fields|anyOf|oneOf|\$ref/)
})

t.test('kubectl explain says what every field means', async (t) => {
  interface Node {
    description?: string
    properties?: Record<string, Node>
    items?: Node
  }
  const undescribed = ({ properties = {}, items }: Node, path: string): string[] => [
    ...Object.entries(properties).flatMap(([name, node]) => [
      ...(node.description ? [] : [`${path}.${name}`]),
      ...undescribed(node, `${path}.${name}`),
    ]),
    ...(items ? undescribed(items, `${path}[]`) : []),
  ]
  for (const part of ['spec', 'status'] as const) {
    const schema = crdSchema(transcodeJobKind[part]) as Node
    t.ok(schema.description, part)
    t.strictSame(undescribed(schema, part), [])
  }
})

t.test('every field of the spec but suspend and priority is immutable', async (t) => {
  const { properties, 'x-kubernetes-validations': rules } = crdSchema(TranscodeJobSpec) as {
    properties: object
    'x-kubernetes-validations': { rule: string }[]
  }
  const fixed = rules.map((r) => /^self\.(\w+) == oldSelf\.\1$/.exec(r.rule)?.[1]).filter(Boolean)
  const open = Object.keys(properties).filter((name) => !fixed.includes(name))
  t.strictSame(open.sort(), ['priority', 'suspend'])
  for (const name of fixed) {
    const field = TranscodeJobSpec.shape[name as keyof typeof TranscodeJobSpec.shape]
    t.notOk(field instanceof z.ZodOptional, `${name} is always there, so the rule may read it`)
  }
})

const notStructural: [string, z.ZodType, RegExp][] = [
  ['a union', z.object({ a: z.union([z.string().max(3), z.int()]) }), /schema.a: unions/],
  ['a string without a bound', z.object({ a: z.object({ b: z.string() }) }), /schema.a.b: a string needs/],
  ['an array without a bound', z.object({ a: z.array(z.int()) }), /schema.a: an array needs/],
  ['anything at all', z.object({ a: z.array(z.unknown()).max(3) }), /schema.a\[\]: has no type/],
  ['a map', z.object({ a: z.record(z.string(), z.int()) }), /schema.a: an object needs/],
]
for (const [name, schema, message] of notStructural) {
  t.test(`refuses to generate ${name}`, async (t) => t.throws(() => crdSchema(schema), { message }))
}

t.test('parsing fills in the defaults and leaves the status alone', async (t) => {
  const metadata = { uid: 'u' }
  const status = { phase: 'FromTheFuture', conditions: [{ type: 'Succeeded', status: 'True' }] }
  const parsed = parseTranscodeJob({ ...newTranscodeJob({ metadata }), status })
  t.match(parsed, { resource: { spec: { segmentSeconds: 6, priority: 'normal', suspend: false }, status } })
  t.ok('resource' in parsed && isFinished(parsed.resource.status))
  t.throws(() => parseTranscodeJob({ spec: {} }), 'no object at all is a bug, not a verdict')
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
  ['no attempt', { maxAttempts: 0 }, /spec.maxAttempts/],
]
for (const [name, spec, message] of refused) {
  t.test(`parsing refuses ${name}`, async (t) => {
    t.match(parseTranscodeJob(newTranscodeJob({ metadata: { uid: 'u' }, spec })), { problem: message })
  })
}

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

t.test('the time of a condition moves only when its status flips', async (t) => {
  const condition = { type: 'Succeeded', status: 'Unknown' as const, reason: 'A', message: '', observedGeneration: 1 }
  const first = withCondition([], condition, new Date(1000))
  const second = withCondition(first, { ...condition, reason: 'B' }, new Date(2000))
  t.match(second, [{ reason: 'B', lastTransitionTime: new Date(1000).toISOString() }])
  const third = withCondition(second, { ...condition, status: 'True' }, new Date(3000))
  t.match(third, [{ lastTransitionTime: new Date(3000).toISOString() }])
})
