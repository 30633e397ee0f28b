import { setImmediate as turn } from 'node:timers/promises'
import type { Test } from 'tap'
import t from 'tap'
import { succeededOf } from '../../../crds/run.ts'
import type { JobResult } from '../../../lib/contract/job-result.ts'
import {
  type Cluster,
  ClusterError,
  JOBS,
  type KubeObject,
  type ObjectKey,
  PODS,
  type Resource,
} from '../../../lib/runtime/kube/cluster.ts'
import type { Job, Pod } from '../../../operator/jobs/batch.ts'
import { openJobCaches } from '../../../operator/jobs/caches.ts'
import { isConclusive, NO_POD_MS } from '../../../operator/jobs/evidence.ts'
import { trimJob } from '../../../operator/jobs/trim.ts'
import { childJob, formerName, type ProgramConfig } from '../../../operator/program/child.ts'
import type { RawResource } from '../../../operator/program/kind.ts'
import { reconcileProgram } from '../../../operator/program/reconcile.ts'
import { openResourceCache } from '../../../operator/program/resources.ts'
import type { KubeEvent } from '../../../operator/runtime/events.ts'
import { eachKind } from '../../support/each-kind.ts'
import { loseEachWrite } from '../../support/lost-writes.ts'
import { programConfig } from '../../support/program-kinds.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { type Fault, storeCluster } from '../../support/store-cluster.ts'

eachKind(t, (t, kit) => {
  const { aResource, aJob, jobName, newResource, kind } = kit

  const key = { namespace: 'media', name: 'med-1' }
  const made: JobResult = { ok: true, accelerator: 'cpu', outputs: [{ id: kit.output.id, state: 'Succeeded' }] }

  function cachesOf(cluster: Cluster, onChange: (key: ObjectKey) => void = () => {}) {
    const cache = openResourceCache({ cluster, kind, namespace: undefined, onChange, onGone: () => {} })
    const owners = new Map([[kind.ownerAnnotation, cache.childChanged]])
    return { ...cache, ...openJobCaches({ cluster, namespace: undefined, owners }) }
  }

  /** A cluster with one resource and a reconciler; the test plays kubelet and Job controller. */
  function world({ config, ...change }: { metadata?: object; spec?: object; config?: Partial<ProgramConfig> } = {}) {
    const api = storeCluster()
    const { cluster, store } = api
    const events: KubeEvent[] = []
    const changes: string[] = []
    const errors: unknown[] = []
    const time = { now: new Date('2026-01-01T00:00:30Z') }
    let leads = true
    const caches = cachesOf(cluster, (k) => changes.push(`${k.namespace}/${k.name}`))
    const reconcile = reconcileProgram({
      kind,
      cluster,
      caches,
      config: { ...programConfig, ...config },
      events: { record: (_, event) => void events.push(event), flush: async () => {} },
      log: quietLog(),
      mayWrite: () => leads,
      leadingSince: () => new Date(0),
      now: () => time.now,
    })
    const resource = store.create<KubeObject>(kind.resource, newResource(change) as KubeObject)
    const own = { namespace: 'media', name: resource.metadata.name }
    const once = async () => {
      await turn()
      await turn()
      await reconcile(own, new AbortController().signal).catch((error: unknown) => void errors.push(error))
    }
    const seen = () => store.find<RawResource>(kind.resource, own)
    const theJob = () => store.all<Job>(JOBS)[0] as Job
    const jobKey = () => ({ namespace: 'media', name: theJob().metadata.name })
    return {
      ...api,
      caches,
      events,
      changes,
      errors,
      time,
      resource,
      once,
      seen,
      theJob,
      reason: () => succeededOf(seen()?.status)?.reason,
      resign: () => {
        leads = false
      },
      settle: async () => {
        for (let i = 0; i < 5; i++) await once()
      },
      setJob: (status: object) => store.setStatus<Job>(JOBS, jobKey(), status),
      addPod(name: string) {
        const { metadata, spec } = theJob() as Job & { spec: { template: { metadata: object; spec: object } } }
        const owner = {
          apiVersion: 'batch/v1',
          kind: 'Job',
          name: metadata.name,
          uid: metadata.uid,
          controller: true,
        }
        store.create(PODS, {
          metadata: { ...spec.template.metadata, name, namespace: 'media', ownerReferences: [owner] },
          spec: spec.template.spec,
        } as unknown as Pod)
      },
      setPod: (name: string, phase: string, state: object) =>
        store.setStatus<Pod>(
          PODS,
          { namespace: 'media', name },
          { phase, containerStatuses: [{ name: 'media', state }] },
        ),
    }
  }
  type World = ReturnType<typeof world>

  /** The Job is being collected, which its cache does not show, until that is over. */
  function collected(w: World) {
    const { get } = w.cluster
    const collection = { isOver: false }
    w.cluster.get = async <T extends KubeObject>(resource: Resource, at: ObjectKey) => {
      const found = await get<T>(resource, at)
      const deletionTimestamp = '2026-01-01T06:00:00Z'
      if (!found || resource !== JOBS || collection.isOver) return found
      return { ...found, metadata: { ...found.metadata, deletionTimestamp } }
    }
    return collection
  }

  /** Another reconciler of the same world, which sees it through caches of its own. */
  function reconcilerOf(w: World, caches: Partial<World['caches']>, since = new Date(0), its = kind) {
    const reconcile = reconcileProgram({
      kind: its,
      cluster: w.cluster,
      caches: { ...w.caches, ...caches },
      config: programConfig,
      events: { record: () => {}, flush: async () => {} },
      log: quietLog(),
      mayWrite: () => true,
      leadingSince: () => since,
      now: () => w.time.now,
    })
    return () => reconcile({ namespace: 'media', name: w.resource.metadata.name }, new AbortController().signal)
  }

  const running = { running: { startedAt: '2026-01-01T00:00:02Z' } }
  const ended = (exitCode: number, result?: JobResult) => ({
    terminated: { exitCode, reason: 'Completed', ...(result && { message: JSON.stringify(result) }) },
  })
  const complete = {
    conditions: [{ type: 'Complete', status: 'True' }],
    startTime: '2026-01-01T00:00:01Z',
    completionTime: '2026-01-01T00:05:00Z',
    succeeded: 1,
  }

  /** From creation to success. */
  async function live(w: World): Promise<void> {
    await w.settle()
    w.setJob({ startTime: '2026-01-01T00:00:01Z', active: 1 })
    w.addPod('p1')
    await w.settle()
    w.setPod('p1', 'Running', running)
    await w.settle()
    w.setPod('p1', 'Succeeded', ended(0, made))
    w.setJob(complete)
    await w.settle()
  }

  /** Everything that is left, without what differs from run to run. */
  function ending(w: World): unknown {
    const { uid = '' } = w.resource.metadata
    const objects = [...w.store.all(kind.resource), ...w.store.all(JOBS)]
    const known = aResource({ metadata: { uid } })
    const text = JSON.stringify(objects.map(({ metadata: { name }, spec, status }) => ({ name, spec, status })))
    return JSON.parse(
      text.replaceAll(jobName(known, 1), 'JOB').replace(/"PROGRESS_TOKEN","value":"[^"]+"/, '""'),
      (k, v) => (['batch.kubernetes.io/controller-uid', 'media.keepsake.dev/owner-uid'].includes(k) ? 'UID' : v),
    )
  }

  t.test('a resource lives from creation to success, in few writes', async (t) => {
    const w = world()
    await live(w)
    t.match(w.seen()?.status, {
      phase: 'Succeeded',
      attempts: 1,
      jobName: w.theJob().metadata.name,
      startTime: '2026-01-01T00:00:01Z',
      completionTime: '2026-01-01T00:05:00Z',
      progress: { percent: 100, playable: [kit.output.id] },
      accelerator: 'cpu',
      outputs: [{ ...kit.output, state: 'Succeeded' }],
    })
    t.equal(w.theJob().spec.ttlSecondsAfterFinished, 21_600)
    t.strictSame(w.writes, [
      'create Job',
      `status ${kit.name} keepsake-operator`,
      `status ${kit.name} keepsake-operator`,
      `status ${kit.name} keepsake-operator`,
    ])
    t.strictSame(
      w.events.map((e) => e.reason),
      ['JobCreated', 'Succeeded'],
    )
    t.strictSame(w.errors, [])
  })

  t.test('one whose pod starts at once is a Job and two statuses; one that waits says so', async (t) => {
    const w = world()
    const { now } = w.time
    w.time.now = new Date()
    await w.settle()
    w.addPod('p1')
    w.setPod('p1', 'Running', running)
    await w.settle()
    w.time.now = now
    w.setPod('p1', 'Succeeded', ended(0, made))
    w.setJob(complete)
    await w.settle()
    t.strictSame(w.writes, [
      'create Job',
      `status ${kit.name} keepsake-operator`,
      `status ${kit.name} keepsake-operator`,
    ])
    t.strictSame(
      w.events.map((e) => e.reason),
      ['JobCreated', 'Succeeded'],
    )
    t.match(w.seen()?.status, { phase: 'Succeeded', progress: { percent: 100 }, accelerator: 'cpu' })

    const waiting = world()
    waiting.time.now = new Date()
    await waiting.settle()
    t.equal(waiting.seen()?.status, undefined)
    waiting.time.now = new Date(Date.now() + 4000)
    await waiting.settle()
    t.match(waiting.seen()?.status, { phase: 'Pending', conditions: [{ reason: 'Queued' }] })
  })

  t.test('everything ends the same way, whichever write or answer is lost', async (t) => {
    await loseEachWrite(t, world, { live, ending })
  })

  t.test('a reconciler that starts anew after every step ends the same way', async (t) => {
    const whole = world()
    await live(whole)
    const w = world()
    await live({ ...w, settle: w.once })
    await w.settle()
    t.strictSame(ending(w), ending(whole))
  })

  t.test('a finished resource is left alone, and deleted when its time is over', async (t) => {
    const w = world({ spec: { ttlSecondsAfterFinished: 600 } })
    await live(w)
    const before = w.writes.length
    await w.settle()
    t.equal(w.writes.length, before)
    w.time.now = new Date('2026-01-01T00:15:00Z')
    await w.once()
    t.equal(w.seen(), undefined)
    await w.settle()
    t.strictSame(w.errors, [])
  })

  t.test('a cache that lags behind our own writes does not make us repeat them', async (t) => {
    const w = world()
    await turn()
    await turn()
    const old = w.caches.resources.get(key) as RawResource
    await w.once()
    const stale = { resources: { ...w.caches.resources, get: () => old } }
    const reconcile = reconcilerOf(w, stale)
    await turn()
    await turn()
    await reconcile() // Creating → Queued
    const before = w.writes.length
    await reconcile()
    t.equal(w.writes.length, before)
  })

  t.test('a Job that we made before we died is adopted, a stranger with its name is not', async (t) => {
    const lost = world()
    lost.failWrite(1, 'after')
    await lost.settle()
    t.equal(lost.store.all(JOBS).length, 1)
    t.equal(lost.reason(), 'Queued')

    const w = world()
    const name = jobName(aResource({ metadata: { uid: w.resource.metadata.uid } }), 1)
    const spec = { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'x' }] } } }
    w.store.create(JOBS, { metadata: { name, namespace: 'media' }, spec } as KubeObject)
    await w.settle()
    t.equal(w.reason(), 'NameTaken')
    t.strictSame(w.store.all<Job>(JOBS).length, 1)
    t.equal(w.theJob().spec.ttlSecondsAfterFinished, undefined, 'not ours to touch')
  })

  t.test('a resource whose name has the prefix has it once in the name of its Job', async (t) => {
    const name = `${kind.shortName}-01h455vb4pex5vsknk084sn02q-1`
    const resource = aResource({ metadata: { name } })
    t.match(jobName(resource, 1), new RegExp(`^${name}-[0-9a-f]{8}$`))
    t.not(jobName(resource, 1), jobName(aResource({ metadata: { name: name.slice(3), uid: 'uid-2' } }), 1))
  })

  if (kind.hadPrefixTwice) {
    /** A resource whose Job an operator made that put the prefix before every name. */
    function upgraded() {
      const w = world({ metadata: { name: `${kind.shortName}-1` } })
      const { uid = '', name } = w.resource.metadata
      const resource = aResource({ metadata: { uid, name } })
      const job = childJob(kind, resource, 1, programConfig)
      const { ttlSecondsAfterFinished: _, ...spec } = job.spec
      const former = formerName(kind, resource, 1) ?? ''
      w.store.create(JOBS, { ...job, spec, metadata: { ...job.metadata, name: former } })
      return { w, former, resource }
    }

    t.test('a Job of the name that an older operator gave it is found, and lives to its end', async (t) => {
      const { w, former } = upgraded()
      t.match(former, new RegExp(`^${kind.shortName}-${kind.shortName}-1-`))
      await live(w)
      t.match(w.seen()?.status, { phase: 'Succeeded', jobName: former, attempts: 1 })
      t.equal(w.store.all(JOBS).length, 1)
      t.equal(w.theJob().spec.ttlSecondsAfterFinished, 21_600)
      t.strictSame(w.errors, [])
    })

    t.test('it is found before the cache knows it, and the next Job has the new name', async (t) => {
      const { w, former, resource } = upgraded()
      await turn()
      await turn()
      const unseen = { jobs: { ...w.caches.jobs, get: () => undefined }, jobsOf: () => [] }
      await reconcilerOf(w, unseen, new Date('2099-01-01T00:00:00Z'))()
      t.strictSame(
        w.store.all(JOBS).map((j) => j.metadata.name),
        [former],
      )
      t.equal(w.seen()?.status?.jobName, former)

      const late = upgraded()
      await turn()
      await turn()
      const look = async (at: string) => {
        late.w.time.now = new Date(at)
        await reconcilerOf(late.w, unseen, new Date('2099-01-01T00:00:00Z'))()
        return late.w.store.all(JOBS).length
      }
      t.equal(await look('2099-01-01T00:05:59Z'), 1)
      t.equal(await look('2099-01-01T00:06:01Z'), 2, 'by then every cache knows it')

      w.setJob({ conditions: [{ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded' }], failed: 1 })
      w.addPod('p1')
      w.store.setStatus<Pod>(PODS, { namespace: 'media', name: 'p1' }, { phase: 'Failed', reason: 'OutOfcpu' })
      await w.settle()
      t.strictSame(
        w.store.all(JOBS).map((j) => j.metadata.name),
        [jobName(resource, 2)],
      )
      t.match(w.seen()?.status, { restarts: 1, jobName: jobName(resource, 2) })
    })
  }

  t.test('a Job that completed is a success, although its pod was gone before its result was read', async (t) => {
    const w = world()
    await w.settle()
    w.setJob(complete)
    await w.settle()
    t.match(w.seen()?.status, { phase: 'Succeeded', progress: { percent: 100 }, conditions: [{ status: 'True' }] })
    t.strictSame(
      w.seen()?.status?.outputs?.map(({ state }) => state),
      kind.outputs(w.resource.spec as Parameters<typeof kind.outputs>[0]).map(() => 'Succeeded'),
    )
    t.equal(w.store.all(JOBS).length, 1)
    t.strictSame(w.errors, [])
  })

  t.test(
    'the reason of a failure is not lost because the cache does not show yet that its Job is being collected',
    async (t) => {
      const w = world()
      await w.settle()
      w.setJob({ conditions: [{ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded' }], failed: 1 })
      await turn()
      const collection = collected(w)
      await w.once()
      t.match(w.seen()?.status, { phase: 'Pending', conditions: [{ status: 'Unknown', reason: 'Creating' }] })
      collection.isOver = true // the pod was deleted by hand
      await w.once()
      t.equal(w.reason(), 'BackoffLimitExceeded')
    },
  )

  t.test('nor is a resource condemned while its Job is collected with a pod that never started', async (t) => {
    const w = world()
    await w.settle()
    w.addPod('p1')
    w.store.setStatus<Pod>(PODS, { namespace: 'media', name: 'p1' }, { phase: 'Failed', reason: 'OutOfcpu' })
    w.store.delete(PODS, { namespace: 'media', name: 'p1' }, { graceSeconds: 30 })
    w.setJob({ conditions: [{ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded' }], failed: 1 })
    await turn()
    const collection = collected(w)
    await w.once()
    t.match(w.seen()?.status, { phase: 'Pending', conditions: [{ status: 'Unknown', reason: 'Creating' }] })
    collection.isOver = true
    await w.once()
    t.equal(w.reason(), 'BackoffLimitExceeded')
  })

  t.test('a final verdict waits for what the pod said, even if the cache has not heard it yet', async (t) => {
    const w = world()
    await w.settle()
    w.addPod('p1')
    w.setPod('p1', 'Running', running)
    await w.settle()
    const deaf = {
      podsOf: (uid: string) =>
        w.caches.podsOf(uid).map((p) => ({
          ...p,
          status: { phase: 'Running', containerStatuses: [{ name: 'media', state: running }] },
        })),
    }
    w.setPod('p1', 'Succeeded', ended(0, made))
    w.setJob(complete)
    await turn()
    await turn()
    const reconcile = reconcilerOf(w, deaf)
    await reconcile()
    t.equal(w.reason(), 'Succeeded')
  })

  t.test('a pod that had succeeded before we started is asked for, as long as its Job does not say so', async (t) => {
    const w = world()
    await w.settle()
    w.addPod('p1')
    w.setPod('p1', 'Running', running)
    await w.settle()
    w.setPod('p1', 'Succeeded', ended(0, made))
    await w.settle()
    const before = w.seen()?.status
    t.equal(w.reason(), 'Running')

    // What a start with thousands of them does not list.
    const started = cachesOf(w.cluster)
    await Promise.all([started.resources, started.jobs, started.pods].map((cache) => cache.synced()))
    const { uid = '' } = w.resource.metadata
    t.strictSame(started.podsOf(uid), [])
    const once = reconcilerOf(w, started)
    await once()
    t.strictSame(w.seen()?.status, before, 'no step back')
    w.setJob(complete)
    await turn()
    await turn()
    await once()
    t.equal(w.reason(), 'Succeeded')
    t.match(w.seen()?.status, { attempts: 1, outputs: [{ state: 'Succeeded' }] })
  })

  t.test('a Job without a pod that we know of is believed for a moment, and then looked at', async (t) => {
    const queued = aResource()
    const startTime = '2026-01-01T00:00:00Z'
    const after = (ms: number) =>
      isConclusive(aJob(queued, { startTime }), [], new Date(Date.parse(startTime) + ms), false)
    t.ok(after(NO_POD_MS - 1), 'it may not have been made yet')
    t.notOk(after(NO_POD_MS), 'by now there should be one, or there was')
  })

  t.test('a Job that only the API server knows counts as one that the cache knows', async (t) => {
    const w = world()
    await w.settle()
    w.setJob({ startTime: '2026-01-01T00:00:01Z', uncountedTerminatedPods: { failed: ['gone'] } })
    await turn()
    await turn()
    await reconcilerOf(w, { jobs: { ...w.caches.jobs, get: () => undefined } })()
    t.match(w.seen()?.status, { attempts: 1, conditions: [{ reason: 'Retrying' }] })
  })

  t.test('a user who edits without pause does not keep the verdict from being written', async (t) => {
    const other = world()
    let edits = 0
    const { applyStatus } = other.cluster
    other.cluster.applyStatus = (resource, at, status, manager) => {
      // Between our reading and our writing, each time.
      if (edits < 4) other.store.patch(kind.resource, key, { metadata: { labels: { n: `e${Math.abs(edits++)}` } } })
      return applyStatus(resource, at, status, manager)
    }
    await other.once()
    await other.once()
    t.equal(edits, 4)
    t.strictSame(other.errors, [])
    t.equal(other.reason(), 'Queued')
    t.match(other.seen()?.metadata.labels, { n: 'e3' }, 'and loses nothing')
    t.equal(other.store.all(JOBS).length, 1)
    t.same(
      other.events.map((e) => e.reason),
      ['JobCreated'],
      'told once',
    )

    other.addPod('p1')
    other.setPod('p1', 'Running', running)
    edits = -10
    await other.once()
    t.match(other.errors, [{ reason: 'Conflict' }], 'who loses all the time comes again later')
  })

  t.test('a Job that could not start any pod is replaced, and the old one goes', async (t) => {
    const w = world()
    await w.settle()
    const first = w.theJob().metadata.name
    w.addPod('p1')
    w.store.setStatus<Pod>(
      PODS,
      { namespace: 'media', name: 'p1' },
      { phase: 'Failed', reason: 'UnexpectedAdmissionError' },
    )
    w.setJob({ conditions: [{ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded' }], failed: 1 })
    await w.settle()
    t.equal(w.store.all(JOBS).length, 1)
    t.not(w.theJob().metadata.name, first)
    t.match(w.seen()?.status, { restarts: 1, attempts: 0, jobName: w.theJob().metadata.name, phase: 'Pending' })
  })

  /** An attempt that needs more memory than any may have, in a Job whose controller sees its end before the pod's. */
  async function outOfMemory(t: Test, w: World, lost?: Fault): Promise<void> {
    w.addPod('p1')
    w.setPod('p1', 'Running', running)
    await w.settle()
    // The patch of the Job, and then the status.
    if (lost) w.failWrite(w.writes.length + 2, lost)
    w.setPod('p1', 'Failed', { terminated: { exitCode: 137, reason: 'OOMKilled' } })
    await w.once()
    t.equal(w.theJob().spec.activeDeadlineSeconds, 1)
    w.store.delete(PODS, { namespace: 'media', name: 'p1' }, { graceSeconds: 0 })
  }

  for (const lost of [undefined, 'before', 'after'] as const) {
    const what = lost ? `, also when the status is lost ${lost} it is written` : ''
    t.test(`a Job that takes the evidence along as it ends is judged by what ended it${what}`, async (t) => {
      const w = world({ config: { memoryMax: programConfig.memory } })
      await w.settle()
      await outOfMemory(t, w, lost)
      t.equal(w.errors.length, lost ? 1 : 0)
      await w.settle()
      t.match(w.seen()?.status, { phase: 'Running', attempts: 1, conditions: [{ reason: 'OOMKilled' }] })
      const reason = 'DeadlineExceeded'
      w.setJob({ conditions: [{ type: 'Failed', status: 'True', reason, message: 'said Kubernetes' }], failed: 1 })
      await w.settle()
      t.match(w.seen()?.status, { phase: 'Failed', attempts: 1 })
      t.match(succeededOf(w.seen()?.status), {
        status: 'False',
        reason: 'OOMKilled',
        message: /which is the maximum$/,
      })
      // Without an answer to the write, the operator cannot know that the event is due.
      t.strictSame(
        w.events.map((e) => e.reason),
        lost === 'after' ? ['JobCreated'] : ['JobCreated', 'OOMKilled'],
      )
    })
  }

  t.test('a Job that ends while the cache still shows it as it was keeps its reason', async (t) => {
    const w = world({ config: { memoryMax: programConfig.memory } })
    await w.settle()
    const before = w.theJob()
    await outOfMemory(t, w)
    await turn()
    await turn()
    await reconcilerOf(w, { jobs: { ...w.caches.jobs, get: () => trimJob(before) } })()
    t.not(w.reason(), 'OOMKilled', 'nothing shows it')
    await w.settle()
    t.equal(w.reason(), 'OOMKilled')
    t.match(w.seen()?.status, { attempts: 1 })
  })

  t.test('a Job that a user deleted is made again', async (t) => {
    const w = world()
    await w.settle()
    const { name } = w.theJob().metadata
    w.store.delete(JOBS, { namespace: 'media', name })
    await w.settle()
    t.equal(w.theJob().metadata.name, name)
  })

  t.test('suspend and resume reach the Job', async (t) => {
    const w = world()
    await w.settle()
    w.store.patch(kind.resource, key, { spec: { suspend: true } })
    await w.settle()
    t.equal(w.theJob().spec.suspend, true)
    t.match(w.seen()?.status, { phase: 'Suspended', observedGeneration: 2 })
    w.store.patch(kind.resource, key, { spec: { suspend: false } })
    await w.settle()
    t.equal(w.theJob().spec.suspend, false)
    t.match(w.seen()?.status, { phase: 'Pending', observedGeneration: 3 })
  })

  const refusals: [string, 'Invalid' | 'Forbidden', string, number][] = [
    ['refuses as invalid', 'Invalid', 'JobRejected', 0],
    ['forbids for now', 'Forbidden', 'JobForbidden', 1],
  ]
  for (const [what, reason, want, errors] of refusals) {
    t.test(`a Job that the API server ${what} is shown, condemns nothing, and is tried again`, async (t) => {
      const w = world()
      const { create } = w.cluster
      w.cluster.create = async () => Promise.reject(new ClusterError(reason, 'exceeded quota'))
      await w.once()
      t.match(succeededOf(w.seen()?.status), { status: 'Unknown', reason: want, message: 'exceeded quota' })
      t.equal(w.errors.length, errors)
      w.cluster.create = create
      await w.settle()
      t.equal(w.reason(), 'Queued')
    })
  }

  t.test('nothing is written any more once another process may be leading', async (t) => {
    const w = world()
    w.resign()
    await w.settle()
    t.strictSame(w.writes, [])
    t.match(w.errors[0], { message: 'no longer the leader' })
  })

  /** That of a version that does not know a value of the spec yet. */
  const olderKind: typeof kind = { ...kind, parse: () => ({ problem: 'spec.transition: Invalid option' }) }

  t.test('what only a newer operator understands waits for one', async (t) => {
    const w = world()
    await turn()
    await turn()
    const older = reconcilerOf(w, {}, undefined, olderKind)
    await older()
    const waiting = { status: 'Unknown', reason: 'NotUnderstood', message: /spec\.transition: Invalid option$/ }
    t.match(succeededOf(w.seen()?.status), waiting)
    t.match(w.seen()?.status, { phase: 'Pending' })
    t.equal(w.store.all(JOBS).length, 0)
    const before = w.writes.length
    await turn()
    await turn()
    await older()
    t.equal(w.writes.length, before, 'it is written once')
    await live(w)
    t.match(w.seen()?.status, { phase: 'Succeeded', attempts: 1 })
    t.strictSame(w.errors, [])
  })

  t.test('what a newer operator has begun goes on while an older one leads', async (t) => {
    const w = world()
    await w.settle()
    w.addPod('p1')
    w.setPod('p1', 'Running', running)
    w.setJob({ active: 1, startTime: '2026-01-01T00:00:01Z' })
    await w.settle()
    const { conditions: _, ...begun } = w.seen()?.status ?? {}
    await reconcilerOf(w, {}, undefined, olderKind)()
    t.match(w.seen()?.status, {
      ...begun,
      phase: 'Running',
      conditions: [{ status: 'Unknown', reason: 'NotUnderstood' }],
    })
    t.match(w.store.all<Job>(JOBS), [{ spec: { suspend: false } }])
    w.setPod('p1', 'Succeeded', ended(0, made))
    w.setJob(complete)
    await w.settle()
    t.match(w.seen()?.status, { phase: 'Succeeded', attempts: 1, startTime: '2026-01-01T00:00:01Z' })
  })

  t.test('a spec that no version understands says what is wrong with it', async (t) => {
    const w = world()
    await turn()
    await turn()
    const bad = { ...w.caches.resources.get(key), spec: { renditions: [] } } as unknown as RawResource
    await reconcilerOf(w, { resources: { ...w.caches.resources, get: () => bad } })()
    t.match(succeededOf(w.seen()?.status), { status: 'Unknown', reason: 'NotUnderstood', message: /renditions/ })
  })

  t.test(
    'progress of running work and what nobody reads ask for no reconciliation, everything else does',
    async (t) => {
      const w = world()
      await w.settle()
      w.changes.length = 0
      const progress = { percent: 5, updatedAt: '2026-01-01T00:00:00Z' }
      w.store.applyStatus(kind.resource, key, { progress, accelerator: 'cpu' }, 'keepsake-progress')
      w.setJob({ active: 1 }) // which nobody reads
      await turn()
      await turn()
      t.strictSame(w.changes, [])
      w.store.patch(kind.resource, key, { spec: { priority: 'interactive' } })
      w.setJob({ active: 1, startTime: '2026-01-01T00:00:01Z' })
      w.addPod('p1')
      await turn()
      await turn()
      t.strictSame(w.changes, ['media/med-1', 'media/med-1', 'media/med-1'])
    },
  )
})
