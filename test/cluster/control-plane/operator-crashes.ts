import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { Job } from '../../../operator/jobs/batch.ts'
import { eventually } from '../../support/eventually.ts'
import { jobsEverMade, type OperatorWorld, operatorPlane } from '../../support/operator-plane.ts'
import type { OperatorProcess } from '../../support/operator-process.ts'
import { KITS } from '../../support/program-kinds.ts'
import { controlPlaneWithoutNodes } from '../support.ts'

t.setTimeout(1_800_000)
const side = () => ({ buffered: true, timeout: 600_000 }) // tap writes into it: one for each

interface Scene {
  name: string
  /** How far a first operator brings it: a Job that runs, or nothing. */
  isRunning: boolean
  spec: object
  /** What makes the operator go on to where it is killed. */
  cause(w: OperatorWorld): Promise<unknown>
  /** Jobs made in all, and what its status comes to. */
  jobs: number
  status: object | undefined
  finish?(w: OperatorWorld): Promise<unknown>
  /** Reason of its condition, and its Job's time to live; those of a success by default. */
  end?: typeof SUCCESS
  points: string[]
}
const SUCCESS = { reason: 'Succeeded', ttl: 21_600 }

const SCENES: Scene[] = [
  {
    name: 'at the beginning',
    isRunning: false,
    spec: {},
    cause: async () => {},
    finish: (w) => w.succeed('med-1'),
    jobs: 1,
    status: { phase: 'Succeeded', attempts: 1, progress: { percent: 100 } },
    points: ['operator.create-job', 'operator.job-created', 'operator.apply-status', 'operator.status-applied'],
  },
  {
    name: 'at the end',
    isRunning: true,
    spec: {},
    cause: (w) => w.succeed('med-1'),
    jobs: 1,
    status: { phase: 'Succeeded', attempts: 1, progress: { percent: 100 } },
    points: ['operator.apply-status', 'operator.status-applied'],
  },
  {
    name: 'after a failure, whose Job stays longer',
    isRunning: true,
    spec: {},
    cause: (w) => w.end('med-1', { exitCode: 12 }),
    jobs: 1,
    status: { phase: 'Failed', attempts: 1 },
    end: { reason: 'CorruptInput', ttl: 86_400 },
    points: ['operator.status-applied', 'operator.patch-job', 'operator.job-patched'],
  },
  {
    name: 'at the end of one that has reported progress',
    isRunning: true,
    spec: {},
    cause: async (w) => {
      await w.progress('med-1', { percent: 42, stage: 'Encoding', updatedAt: new Date().toISOString() })
      await w.succeed('med-1')
    },
    jobs: 1,
    status: { phase: 'Succeeded', attempts: 1, progress: { percent: 100 } },
    points: ['operator.apply-progress', 'operator.progress-applied', 'operator.apply-status'],
  },
  {
    name: 'when its time is over',
    isRunning: true,
    spec: { ttlSecondsAfterFinished: 1 },
    cause: (w) => w.succeed('med-1'),
    jobs: 1,
    status: undefined,
    points: ['operator.delete-resource', 'operator.resource-deleted'],
  },
  {
    name: 'between a Job that ran out of memory and the next',
    isRunning: true,
    spec: {},
    cause: (w) => w.end('med-1', { exitCode: 137, reason: 'OOMKilled' }),
    finish: (w) => w.succeed('med-1'),
    jobs: 2,
    status: { phase: 'Succeeded', attempts: 2, restarts: 1, memory: '4Gi' },
    points: [
      'operator.apply-status',
      'operator.status-applied',
      'operator.patch-job',
      'operator.job-patched',
      'operator.apply-status:2',
      'operator.status-applied:2',
      'operator.delete-job',
      'operator.job-deleted',
      'operator.create-job',
      'operator.job-created',
    ],
  },
]

const p = await operatorPlane(t, await controlPlaneWithoutNodes(t))
const made = jobsEverMade(p.kube)
const asksFor = (job: Job | undefined) =>
  /"requests":\{"cpu":"(\d+)"/.exec(JSON.stringify(job?.spec['template'] ?? {}))?.[1]
async function kill(operator: OperatorProcess): Promise<void> {
  operator.child.kill('SIGKILL')
  await operator.ended
}

const cases = await Promise.all(
  KITS.flatMap((kit) => SCENES.flatMap((scene) => scene.points.map((point) => ({ kit, scene, point })))).map(
    async (one) => ({ ...one, w: await p.world(t, one.kit) }),
  ),
)
const first = p.operator({ LEADER_ELECTION: 'false' })
const begun = cases.filter(({ scene }) => scene.isRunning)
for (const { w, scene } of begun) await w.submit('med-1', scene.spec)
await Promise.all(begun.map(({ w }) => w.run('med-1')))
await Promise.all(begun.map(({ w }) => w.says('med-1', 'Running')))
await kill(first)
for (const { w, scene } of cases) if (!scene.isRunning) await w.submit('med-1', scene.spec)

t.test('an operator is killed at each of its writes', async (t) => {
  t.jobs = 4
  for (const { w, kit, scene, point } of cases) {
    t.test(`${kit.name}: at ${point} ${scene.name}`, side(), async (t) => {
      const operator = w.operator({ LEADER_ELECTION: 'false', KEEPSAKE_FAILPOINT: point })
      await scene.cause(w)
      t.equal(await operator.ended, 'SIGKILL', 'as the failpoint does it')
      t.notMatch(operator.output(), '"level":"error"')
    })
  }
})

t.test('the next operator goes on as if nothing had happened', async (t) => {
  const last = p.operator({ LEADER_ELECTION: 'false' })
  t.teardown(() => kill(last)) // it would do the work of those that come
  await last.logged('workers started')
  t.jobs = 16
  for (const { w, kit, scene, point } of cases) {
    t.test(`${kit.name}: after ${point} ${scene.name}`, side(), async (t) => {
      if (scene.jobs === 2) await w.becomes('med-1', (status) => status.restarts === 1)
      await scene.finish?.(w)
      if (scene.status) {
        const { reason, ttl } = scene.end ?? SUCCESS
        await w.says('med-1', reason)
        await eventually('its time to live', async () => (await w.jobs())[0]?.spec.ttlSecondsAfterFinished === ttl)
        t.match(await w.status('med-1'), scene.status)
        t.equal((await w.jobs()).length, 1)
      } else await eventually('nothing left', async () => !(await w.resource('med-1')) && (await w.jobs()).length === 0)
      await eventually('its Jobs seen', () => (made.get(w.namespace)?.size ?? 0) >= scene.jobs)
      t.equal(made.get(w.namespace)?.size, scene.jobs, 'exactly one Job for each attempt')
    })
  }
})

t.test('an operator of another configuration is killed while it replaces a Job that waits in vain', async (t) => {
  t.jobs = 4
  const points = [
    'apply-status',
    'status-applied',
    'patch-job',
    'job-patched',
    'delete-job',
    'job-deleted',
    'create-job',
  ]
  for (const point of [...points, 'job-created']) {
    t.test(`at operator.${point}`, side(), async (t) => {
      const w = await p.world(t)
      const before = w.operator({ LEADER_ELECTION: 'false', JOB_CPU: '1000' })
      await w.submit('med-1')
      await w.says('med-1', 'Unschedulable')
      await kill(before)
      const mended = { LEADER_ELECTION: 'false', JOB_CPU: '1' }
      const dying = w.operator({ ...mended, KEEPSAKE_FAILPOINT: `operator.${point}` })
      t.equal(await dying.ended, 'SIGKILL', 'as the failpoint does it')
      w.operator(mended)
      await eventually('a Job that asks for less', async () => asksFor((await w.jobs())[0]) === '1')
      await w.succeed('med-1')
      await w.says('med-1', 'Succeeded')
      t.match(await w.status('med-1'), { attempts: 1, restarts: undefined })
      t.equal((await w.jobs()).length, 1)
      await eventually('both Jobs seen', () => (made.get(w.namespace)?.size ?? 0) >= 2)
      t.equal(made.get(w.namespace)?.size, 2)
    })
  }
})

t.test('out of memory while no operator is there, and the Job has already made another pod', async (t) => {
  const w = await p.world(t)
  const before = w.operator({ LEADER_ELECTION: 'false' })
  await w.submit('med-1')
  const pod = await w.run('med-1')
  await w.says('med-1', 'Running')
  await kill(before)
  await w.endPod(pod, { exitCode: 137, reason: 'OOMKilled' })
  t.not((await w.live('med-1')).metadata.uid, pod.metadata.uid)
  w.operator({ LEADER_ELECTION: 'false' })
  await w.becomes('med-1', (status) => status.restarts === 1 && status.memory === '4Gi')
  await eventually('the next Job', async () => (await w.jobs()).length === 1 && made.get(w.namespace)?.size === 2)
  await w.succeed('med-1')
  await w.says('med-1', 'Succeeded')
  t.match(await w.status('med-1'), { attempts: 2 })
})

t.test('out of memory at the limit, and the pod that shows it is gone before the next operator looks', async (t) => {
  t.jobs = 4
  const most = { LEADER_ELECTION: 'false', JOB_MEMORY: '1Gi', JOB_MEMORY_MAX: '1Gi' }
  for (const point of ['job-patched', 'apply-status', 'status-applied']) {
    t.test(`killed at operator.${point}`, side(), async (t) => {
      const w = await p.world(t)
      const before = w.operator(most)
      await w.submit('med-1')
      const pod = await w.run('med-1')
      await w.says('med-1', 'Running')
      await kill(before)
      const dying = w.operator({ ...most, KEEPSAKE_FAILPOINT: `operator.${point}` })
      await w.endPod(pod, { exitCode: 137, reason: 'OOMKilled' })
      t.equal(await dying.ended, 'SIGKILL', 'as the failpoint does it')
      // As the Job controller does when its cache still shows the pod as running; so it may have done it already.
      await w.kubectl('delete', 'pod', pod.metadata.name, '--ignore-not-found')
      await eventually('the end of the Job', async () => {
        const [job] = await w.jobs()
        return job?.status?.conditions?.some((c) => c.type === 'Failed' && c.reason === 'DeadlineExceeded')
      })
      w.operator(most)
      const message = 'Attempt 1 of 3 needed more than 1Gi of memory, which is the maximum'
      t.match(await w.says('med-1', /^OOMKilled: /), { message })
      t.match(await w.becomes('med-1', (status) => status.phase === 'Failed'), {
        attempts: 1,
        conditions: [{ status: 'False', reason: 'OOMKilled', message }],
      })
    })
  }
})

t.test('an operator killed again and again while 40 resources come in', async (t) => {
  const w = await p.world(t)
  const names = Array.from({ length: 40 }, (_, i) => `med-${i}`)
  const submitting = (async () => {
    for (const name of names) {
      await w.submit(name)
      await sleep(100)
    }
  })()
  for (let i = 0; i < 4; i++) {
    const operator = w.operator({ LEADER_ELECTION: 'false' })
    await operator.logged('workers started')
    await sleep(20 + 60 * i)
    await kill(operator)
  }
  await submitting
  w.operator({ LEADER_ELECTION: 'false' })
  await Promise.all(names.map((name) => w.says(name, 'Unschedulable')))
  await eventually('all Jobs seen', () => (made.get(w.namespace)?.size ?? 0) >= 40)
  t.equal(made.get(w.namespace)?.size, 40)
  t.equal((await w.jobs()).length, 40)
})
