import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { succeededOf } from '../../../crds/run.ts'
import type { JobResult } from '../../../lib/contract/job-result.ts'
import { ClusterError, JOBS, type KubeObject, PODS } from '../../../lib/runtime/kube/cluster.ts'
import type { Job, Pod } from '../../../operator/jobs/batch.ts'
import { openJobCaches } from '../../../operator/jobs/caches.ts'
import { isHelperJob } from '../../../operator/jobs/trim.ts'
import type { RawResource } from '../../../operator/program/kind.ts'
import { reconcileProgram } from '../../../operator/program/reconcile.ts'
import { openResourceCache } from '../../../operator/program/resources.ts'
import type { KubeEvent } from '../../../operator/runtime/events.ts'
import { loseEachWrite } from '../../support/lost-writes.ts'
import { programConfig, TRANSCODE } from '../../support/program-kinds.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { storeCluster } from '../../support/store-cluster.ts'

const { kind, newResource } = TRANSCODE
const key = { namespace: 'media', name: 'med-1' }
const made: JobResult = { ok: true, accelerator: 'cpu', outputs: [{ id: TRANSCODE.output.id, state: 'Succeeded' }] }
const running = { running: { startedAt: '2026-01-01T00:00:02Z' } }
const over = (exitCode: number) => ({
  terminated: { exitCode, reason: 'Completed', ...(exitCode === 0 && { message: JSON.stringify(made) }) },
})
const condition = (type: string, reason: string) => [{ type, status: 'True', reason }]

/** One resource and, with `isNew`, a reconciler that starts anew at every step; the test plays everything else. */
function world({ isNew = false, parallelism = 4 } = {}) {
  const api = storeCluster()
  const { cluster, store } = api
  const events: KubeEvent[] = []
  const changes: string[] = []
  const errors: unknown[] = []
  const time = { now: new Date('2026-01-01T00:00:30Z') }
  function operator() {
    const cache = openResourceCache({
      cluster,
      kind,
      namespace: undefined,
      onChange: (k) => changes.push(k.name),
      onGone: () => {},
    })
    const jobCaches = openJobCaches({
      cluster,
      namespace: undefined,
      owners: new Map([[kind.ownerAnnotation, cache.childChanged]]),
    })
    const caches = { ...cache, ...jobCaches }
    const reconcile = reconcileProgram({
      kind,
      cluster,
      caches,
      config: programConfig,
      events: { record: (_, event) => void events.push(event), flush: async () => {} },
      log: quietLog(),
      mayWrite: () => true,
      leadingSince: () => new Date(0),
      now: () => time.now,
    })
    return { caches, reconcile }
  }
  store.create<KubeObject>(kind.resource, newResource({ spec: { parallelism } }) as KubeObject)
  let current = operator()
  async function once() {
    if (isNew) current = operator()
    for (let i = 0; i < 3; i++) await turn()
    return current.reconcile(key, new AbortController().signal).catch((error: unknown) => void errors.push(error))
  }
  const jobs = () => store.all<Job>(JOBS)
  const lead = () => jobs().find((j) => !isHelperJob(j.metadata)) as Job
  const helpers = () => jobs().filter((j) => isHelperJob(j.metadata))
  const at = ({ metadata }: KubeObject) => ({ namespace: 'media', name: metadata.name })
  function addPod(name: string, job: Job) {
    const { metadata, spec } = job as Job & { spec: { template: { metadata: object; spec: object } } }
    const owner = { apiVersion: 'batch/v1', kind: 'Job', name: metadata.name, uid: metadata.uid, controller: true }
    store.create(PODS, {
      metadata: { ...spec.template.metadata, name, namespace: 'media', ownerReferences: [owner] },
      spec: spec.template.spec,
    } as unknown as Pod)
  }
  const setPod = (name: string, phase: string, state: object) => {
    const status = { phase, containerStatuses: [{ name: 'media', state }] }
    store.setStatus<Pod>(PODS, { namespace: 'media', name }, status)
  }
  const settle = async () => {
    for (let i = 0; i < 5; i++) await once()
  }
  return {
    ...api,
    time,
    events,
    changes,
    errors,
    once,
    settle,
    lead,
    helpers,
    addPod,
    setPod,
    podsSeen: () => current.caches.pods.list().map((p) => p.metadata.name),
    setJob: (job: Job, status: object) => store.setStatus<Job>(JOBS, at(job), status),
    deleteJob: (job: Job) => store.delete(JOBS, at(job)),
    edit: (spec: object) => store.patch(kind.resource, key, { spec }),
    seen: () => store.find<RawResource>(kind.resource, key),
    /** The n-th attempt runs. */
    async run(n = 1) {
      await settle()
      addPod(`p${n}`, lead())
      setPod(`p${n}`, 'Running', running)
      await settle()
    },
  }
}
type World = ReturnType<typeof world>

async function succeed(w: World, pod = 'p1'): Promise<void> {
  w.setPod(pod, 'Succeeded', over(0))
  const time = { startTime: '2026-01-01T00:00:01Z', completionTime: '2026-01-01T00:05:00Z' }
  w.setJob(w.lead(), { conditions: condition('Complete', 'CompletionsReached'), ...time, succeeded: 1 })
  await w.settle()
}

/** Runs, is suspended and resumed, succeeds; helpers are there where they should. */
async function live(w: World): Promise<void> {
  await w.run()
  w.edit({ suspend: true })
  await w.settle()
  w.store.delete(PODS, { namespace: 'media', name: 'p1' }, { graceSeconds: 0 })
  w.edit({ suspend: false })
  await w.run(2)
  await succeed(w, 'p2')
}
const ending = (w: World) => ({
  status: JSON.parse(JSON.stringify(w.seen()?.status ?? {}).replaceAll(w.lead().metadata.name, 'JOB')),
  jobs: w.store.all<Job>(JOBS).length,
})

t.test('helpers come with the attempt, and go before the end is old', async (t) => {
  const w = world()
  await w.settle()
  t.strictSame(w.helpers(), [], 'nothing runs that they could help')
  await w.run()
  t.match(w.helpers(), [{ spec: { completionMode: 'Indexed', completions: 3, parallelism: 3 } }])
  w.edit({ suspend: true })
  await w.settle()
  t.strictSame(w.helpers(), [])
  w.store.delete(PODS, { namespace: 'media', name: 'p1' }, { graceSeconds: 0 })
  w.edit({ suspend: false })
  await w.run(2)
  t.equal(w.helpers().length, 1)
  await succeed(w, 'p2')
  t.strictSame(w.helpers(), [])
  t.match(w.seen()?.status, { phase: 'Succeeded', attempts: 1, jobName: w.lead().metadata.name })
  t.strictSame(
    w.events.map((e) => e.reason),
    ['JobCreated', 'HelpersCreated', 'Suspended', 'Resumed', 'HelpersCreated', 'Succeeded'],
  )
  t.strictSame(w.errors, [])
})

t.test('everything ends the same way, whichever write or answer is lost', async (t) => {
  const whole = await loseEachWrite(t, world, { live, ending })
  t.equal(ending(whole).jobs, 1)
  t.equal(whole.writes.filter((write) => write === 'create Job').length, 3)
})

t.test('an operator that starts anew at every step ends the same way', async (t) => {
  const whole = world()
  await live(whole)
  const w = world({ isNew: true })
  await live(w)
  t.strictSame(ending(w), ending(whole))
  t.strictSame(w.errors, [])
})

t.test('helpers that are over, or edited, are left alone until the resource is over', async (t) => {
  for (const end of [condition('Complete', 'CompletionsReached'), condition('Failed', 'FailedIndexes')]) {
    const w = world()
    await w.run()
    const [first] = w.helpers()
    w.setJob(first as Job, { conditions: end })
    await w.settle()
    t.strictSame(
      w.helpers().map((j) => j.metadata.uid),
      [first?.metadata.uid],
    )
    t.match(w.seen()?.status, { phase: 'Running', attempts: 1, conditions: [{ reason: 'Running' }] })
    await succeed(w)
    t.strictSame(w.helpers(), [])
  }
  const w = world()
  await w.run()
  const name = w.helpers()[0]?.metadata.name ?? ''
  w.store.patch(JOBS, { namespace: 'media', name }, { spec: { suspend: true, parallelism: 1 } })
  await w.settle()
  t.match(w.helpers(), [{ spec: { suspend: true, parallelism: 1 } }])
})

t.test('helpers of a Job that is gone go before the next is created', async (t) => {
  const w = world()
  await w.run()
  w.deleteJob(w.lead())
  w.store.delete(PODS, { namespace: 'media', name: 'p1' }, { graceSeconds: 0 })
  w.writes.length = 0
  await w.settle()
  t.strictSame(w.writes.slice(0, 2), ['delete Job', 'create Job'])
  t.strictSame(w.helpers(), [])
  await w.run(2)
  t.match(w.helpers(), [{ metadata: { annotations: { 'media.keepsake.dev/helps': w.lead().metadata.uid } } }])
})

t.test('pods of helpers are no attempts, ask for no reconciliation, and are in no cache', async (t) => {
  const w = world()
  await w.run()
  const before = w.seen()?.status
  const [job] = w.helpers() as [Job]
  w.changes.length = 0
  for (let i = 0; i < 3; i++) {
    w.addPod(`h${i}`, job)
    w.setPod(`h${i}`, 'Running', running)
    w.setPod(`h${i}`, i === 0 ? 'Succeeded' : 'Failed', over(i === 0 ? 0 : 20))
    w.setJob(job, { active: 2 - i, succeeded: 1, failed: i, startTime: '2026-01-01T00:00:01Z' })
  }
  for (let i = 0; i < 3; i++) await turn()
  t.strictSame(w.changes, ['med-1'], 'its Job has started')
  t.strictSame(w.podsSeen(), ['p1'])
  await w.settle()
  t.strictSame(w.seen()?.status, before)
  t.equal(w.helpers().length, 1)
})

const refusals: [what: string, error: ClusterError, events: number][] = [
  ['a quota', new ClusterError('Forbidden', 'exceeded quota: jobs'), 1],
  ['a policy', new ClusterError('Invalid', 'denied'), 1],
  ['a Job of that name', new ClusterError('AlreadyExists', 'exists'), 0],
  ['an API server that does not answer', new ClusterError('Unavailable', 'no answer'), 0],
]
for (const [what, error, told] of refusals) {
  t.test(`${what} that stands against helpers stands against nothing else`, async (t) => {
    const w = world()
    const { create } = w.cluster
    let tries = 0
    w.cluster.create = async (resource, object) => {
      if (resource !== JOBS || !isHelperJob(object.metadata)) return create(resource, object)
      tries += 1
      throw error
    }
    await w.run()
    t.strictSame([tries, w.errors], [1, []], 'not again at every change')
    t.match(w.seen()?.status, { phase: 'Running', conditions: [{ reason: 'Running' }] })
    t.equal(w.events.filter((e) => e.reason === 'HelpersRefused').length, told)
    t.match(await w.once(), { requeueAfterMs: 10_000 })
    w.time.now = new Date(w.time.now.getTime() + 10_000)
    await w.settle()
    t.equal(tries, 2)
    w.cluster.create = create
    await w.settle()
    t.strictSame(w.helpers(), [])
    w.time.now = new Date(w.time.now.getTime() + 20_000)
    await w.settle()
    t.equal(w.helpers().length, 1)
    await succeed(w)
    t.equal(succeededOf(w.seen()?.status)?.reason, 'Succeeded')
    t.strictSame(w.errors, [])
  })
}

t.test('a resource without parallelism has exactly the Jobs and writes that it always had', async (t) => {
  const w = world({ parallelism: 1 })
  await live(w)
  t.strictSame(
    w.writes.filter((write) => write.endsWith('Job')),
    ['create Job', 'patch Job', 'patch Job'],
  )
  t.notMatch(JSON.stringify(w.lead()), /parallelism\\"/)
})
