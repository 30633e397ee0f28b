import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { API_VERSION } from '../../crds/kind.ts'
import { TRANSCODE_JOBS, type TranscodeJobSpec } from '../../crds/transcode-job.ts'
import {
  type Cluster,
  type ClusterErrorReason,
  EVENTS_V1,
  isClusterError,
  JOBS,
  type KubeObject,
  LEASES,
  type ObjectMeta,
  type ReflectOptions,
  type Resource,
} from '../../lib/runtime/kube/cluster.ts'
import { eventually } from './eventually.ts'

export interface ContractOptions {
  /** Must exist. */
  namespace?: string
  /** Whether Jobs become pods and the garbage collector works: not so with a bare API server. */
  runsJobs: boolean
  /** For `runsJobs`. */
  image?: string
  /** What it takes `exit N` and `sleep N` from as a last argument; `sh -c` unless told. */
  shell?: readonly string[]
}

interface TranscodeJob extends KubeObject {
  spec: Partial<TranscodeJobSpec>
  status?: Record<string, unknown>
}

async function refused(t: Test, reason: ClusterErrorReason, work: Promise<unknown>, what: string): Promise<void> {
  const error = await work.then(
    () => undefined,
    (e: unknown) => e,
  )
  t.ok(isClusterError(error, reason), `${what}: ${reason}, got ${String(error)}`)
}

/** A real cluster batches the status of Jobs, and its garbage collector looks for new kinds every 30 seconds. */
const WAIT_MS = 240_000

const uniqueName = (prefix: string) => `${prefix}-${randomUUID().slice(0, 8)}`

function aTranscodeJob(metadata: Partial<ObjectMeta>, spec: object = {}): TranscodeJob {
  const inputs = [{ id: 'm1', type: 'video' as const, sourceKey: 'a/source', outputPrefix: 'a/out/' }]
  return {
    apiVersion: API_VERSION,
    kind: 'TranscodeJob',
    metadata: { name: uniqueName('tj'), ...metadata },
    spec: { inputs, ...spec },
  }
}

/** Follows a resource and keeps a diary of what it was told. */
function diaryOf(cluster: Cluster, namespace: string, labelSelector?: string, more: ReflectOptions<TranscodeJob> = {}) {
  const entries: {
    type: 'set' | 'delete'
    name: string
    uid: string | undefined
    old: boolean
    object: TranscodeJob
  }[] = []
  const note = (type: 'set' | 'delete', object: TranscodeJob, old: TranscodeJob | undefined) =>
    void entries.push({ type, name: object.metadata.name, uid: object.metadata.uid, old: old !== undefined, object })
  const reflection = cluster.reflect<TranscodeJob>(
    TRANSCODE_JOBS,
    { onSet: (object, old) => note('set', object, old), onDelete: (object) => note('delete', object, undefined) },
    { namespace, ...(labelSelector && { labelSelector }), ...more },
  )
  return { entries, reflection, of: (name: string) => entries.filter((e) => e.name === name) }
}

/** What every Cluster promises. Names are fresh in each run, so that a shared real cluster will do. */
export function clusterContract(t: Test, open: () => Promise<Cluster> | Cluster, options: ContractOptions): void {
  const namespace = options.namespace ?? 'default'
  const made: { resource: Resource; name: string }[] = []

  const opened = async (t: Test) => {
    const cluster = await open()
    t.teardown(async () => {
      for (const { resource, name } of made.splice(0))
        await cluster.delete(resource, { namespace, name }).catch(() => {})
      await cluster.close()
    })
    const make = async (metadata: Partial<ObjectMeta> = {}, spec: object = {}) => {
      const object = await cluster.create(TRANSCODE_JOBS, aTranscodeJob({ namespace, ...metadata }, spec))
      made.push({ resource: TRANSCODE_JOBS, name: object.metadata.name })
      return object
    }
    const get = (name: string) => cluster.get<TranscodeJob>(TRANSCODE_JOBS, { namespace, name })
    return { cluster, make, get }
  }

  t.test('creates an object with defaults and what belongs to the server', async (t) => {
    const { make, get } = await opened(t)
    const object = await make({ labels: { a: 'b' } })
    t.match(object, {
      apiVersion: API_VERSION,
      kind: 'TranscodeJob',
      metadata: { namespace, generation: 1, labels: { a: 'b' }, uid: /^[0-9a-f-]{36}$/, resourceVersion: /^\d+$/ },
      spec: { segmentSeconds: 6, priority: 'normal', suspend: false, renditions: ['360p', '720p', '1080p'] },
    })
    t.ok(Math.abs(Date.parse(object.metadata.creationTimestamp ?? '') - Date.now()) < 60_000, 'with the time')
    t.strictSame(await get(object.metadata.name), object, 'which can be read again')
    t.equal(await get(uniqueName('absent')), undefined, 'while an absent one is undefined')
  })

  t.test('refuses a name that is taken and an object that breaks the schema', async (t) => {
    const { cluster, make } = await opened(t)
    const { metadata } = await make()
    const create = (m: Partial<ObjectMeta>, spec: object = {}) =>
      cluster.create(TRANSCODE_JOBS, aTranscodeJob({ namespace, ...m }, spec))
    await refused(t, 'AlreadyExists', create({ name: metadata.name }), 'a name twice')
    await refused(t, 'Invalid', create({ name: 'Not_A_Name' }), 'a bad name')
    await refused(t, 'Invalid', create({}, { inputs: [] }), 'no inputs')
    await refused(t, 'Invalid', create({}, { priority: 'urgent' }), 'an unknown priority')
    await refused(t, 'Invalid', create({ labels: { a: 'x'.repeat(64) } }), 'a label that is too long')
    const input = { id: 'same', type: 'video', sourceKey: 'k', outputPrefix: 'p/' }
    await refused(t, 'Invalid', create({}, { inputs: [input, input] }), 'two inputs of one id')
  })

  t.test('gives a status no way in but its own', async (t) => {
    const { cluster, make, get } = await opened(t)
    const object = aTranscodeJob({ namespace })
    made.push({ resource: TRANSCODE_JOBS, name: object.metadata.name })
    await cluster.create(TRANSCODE_JOBS, { ...object, status: { phase: 'Succeeded' } })
    t.equal((await get(object.metadata.name))?.status, undefined, 'not by create')
    const { metadata } = await make()
    const key = { namespace, name: metadata.name }
    await cluster.patch(TRANSCODE_JOBS, key, { status: { phase: 'Succeeded' } })
    t.equal((await get(metadata.name))?.status, undefined, 'not by patch')
  })

  t.test('lists by namespace and label selector', async (t) => {
    const { cluster, make } = await opened(t)
    const run = uniqueName('run')
    const red = await make({ labels: { run, color: 'red', size: 'l' } })
    const blue = await make({ labels: { run, color: 'blue' } })
    const plain = await make({ labels: { run } })
    const cases: [string, TranscodeJob[]][] = [
      [`run=${run}`, [red, blue, plain]],
      [`run=${run},color=red`, [red]],
      [`run=${run},color==blue`, [blue]],
      [`run=${run},color!=red`, [blue, plain]],
      [`run=${run},color in (red, blue)`, [red, blue]],
      [`run=${run},color notin (red)`, [blue, plain]],
      [`run=${run},color`, [red, blue]],
      [`run=${run},!color`, [plain]],
      [`run=${run},size in (l),color in (red,green)`, [red]],
    ]
    for (const [labelSelector, want] of cases) {
      const found = await cluster.list(TRANSCODE_JOBS, { namespace, labelSelector })
      t.strictSame(names(found), names(want), labelSelector)
    }
    t.strictSame(names(await cluster.list(TRANSCODE_JOBS, { labelSelector: `run=${run}` })).length, 3, 'all namespaces')
  })

  t.test('lets only one of two writers replace what both have read', async (t) => {
    const { cluster } = await opened(t)
    const name = uniqueName('lease')
    made.push({ resource: LEASES, name })
    const lease = (holderIdentity: string, leaseDurationSeconds = 15) => ({
      spec: { holderIdentity, leaseDurationSeconds },
    })
    const identity = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' }
    const first = await cluster.create<KubeObject>(LEASES, {
      ...identity,
      metadata: { name, namespace },
      ...lease('a'),
    })
    const outcomes = await Promise.allSettled(
      ['b', 'c'].map((holder) => cluster.replace<KubeObject>(LEASES, { ...first, ...lease(holder) })),
    )
    t.strictSame(outcomes.map((o) => o.status).sort(), ['fulfilled', 'rejected'])
    const lost = outcomes.find((o) => o.status === 'rejected')
    t.ok(isClusterError(lost?.reason, 'Conflict'), 'the other hears of a conflict')
    const won = outcomes.find((o) => o.status === 'fulfilled')
    t.strictSame(await cluster.get(LEASES, { namespace, name }), won?.value)
    const { resourceVersion: _, ...unguarded } = first.metadata
    await refused(t, 'Invalid', cluster.replace(LEASES, { ...first, metadata: unguarded }), 'without a version')
    const create = (spec: object) =>
      cluster.create<KubeObject>(LEASES, { ...identity, metadata: { name: uniqueName('lease'), namespace }, spec })
    await refused(t, 'Invalid', create(lease('x', 0).spec), 'no duration')
    await refused(t, 'Invalid', create({ renewTime: new Date().toISOString() }), 'a time of milliseconds')
  })

  t.test('merges a patch: null deletes, arrays are replaced, the version guards', async (t) => {
    const { cluster, make, get } = await opened(t)
    const { metadata } = await make({ labels: { a: '1', b: '2' }, finalizers: ['keepsake.dev/x', 'keepsake.dev/y'] })
    const key = { namespace, name: metadata.name }
    const patch = (body: object) => cluster.patch<TranscodeJob>(TRANSCODE_JOBS, key, body)
    const patched = await patch({ metadata: { labels: { a: null, c: '3' }, finalizers: ['keepsake.dev/x'] } })
    t.strictSame(patched.metadata.labels, { b: '2', c: '3' })
    t.strictSame(patched.metadata.finalizers, ['keepsake.dev/x'])
    const stale = { resourceVersion: metadata.resourceVersion, labels: { d: '4' } }
    await refused(t, 'Conflict', patch({ metadata: stale }), 'a stale version')
    const fresh = { ...stale, resourceVersion: patched.metadata.resourceVersion }
    t.match(await patch({ metadata: fresh }), { metadata: { labels: { d: '4' } } }, 'the current version')
    await patch({ metadata: { finalizers: null } })
    t.equal((await get(metadata.name))?.metadata.finalizers, undefined)
    const absent = { namespace, name: uniqueName('absent') }
    await refused(
      t,
      'NotFound',
      cluster.patch(TRANSCODE_JOBS, absent, { metadata: { labels: { a: 'b' } } }),
      'no object',
    )
  })

  t.test('counts generations of the spec alone and moves no version for nothing', async (t) => {
    const { cluster, make } = await opened(t)
    const first = await make()
    const key = { namespace, name: first.metadata.name }
    const patch = (body: object) => cluster.patch<TranscodeJob>(TRANSCODE_JOBS, key, body)
    const labelled = await patch({ metadata: { labels: { a: 'b' } } })
    t.equal(labelled.metadata.generation, 1, 'a label')
    t.not(labelled.metadata.resourceVersion, first.metadata.resourceVersion)
    t.equal(
      (await patch({ metadata: { labels: { a: 'b' } } })).metadata.resourceVersion,
      labelled.metadata.resourceVersion,
    )
    t.equal((await patch({ spec: { suspend: true } })).metadata.generation, 2, 'the spec')
    const status = await cluster.applyStatus<TranscodeJob>(TRANSCODE_JOBS, key, { phase: 'Suspended' }, 'one')
    t.equal(status.metadata.generation, 2, 'the status')
    const again = await cluster.applyStatus<TranscodeJob>(TRANSCODE_JOBS, key, { phase: 'Suspended' }, 'one')
    t.equal(again.metadata.resourceVersion, status.metadata.resourceVersion, 'the same status again')
  })

  t.test('lets suspend and priority of a TranscodeJob change and nothing else', async (t) => {
    const { cluster, make } = await opened(t)
    const { metadata } = await make()
    const key = { namespace, name: metadata.name }
    const patch = (spec: object) => cluster.patch<TranscodeJob>(TRANSCODE_JOBS, key, { spec })
    t.match(await patch({ suspend: true, priority: 'backfill' }), { spec: { suspend: true, priority: 'backfill' } })
    await refused(t, 'Invalid', patch({ segmentSeconds: 4 }), 'the length of segments')
    await refused(t, 'Invalid', patch({ inputs: [] }), 'the inputs')
    await refused(t, 'Invalid', patch({ maxAttempts: 5 }), 'attempts')
    await refused(t, 'Invalid', patch({ priority: 'urgent' }), 'an unknown priority')
  })

  t.test('keeps the status fields of two managers apart', async (t) => {
    const { cluster, make } = await opened(t)
    const { metadata } = await make()
    const key = { namespace, name: metadata.name }
    const progress = { percent: 10, updatedAt: '2026-01-01T00:00:00Z' }
    const apply = async (status: object, manager: string) =>
      (await cluster.applyStatus<TranscodeJob>(TRANSCODE_JOBS, key, status, manager)).status
    await apply({ phase: 'Running', jobName: 'j', attempts: 1 }, 'reconciler')
    t.strictSame(await apply({ progress }, 'receiver'), { phase: 'Running', jobName: 'j', attempts: 1, progress })
    t.strictSame(
      await apply({ phase: 'Succeeded', attempts: 1 }, 'reconciler'),
      { phase: 'Succeeded', attempts: 1, progress },
      'what its manager leaves out goes',
    )
    await apply({ progress: { ...progress, percent: 20 } }, 'receiver')
    t.strictSame(await apply({ attempts: 2 }, 'receiver'), { phase: 'Succeeded', attempts: 2 }, 'taken by force')
    t.strictSame(await apply({ phase: 'Succeeded' }, 'reconciler'), { phase: 'Succeeded', attempts: 2 }, 'and kept')
    await refused(t, 'Invalid', apply({ phase: 'Dancing' }, 'reconciler'), 'a value that the schema does not know')
    const { resourceVersion = '' } = (await cluster.get(TRANSCODE_JOBS, key))?.metadata ?? {}
    const seen = { ...key, resourceVersion }
    await cluster.applyStatus(TRANSCODE_JOBS, seen, { phase: 'Failed' }, 'reconciler')
    const late = cluster.applyStatus(TRANSCODE_JOBS, seen, { phase: 'Running' }, 'reconciler')
    await refused(t, 'Conflict', late, 'what has changed since')
    const absent = { namespace, name: uniqueName('absent') }
    await refused(t, 'NotFound', cluster.applyStatus(TRANSCODE_JOBS, absent, {}, 'reconciler'), 'no object')
  })

  t.test('deletes once, only the object that is meant, and after its finalizers', async (t) => {
    const { cluster, make, get } = await opened(t)
    const { metadata } = await make()
    const key = { namespace, name: metadata.name }
    await refused(t, 'Conflict', cluster.delete(TRANSCODE_JOBS, key, { uid: randomUUID() }), 'another uid')
    await cluster.delete(TRANSCODE_JOBS, key, { uid: metadata.uid ?? '' })
    t.equal(await get(metadata.name), undefined)
    await cluster.delete(TRANSCODE_JOBS, key)
    const held = await make({ finalizers: ['keepsake.dev/hold'] })
    const heldKey = { namespace, name: held.metadata.name }
    await cluster.delete(TRANSCODE_JOBS, heldKey)
    t.match((await get(held.metadata.name))?.metadata, { deletionTimestamp: String, finalizers: ['keepsake.dev/hold'] })
    await cluster.patch(TRANSCODE_JOBS, heldKey, { metadata: { finalizers: null } })
    t.equal(await get(held.metadata.name), undefined)
  })

  t.test('reflects what is there, what comes, what changes and what goes, in order', async (t) => {
    const { cluster, make } = await opened(t)
    const run = uniqueName('run')
    const early = await make({ labels: { run } })
    const { entries, reflection, of } = diaryOf(cluster, namespace, `run=${run}`)
    t.teardown(() => reflection.stop())
    await reflection.synced()
    t.match(entries, [{ type: 'set', name: early.metadata.name, old: false }], 'the list comes before synced')

    const late = await make({ labels: { run } })
    const key = { namespace, name: late.metadata.name }
    await cluster.patch(TRANSCODE_JOBS, key, { spec: { suspend: true } })
    await cluster.applyStatus(TRANSCODE_JOBS, key, { phase: 'Suspended' }, 'one')
    await cluster.delete(TRANSCODE_JOBS, key)
    await eventually('the deletion', () => of(late.metadata.name).some((e) => e.type === 'delete'), WAIT_MS)
    const told = of(late.metadata.name)
    t.match(told[0], { type: 'set', old: false, object: { spec: { suspend: false } } })
    t.match(
      told.slice(1, -1).every((e) => e.type === 'set' && e.old),
      true,
      'changes come with the old object',
    )
    t.match(told.at(-2)?.object, { spec: { suspend: true }, status: { phase: 'Suspended' } }, 'the last state is told')
    const versions = told.slice(0, -1).map((e) => Number(e.object.metadata.resourceVersion))
    t.strictSame(
      versions,
      [...versions].sort((a, b) => a - b),
    )
    t.equal(reflection.get(key), undefined)
    t.strictSame(names(reflection.list()), [early.metadata.name])
    t.match(reflection.get({ namespace, name: early.metadata.name }), { metadata: { uid: early.metadata.uid } })
  })

  t.test('reflects a name that comes again as another object', async (t) => {
    const { cluster, make } = await opened(t)
    const { entries, reflection, of } = diaryOf(cluster, namespace)
    t.teardown(() => reflection.stop())
    await reflection.synced()
    const first = await make()
    const { name } = first.metadata
    await cluster.delete(TRANSCODE_JOBS, { namespace, name })
    const second = await make({ name })
    await eventually(
      'the second object',
      () => entries.some((e) => e.type === 'set' && e.uid === second.metadata.uid),
      WAIT_MS,
    )
    t.strictSame(
      of(name).map((e) => [e.type, e.uid === first.metadata.uid ? 'first' : 'second', e.old]),
      [
        ['set', 'first', false],
        ['delete', 'first', false],
        ['set', 'second', false],
      ],
    )
  })

  t.test('reflects an object that stops matching as gone', async (t) => {
    const { cluster, make } = await opened(t)
    const run = uniqueName('run')
    const { reflection, of } = diaryOf(cluster, namespace, `run=${run}`)
    t.teardown(() => reflection.stop())
    await reflection.synced()
    const { metadata } = await make()
    const relabel = (value: string | null) =>
      cluster.patch(TRANSCODE_JOBS, { namespace, name: metadata.name }, { metadata: { labels: { run: value } } })
    await relabel(run)
    await eventually('the match', () => of(metadata.name).length === 1, WAIT_MS)
    await relabel(null)
    await eventually('the end of the match', () => of(metadata.name).length === 2, WAIT_MS)
    t.strictSame(
      of(metadata.name).map((e) => e.type),
      ['set', 'delete'],
    )
  })

  t.test('may leave objects out of its list, and yet tells what becomes of them', async (t) => {
    const { cluster, make } = await opened(t)
    const run = uniqueName('run')
    const labels = { run }
    const [left, listed] = [await make({ labels }), await make({ labels })]
    const listFieldSelector = `metadata.name!=${left.metadata.name}`
    const { reflection, of } = diaryOf(cluster, namespace, `run=${run}`, { listFieldSelector })
    t.teardown(() => reflection.stop())
    await reflection.synced()
    t.strictSame(names(reflection.list()), [listed.metadata.name])
    const key = { namespace, name: left.metadata.name }
    await cluster.patch(TRANSCODE_JOBS, key, { spec: { suspend: true } })
    await eventually('the change', () => reflection.get(key)?.spec.suspend, WAIT_MS)
    t.strictSame(
      of(left.metadata.name).map((e) => [e.type, e.old]),
      [['set', false]],
    )
    await cluster.delete(TRANSCODE_JOBS, key)
    await eventually('its end', () => of(left.metadata.name).at(-1)?.type === 'delete', WAIT_MS)
    t.equal(reflection.get(key), undefined)
  })

  t.test('trims what enters the cache and says nothing after stop', async (t) => {
    const { cluster, make } = await opened(t)
    const trim = ({ metadata }: TranscodeJob) => ({ metadata, spec: {} }) as TranscodeJob
    const { reflection, of, entries } = diaryOf(cluster, namespace, undefined, { trim })
    await reflection.synced()
    const { metadata } = await make()
    await eventually('the object', () => of(metadata.name).length > 0, WAIT_MS)
    t.strictSame(reflection.get({ namespace, name: metadata.name })?.spec, {})
    t.strictSame(of(metadata.name)[0]?.object.spec, {})
    await reflection.stop()
    const before = entries.length
    await cluster.delete(TRANSCODE_JOBS, { namespace, name: metadata.name })
    await sleep(100)
    t.equal(entries.length, before)
  })

  t.test('names Kubernetes events itself and wants them whole', async (t) => {
    const { cluster } = await opened(t)
    const now = new Date().toISOString().replace('Z', '000Z')
    const regarding = { apiVersion: API_VERSION, kind: 'TranscodeJob', name: uniqueName('tj'), namespace }
    const about = { eventTime: now, type: 'Normal', reason: 'Started', action: 'Start', regarding }
    const from = { reportingController: 'keepsake.dev/operator', reportingInstance: 'operator-1' }
    const event = {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { generateName: 'tj-' },
      ...about,
      ...from,
    }
    const create = (body: object) => cluster.create(EVENTS_V1, body as KubeObject)
    const metadata = { generateName: 'tj-', namespace }
    const made = await Promise.all([create({ ...event, metadata }), create({ ...event, metadata })])
    t.equal(new Set(made.map((e) => e.metadata.name)).size, 2)
    t.match(made[0], { metadata: { name: /^tj-.{5}$/ }, reason: 'Started', regarding })
    await refused(t, 'Invalid', create({ ...event, metadata, reportingController: '' }), 'no controller')
    const { action: _, ...inert } = event
    await refused(t, 'Invalid', create({ ...inert, metadata }), 'no action')
  })

  t.test('never takes a kind that it does not serve for an object that is gone', async (t) => {
    const { cluster } = await opened(t)
    const unknown = { ...TRANSCODE_JOBS, plural: 'wishes', kind: 'Wish' }
    await refused(t, 'Unavailable', cluster.list(unknown, { namespace }), 'list')
    await refused(t, 'Unavailable', cluster.create(unknown, { metadata: { name: 'a', namespace } }), 'create')
  })

  const skip = options.runsJobs ? false : 'nothing runs controllers here'
  t.test('collects what a deleted owner has left, Jobs and their pods', { skip }, async (t) => {
    const { cluster, make } = await opened(t)
    const owner = await make()
    const { name, uid = '' } = owner.metadata
    const ownerReferences = [{ apiVersion: API_VERSION, kind: 'TranscodeJob', name, uid, controller: true }]
    const job = await cluster.create(JOBS, aJob({ namespace, ownerReferences }, 'sleep 60', options))
    const orphan = await make({ ownerReferences })
    const other = await make()
    const both = [
      ...ownerReferences,
      { ...ownerReferences[0], name: other.metadata.name, uid: other.metadata.uid, controller: false },
    ]
    const shared = await make({ ownerReferences: both as NonNullable<ObjectMeta['ownerReferences']> })
    await cluster.delete(TRANSCODE_JOBS, { namespace, name })
    const isGone = async (resource: Resource, object: KubeObject) =>
      (await cluster.get(resource, { namespace, name: object.metadata.name })) === undefined
    await eventually('the end of the Job', () => isGone(JOBS, job), WAIT_MS)
    await eventually('the end of the other object', () => isGone(TRANSCODE_JOBS, orphan), WAIT_MS)
    t.notOk(await isGone(TRANSCODE_JOBS, shared), 'what somebody else owns as well stays')
  })

  const runs: [string, string, object][] = [
    ['a Job that succeeds', 'exit 0', { conditions: conditionOf('Complete'), succeeded: 1 }],
    ['a Job that nothing can help', 'exit 12', { conditions: conditionOf('Failed', 'PodFailurePolicy'), failed: 1 }],
    [
      'a Job that failed too often',
      'exit 20',
      { conditions: conditionOf('Failed', 'BackoffLimitExceeded'), failed: 1 },
    ],
  ]
  for (const [name, script, status] of runs) {
    t.test(`runs ${name}`, { skip }, async (t) => {
      const { cluster } = await opened(t)
      const { metadata } = await cluster.create(JOBS, aJob({ namespace }, script, options))
      made.push({ resource: JOBS, name: metadata.name })
      const ended = await eventually(
        'the end of the Job',
        async () => {
          const seen = await cluster.get(JOBS, { namespace, name: metadata.name })
          const { conditions = [], ...counts } = (seen?.status ?? {}) as { conditions?: { type: string }[] }
          const final = conditions.filter((c) => ['Complete', 'Failed'].includes(c.type))
          return final.length > 0 ? { ...counts, conditions: final } : undefined
        },
        WAIT_MS,
      )
      t.match(ended, status)
    })
  }
}

const names = (objects: readonly KubeObject[]) => objects.map((o) => o.metadata.name).sort()
const conditionOf = (type: string, reason?: string) => [{ type, status: 'True', ...(reason && { reason }) }]

/** A Job in the shape the operator writes: exit codes 10 to 13 are final, one attempt otherwise. */
function aJob(metadata: Partial<ObjectMeta>, script: string, options: ContractOptions): KubeObject {
  const { image = 'busybox', shell = ['sh', '-c'] } = options
  const command = [...shell, script]
  const rules = [
    { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] },
    { action: 'FailJob', onExitCodes: { containerName: 'main', operator: 'In', values: [10, 11, 12, 13] } },
  ]
  const pod = {
    restartPolicy: 'Never',
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'main', image, command }],
  }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: uniqueName('job'), ...metadata },
    spec: { backoffLimit: 0, podReplacementPolicy: 'Failed', podFailurePolicy: { rules }, template: { spec: pod } },
  }
}
