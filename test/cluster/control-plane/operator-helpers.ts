import t from 'tap'
import { JOBS } from '../../../lib/runtime/kube/cluster.ts'
import type { Job, Pod } from '../../../operator/jobs/batch.ts'
import { HELPER, ROLE } from '../../../operator/jobs/labels.ts'
import { isHelperJob } from '../../../operator/jobs/trim.ts'
import { eventually } from '../../support/eventually.ts'
import { jobsEverMade, type OperatorWorld, operatorPlane } from '../../support/operator-plane.ts'
import type { OperatorProcess } from '../../support/operator-process.ts'
import { controlPlaneWithoutNodes } from '../support.ts'

t.setTimeout(1_800_000)
const side = () => ({ buffered: true, timeout: 600_000 }) // tap writes into it: one for each
const LOOK_MS = 240_000
const INDEX = 'batch.kubernetes.io/job-completion-index'
const ALONE = { LEADER_ELECTION: 'false' }

const p = await operatorPlane(t, await controlPlaneWithoutNodes(t))
const made = jobsEverMade(p.kube)

const helperJobs = async (w: OperatorWorld) => (await w.jobs('med-1')).filter((job) => isHelperJob(job.metadata))
const helpersLeft = (w: OperatorWorld) => w.pods('med-1', `${ROLE}=${HELPER}`)
const indexOf = ({ metadata }: Pod) => Number(metadata.annotations?.[INDEX])
const isActive = ({ metadata, status }: Pod) =>
  metadata.deletionTimestamp === undefined && !['Succeeded', 'Failed'].includes(status?.phase ?? '')
const soon = <T>(what: string, look: () => Promise<T | undefined>) => eventually(what, look, LOOK_MS, 50)

/** The Job of helpers once it is there. */
const theHelpers = (w: OperatorWorld) => soon('helpers', async () => (await helperJobs(w))[0])
/** So many active pods of helpers, in the order of their indexes. */
const activeHelpers = (w: OperatorWorld, n: number) =>
  soon(`${n} pods of helpers`, async () => {
    const active = (await helpersLeft(w)).filter(isActive)
    return active.length === n ? active.sort((a, b) => indexOf(a) - indexOf(b)) : undefined
  })
const noHelpers = (w: OperatorWorld) =>
  soon('no helpers', async () => (await helperJobs(w)).length === 0 && (await helpersLeft(w)).length === 0)

const STARTED = '2026-01-01T00:00:02Z'
const runPod = (w: OperatorWorld, pod: Pod) =>
  w.setPod(pod, {
    phase: 'Running',
    containerStatuses: [
      {
        name: 'media',
        image: 'keepsake:1',
        imageID: '',
        ready: true,
        restartCount: 0,
        state: { running: { startedAt: STARTED } },
      },
    ],
  })

/** A resource in a namespace of its own, whose attempt runs. */
async function running(w: OperatorWorld, parallelism: number): Promise<void> {
  await w.submit('med-1', { parallelism })
  await w.run('med-1')
  await w.says('med-1', 'Running')
}

async function kill(operator: OperatorProcess): Promise<void> {
  operator.child.kill('SIGKILL')
  await operator.ended
}

const crashes = await Promise.all(
  ['create-helpers', 'helpers-created', 'delete-job', 'job-deleted'].map(async (point) => ({
    point,
    atEnd: point.includes('delete'),
    w: await p.world(t),
  })),
)
const atEnd = crashes.filter((c) => c.atEnd)
const first = p.operator(ALONE)
await Promise.all(atEnd.map(({ w }) => running(w, 3).then(() => activeHelpers(w, 2))))
await kill(first)

t.test('an operator is killed before and after it creates and deletes helpers', async (t) => {
  t.jobs = 4
  for (const { w, point, atEnd: isEnd } of crashes) {
    t.test(`at operator.${point}`, side(), async (t) => {
      const operator = w.operator({ ...ALONE, KEEPSAKE_FAILPOINT: `operator.${point}` })
      if (isEnd) await w.succeed('med-1')
      else {
        await w.submit('med-1', { parallelism: 3 })
        await w.run('med-1')
      }
      t.equal(await operator.ended, 'SIGKILL', 'as the failpoint does it')
    })
  }
})

t.test('beside the next operator', async (t) => {
  const operator = p.operator(ALONE)
  t.teardown(() => kill(operator))
  await operator.logged('workers started')
  t.jobs = 16

  for (const { w, point, atEnd: isEnd } of crashes) {
    t.test(`it goes on after operator.${point} as if nothing had happened`, side(), async (t) => {
      if (!isEnd) {
        await activeHelpers(w, 2)
        await w.succeed('med-1')
      }
      await w.says('med-1', 'Succeeded')
      await noHelpers(w)
      t.match(await w.status('med-1'), { phase: 'Succeeded', attempts: 1 })
      t.equal((await w.jobs('med-1')).length, 1)
      t.equal(made.get(w.namespace)?.size, 2, 'one Job of attempts and one of helpers were ever made')
    })
  }

  t.test('they come when the attempt runs, are repeated index by index, and go with the success', side(), async (t) => {
    const w = await p.world(t)
    await w.submit('med-1', { parallelism: 4 })
    await w.says('med-1', 'Unschedulable')
    t.strictSame(await helperJobs(w), [], 'nothing runs yet that they could help')
    await w.run('med-1')
    const job = await theHelpers(w)
    t.match(job.spec, { completionMode: 'Indexed', completions: 3, parallelism: 3, backoffLimitPerIndex: 3 })
    const pods = await activeHelpers(w, 3)
    t.strictSame(pods.map(indexOf), [0, 1, 2])
    const [kept, evicted, deleted] = pods as [Pod, Pod, Pod]
    for (const pod of pods) await runPod(w, pod)
    const conditions = [{ type: 'DisruptionTarget', status: 'True', reason: 'DeletionByTaintManager' }]
    await w.setPod(evicted, { conditions })
    await w.endPod(evicted, { exitCode: 143 })
    await w.kubectl('delete', 'pod', deleted.metadata.name)
    const after = await soon('others for both', async () => {
      const active = (await helpersLeft(w)).filter(isActive).sort((a, b) => indexOf(a) - indexOf(b))
      const known = pods.map((pod) => pod.metadata.uid)
      return active.length === 3 && active.filter((a) => !known.includes(a.metadata.uid)).length === 2
        ? active
        : undefined
    })
    t.strictSame(after.map(indexOf), [0, 1, 2])
    t.equal(after[0]?.metadata.uid, kept.metadata.uid, 'the one of the other index goes on')
    t.match(await w.status('med-1'), { phase: 'Running', attempts: 1 })
    await w.succeed('med-1')
    await w.says('med-1', 'Succeeded')
    await noHelpers(w)
    t.match(await w.status('med-1'), { attempts: 1, progress: { percent: 100 } })
    await w.told('med-1', /^Normal HelpersCreated: Created Job tj-med-1-[0-9a-f]{8} with 3 pods that help$/)
  })

  t.test(
    'one that fails for good ends itself alone; they are not made again, and go with the failure',
    side(),
    async (t) => {
      const w = await p.world(t)
      await running(w, 4)
      const pods = await activeHelpers(w, 3)
      for (const [i, pod] of pods.entries()) await w.endPod(pod, { exitCode: i === 1 ? 12 : 0 })
      const job = await soon('their end', async () => (await helperJobs(w)).find((j) => j.status?.conditions?.length))
      const over = await soon('their failure', async () =>
        (await helperJobs(w)).find((j) => j.status?.conditions?.some((c) => c.type === 'Failed')),
      )
      t.match(over.status, { completedIndexes: '0,2', failedIndexes: '1' })
      t.equal(over.metadata.uid, job.metadata.uid)
      t.match(await w.status('med-1'), { phase: 'Running', attempts: 1 })
      await w.end('med-1', { exitCode: 12 })
      await w.says('med-1', 'CorruptInput')
      await noHelpers(w)
      t.equal(made.get(w.namespace)?.size, 2)
    },
  )

  t.test('suspended, resumed, deleted', side(), async (t) => {
    const w = await p.world(t)
    await running(w, 3)
    await activeHelpers(w, 2)
    await w.edit('med-1', { suspend: true })
    await w.says('med-1', 'Suspended')
    await noHelpers(w)
    await w.edit('med-1', { suspend: false })
    await w.run('med-1')
    await activeHelpers(w, 2)
    t.match((await w.jobs('med-1')).length, 2)
    await w.kubectl('delete', 'tj', 'med-1')
    await soon('nothing left', async () => (await p.kube.list<Job>(JOBS, { namespace: w.namespace })).length === 0)
    await soon('no pod', async () => (await w.kubectl('get', 'pods', '-o', 'name')).trim() === '')
  })

  t.test('63 helpers come and go, and of none the operator writes anything', side(), async (t) => {
    const w = await p.world(t)
    await running(w, 64)
    const pods = await activeHelpers(w, 63)
    t.strictSame(
      pods.map(indexOf),
      Array.from({ length: 63 }, (_, i) => i),
    )
    const before = (await w.resource('med-1'))?.metadata.resourceVersion
    await Promise.all(pods.map((pod) => runPod(w, pod)))
    await Promise.all(pods.map((pod) => w.endPod(pod, { exitCode: 0 })))
    await soon('their end', async () =>
      (await helperJobs(w)).find((j) => j.status?.conditions?.some((c) => c.type === 'Complete')),
    )
    t.equal((await w.resource('med-1'))?.metadata.resourceVersion, before)
    await w.succeed('med-1')
    await w.says('med-1', 'Succeeded')
    await noHelpers(w)
    t.match(await w.status('med-1'), { attempts: 1, restarts: undefined })
  })

  t.test('a quota that leaves no room for their Job', side(), async (t) => {
    const w = await p.world(t)
    await w.kubectl('create', 'quota', 'one-job', '--hard=count/jobs.batch=1')
    await soon('the quota', async () =>
      (await w.kubectl('get', 'quota', 'one-job', '-o', 'jsonpath={.status.hard}')).includes('jobs.batch'),
    )
    await running(w, 4)
    await w.told('med-1', /^Warning HelpersRefused: Continuing without help: .*exceeded quota/)
    t.match(await w.status('med-1'), { phase: 'Running', attempts: 1, conditions: [{ reason: 'Running' }] })
    await w.kubectl('delete', 'quota', 'one-job')
    await activeHelpers(w, 3)
    await w.succeed('med-1')
    await w.says('med-1', 'Succeeded')
    await noHelpers(w)
  })

  t.test('a quota that leaves no room for their pods', side(), async (t) => {
    const w = await p.world(t)
    await w.kubectl('create', 'quota', 'one-pod', '--hard=pods=1')
    await soon('the quota', async () =>
      (await w.kubectl('get', 'quota', 'one-pod', '-o', 'jsonpath={.status.hard}')).includes('pods'),
    )
    await running(w, 4)
    const job = await theHelpers(w)
    const described = () => w.kubectl('describe', 'job', job.metadata.name)
    await soon('the words of the Job controller', async () => (await described()).includes('exceeded quota'))
    t.strictSame(await helpersLeft(w), [])
    await w.succeed('med-1')
    await w.says('med-1', 'Succeeded')
    await noHelpers(w)
    t.match(await w.status('med-1'), { attempts: 1 })
  })
})
