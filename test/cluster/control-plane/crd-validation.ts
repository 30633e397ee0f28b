import t from 'tap'
import { TRANSCODE_JOBS } from '../../../crds/transcode-job.ts'
import type { KubeObject } from '../../../lib/runtime/kube/cluster.ts'
import { highlightRender } from '../../../operator/highlight-render/kind.ts'
import { aHighlightItem } from '../../support/highlight-render.ts'
import { operatorPlane } from '../../support/operator-plane.ts'
import { kitOf } from '../../support/program-kinds.ts'
import { anInput, newTranscodeJob } from '../../support/transcode-job.ts'
import { answer } from '../api-answer.ts'
import { controlPlane } from '../support.ts'

t.setTimeout(900_000)
const { kube, plane, setStatus } = await operatorPlane(t, await controlPlane(t))
const namespace = 'default'
let made = 0

const create = (spec: object) =>
  kube.create<KubeObject>(
    TRANSCODE_JOBS,
    newTranscodeJob({ metadata: { name: `tj-${made++}`, namespace }, spec }) as KubeObject,
  )
const input = (change: object) => ({ inputs: [{ ...anInput(), ...change }] })
const inputs = (n: number) => Array.from({ length: n }, (_, i) => anInput(`m${i}`))
const without = (field: string) => {
  const one: Record<string, unknown> = { ...anInput() }
  delete one[field]
  return { inputs: [one] }
}
const path = (length: number) => `${'a'.repeat(length - 1)}/`

const ACCEPTED: [string, object][] = [
  ['the least there can be', {}],
  ['an id of 64', input({ id: 'a'.repeat(64) })],
  ['every type: image', input({ type: 'image' })],
  ['every type: motion', input({ type: 'motion' })],
  ['keys of 512', input({ sourceKey: 's'.repeat(512), outputPrefix: path(512) })],
  ['every character that a key may have', input({ sourceKey: 'a/b._=@+-/C9', outputPrefix: 'o._=@+-/x/' })],
  ['64 inputs', { inputs: inputs(64) }],
  ['one rendition', { renditions: ['720p'] }],
  [
    'the smallest numbers',
    { segmentSeconds: 1, attemptDeadlineSeconds: 60, maxAttempts: 1, ttlSecondsAfterFinished: 0 },
  ],
  [
    'the largest numbers',
    { segmentSeconds: 20, attemptDeadlineSeconds: 86_400, maxAttempts: 10, ttlSecondsAfterFinished: 2_592_000 },
  ],
  ['64 pods for a video', { parallelism: 64 }],
  ['two pods for a motion', { ...input({ type: 'motion' }), parallelism: 2 }],
  ['one pod for images', { inputs: inputs(2).map((i) => ({ ...i, type: 'image' })), parallelism: 1 }],
  ['every choice', { accelerator: 'gpu', priority: 'backfill', suspend: true }],
]
for (const [name, spec] of ACCEPTED) {
  t.test(`accepted: ${name}`, async (t) => t.equal(await answer(() => create(spec)), 'accepted'))
}

t.test('what is left out gets its default', async (t) => {
  t.match(await create({}), {
    spec: {
      renditions: ['360p', '720p', '1080p'],
      parallelism: 1,
      segmentSeconds: 6,
      accelerator: 'auto',
      priority: 'normal',
      suspend: false,
      attemptDeadlineSeconds: 7200,
      maxAttempts: 3,
      ttlSecondsAfterFinished: 86_400,
    },
  })
})

const REFUSED: [string, object, RegExp][] = [
  ['no inputs', { inputs: undefined }, /spec\.inputs: Required value/],
  ['an empty list of inputs', { inputs: [] }, /spec\.inputs: Invalid value.*should have at least 1 items/],
  ['65 inputs', { inputs: inputs(65) }, /spec\.inputs: Too many: 65: must have at most 64 items/],
  ['an input without id', without('id'), /spec\.inputs\[0\]\.id: Required value/],
  ['an input without type', without('type'), /spec\.inputs\[0\]\.type: Required value/],
  ['an input without source', without('sourceKey'), /spec\.inputs\[0\]\.sourceKey: Required value/],
  ['an input without output', without('outputPrefix'), /spec\.inputs\[0\]\.outputPrefix: Required value/],
  ['an empty id', input({ id: '' }), /spec\.inputs\[0\]\.id: Invalid value/],
  ['an id of 65', input({ id: 'a'.repeat(65) }), /spec\.inputs\[0\]\.id: Too long: may not be more than 64 bytes/],
  ['an id with a slash', input({ id: 'a/b' }), /spec\.inputs\[0\]\.id: Invalid value: "a\/b"/],
  ['a type that is none', input({ type: 'sound' }), /spec\.inputs\[0\]\.type: Unsupported value: "sound"/],
  ['a source that climbs', input({ sourceKey: '/etc/passwd' }), /spec\.inputs\[0\]\.sourceKey: Invalid value/],
  ['a source of 513', input({ sourceKey: 's'.repeat(513) }), /spec\.inputs\[0\]\.sourceKey: Too long/],
  ['an output without slash', input({ outputPrefix: 'org/v1' }), /spec\.inputs\[0\]\.outputPrefix: Invalid value/],
  ['an output of 513', input({ outputPrefix: path(513) }), /spec\.inputs\[0\]\.outputPrefix: Too long/],
  [
    'a source below the output',
    input({ sourceKey: 'a/v1/original', outputPrefix: 'a/v1/' }),
    /spec\.inputs\[0\]\.sourceKey: Invalid value: .*sourceKey must not lie below outputPrefix/,
  ],
  [
    'the same id twice',
    { inputs: [anInput(), { ...anInput(), outputPrefix: 'other/' }] },
    /spec\.inputs\[1\]: Duplicate value: .*"id":"m1"/,
  ],
  [
    'the same output twice',
    { inputs: [anInput('a'), { ...anInput('b'), outputPrefix: anInput('a').outputPrefix }] },
    /spec\.inputs: Invalid value: .*every input needs an outputPrefix of its own/,
  ],
  ['no rendition', { renditions: [] }, /spec\.renditions: Invalid value.*should have at least 1 items/],
  ['a rendition that is none', { renditions: ['4k'] }, /spec\.renditions\[0\]: Unsupported value: "4k"/],
  ['a rendition twice', { renditions: ['360p', '360p'] }, /spec\.renditions\[1\]: Duplicate value: "360p"/],
  ['segments of 0 s', { segmentSeconds: 0 }, /spec\.segmentSeconds: Invalid value: 0: .*greater than or equal to 1/],
  ['segments of 21 s', { segmentSeconds: 21 }, /spec\.segmentSeconds: Invalid value: 21: .*less than or equal to 20/],
  ['half a segment', { segmentSeconds: 1.5 }, /spec\.segmentSeconds: Invalid value: .*must be of type integer/],
  ['an accelerator that is none', { accelerator: 'tpu' }, /spec\.accelerator: Unsupported value: "tpu"/],
  ['a priority that is none', { priority: 'urgent' }, /spec\.priority: Unsupported value: "urgent"/],
  ['no pod', { parallelism: 0 }, /spec\.parallelism: Invalid value: 0: .*greater than or equal to 1/],
  ['65 pods', { parallelism: 65 }, /spec\.parallelism: Invalid value: 65: .*less than or equal to 64/],
  [
    'two pods for two videos',
    { inputs: inputs(2), parallelism: 2 },
    /spec\.parallelism: Invalid value: .*more than 1 needs exactly one input, a video or a motion/,
  ],
  [
    'two pods for an image',
    { ...input({ type: 'image' }), parallelism: 2 },
    /spec\.parallelism: Invalid value: .*more than 1 needs exactly one input, a video or a motion/,
  ],
  ['suspend as text', { suspend: 'yes' }, /spec\.suspend: Invalid value: "string"/],
  ['a deadline of 59 s', { attemptDeadlineSeconds: 59 }, /spec\.attemptDeadlineSeconds: Invalid value: 59/],
  ['a deadline over a day', { attemptDeadlineSeconds: 86_401 }, /spec\.attemptDeadlineSeconds: Invalid value: 86401/],
  ['no attempt', { maxAttempts: 0 }, /spec\.maxAttempts: Invalid value: 0/],
  ['eleven attempts', { maxAttempts: 11 }, /spec\.maxAttempts: Invalid value: 11/],
  ['a negative time to live', { ttlSecondsAfterFinished: -1 }, /spec\.ttlSecondsAfterFinished: Invalid value: -1/],
  [
    'more than 30 days',
    { ttlSecondsAfterFinished: 2_592_001 },
    /spec\.ttlSecondsAfterFinished: Invalid value: 2592001/,
  ],
]
for (const [name, spec, message] of REFUSED) {
  t.test(`refused: ${name}`, async (t) => {
    const said = await answer(() => create(spec))
    t.match(said, /^Invalid: TranscodeJob\.media\.keepsake\.dev "tj-\d+" is invalid/)
    t.match(said, message)
  })
}

t.test('a resource without spec is refused', async (t) => {
  const bare = { ...newTranscodeJob({ metadata: { name: 'bare', namespace } }), spec: undefined }
  t.match(await answer(() => kube.create(TRANSCODE_JOBS, bare as KubeObject)), /spec: Required value/)
})

t.test('a field that nobody knows is refused by kubectl, which asks for strictness', async (t) => {
  const typo = newTranscodeJob({ metadata: { name: 'typo', namespace }, spec: { maxAttemps: 5 } })
  await t.rejects(plane.kubectlIn(JSON.stringify(typo), 'create', '-f', '-'), /unknown field "spec\.maxAttemps"/)
})

const FIXED: [field: string, value: unknown][] = [
  ['inputs', [anInput('another')]],
  ['renditions', ['360p']],
  ['parallelism', 2],
  ['segmentSeconds', 4],
  ['accelerator', 'cpu'],
  ['attemptDeadlineSeconds', 600],
  ['maxAttempts', 5],
  ['ttlSecondsAfterFinished', 10],
]
t.test('only suspend and priority may be changed', async (t) => {
  const { metadata } = await create({})
  const key = { namespace, name: metadata.name }
  const edit = (spec: object) => answer(() => kube.patch(TRANSCODE_JOBS, key, { spec }))
  for (const [field, value] of FIXED) {
    const said = new RegExp(
      `^Invalid: .*spec\\.${field}: Forbidden: ${field} cannot be changed: create another resource instead`,
    )
    t.match(await edit({ [field]: value }), said, field)
    if (field !== 'inputs')
      t.match(await edit({ [field]: null }), /accepted|Forbidden/, `${field}: back to its default`)
  }
  t.equal(await edit({ suspend: true, priority: 'interactive' }), 'accepted')
  t.equal(await edit({ suspend: false }), 'accepted')
  const { spec } = (await kube.get(TRANSCODE_JOBS, key)) as { spec: Record<string, unknown> }
  t.match(spec, { segmentSeconds: 6, maxAttempts: 3, priority: 'interactive', suspend: false })
})

t.test('a value that is not the default cannot be removed either', async (t) => {
  const { metadata } = await create({ segmentSeconds: 4 })
  const edit = () => kube.patch(TRANSCODE_JOBS, { namespace, name: metadata.name }, { spec: { segmentSeconds: null } })
  t.match(await answer(edit), /spec\.segmentSeconds: Forbidden/)
})

const CONDITION = {
  type: 'Succeeded',
  status: 'Unknown',
  reason: 'Running',
  message: '',
  observedGeneration: 1,
  lastTransitionTime: '2026-01-01T00:00:00Z',
}
const BAD_STATUS: [string, object, RegExp][] = [
  ['a phase that is none', { phase: 'Dreaming' }, /status\.phase: Unsupported value/],
  ['101 percent', { progress: { percent: 101, updatedAt: CONDITION.lastTransitionTime } }, /status\.progress\.percent/],
  ['progress without its time', { progress: { percent: 1 } }, /status\.progress\.updatedAt: Required value/],
  ['a time that is none', { startTime: 'yesterday' }, /status\.startTime: Invalid value/],
  ['a condition without message', { conditions: [{ ...CONDITION, message: undefined }] }, /message: Required value/],
  ['a reason with a space', { conditions: [{ ...CONDITION, reason: 'Not good' }] }, /reason: Invalid value/],
  ['the same condition twice', { conditions: [CONDITION, CONDITION] }, /status\.conditions\[1\]: Duplicate value/],
  ['an accelerator that is none', { accelerator: 'auto' }, /status\.accelerator: Unsupported value/],
  ['negative attempts', { attempts: -1 }, /status\.attempts: Invalid value/],
  ['an output without state', { outputs: [{ id: 'm1' }] }, /status\.outputs\[0\]\.state: Required value/],
]
t.test('status is checked too, and only by way of its subresource', async (t) => {
  const { metadata } = await create({})
  const key = { namespace, name: metadata.name }
  for (const [name, status, message] of BAD_STATUS) {
    t.match(await answer(() => setStatus(TRANSCODE_JOBS, key, status)), message, name)
  }
  t.equal(await answer(() => setStatus(TRANSCODE_JOBS, key, { phase: 'Running', conditions: [CONDITION] })), 'accepted')
  await kube.patch(TRANSCODE_JOBS, key, { status: { phase: 'Failed' } })
  t.match(await kube.get(TRANSCODE_JOBS, key), { status: { phase: 'Running' } }, 'the resource itself takes no status')
  await setStatus(TRANSCODE_JOBS, key, { phase: 'Running' })
  t.match(await kube.get(TRANSCODE_JOBS, key), { metadata: { generation: 1 } }, 'and status is no new generation')
})

t.test('a HighlightRender has its own bounds and fixed fields', async (t) => {
  const { kind, newResource } = kitOf(highlightRender)
  const key = { namespace, name: 'highlight' }
  const submit = (name: string, spec: object = {}) =>
    answer(() => kube.create(kind.resource, newResource({ metadata: { name, namespace }, spec }) as KubeObject))
  const item = aHighlightItem()
  t.equal(await submit('highlight'), 'accepted')
  t.equal(await submit('long', { title: '🎂'.repeat(200), items: [{ ...item, caption: 'é'.repeat(200) }] }), 'accepted')
  t.match(await submit('longer', { title: '🎂'.repeat(201) }), /spec\.title/)
  t.match(await submit('lines', { items: [{ ...item, caption: 'a\nb' }] }), /spec\.items\[0\]\.caption/)
  t.match(await submit('many', { items: Array.from({ length: 31 }, (_, i) => aHighlightItem(`m${i}`)) }), /spec\.items/)
  t.match(await submit('below', { outputPrefix: 'org/o/media/m1/' }), /no sourceKey may lie below outputPrefix/)

  const edit = (spec: object) => answer(() => kube.patch(kind.resource, key, { spec }))
  t.equal(await edit({ suspend: true, priority: 'backfill' }), 'accepted')
  for (const spec of [{ title: 'Winter' }, { items: [aHighlightItem('m2')] }, { renditions: ['360p'] }]) {
    t.match(await edit(spec), /cannot be changed: create another resource instead/, JSON.stringify(spec))
  }
  const music = { id: 'trk_1', sourceKey: 'tracks/1' }
  t.match(await edit({ music }), /music cannot be changed/, 'added')
  t.equal(await submit('heard', { music }), 'accepted')
  const removed = () => kube.patch(kind.resource, { ...key, name: 'heard' }, { spec: { music: null } })
  t.match(await answer(removed), /music cannot be changed/, 'removed')
})
