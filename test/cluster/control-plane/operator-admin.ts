import t from 'tap'
import { TRANSCODE_JOBS } from '../../../crds/transcode-job.ts'
import { isClusterError, JOBS, PODS } from '../../../lib/runtime/kube/cluster.ts'
import { eventually } from '../../support/eventually.ts'
import { type OperatorWorld, operatorPlane } from '../../support/operator-plane.ts'
import { controlPlaneWithoutNodes } from '../support.ts'

t.setTimeout(900_000)
t.jobs = 16
const side = () => ({ buffered: true, timeout: 600_000 }) // tap writes into it: one for each

const p = await operatorPlane(t, await controlPlaneWithoutNodes(t))
// Alone: a machine that stands still for as long as a lease would end it.
const operator = p.operator({ LEADER_ELECTION: 'false', JOB_PRIORITY_CLASSES: '{"interactive":"media-now"}' })
await operator.logged('workers started')
await p.plane.kubectl('create', 'priorityclass', 'media-now', '--value=1000')

function isOverQuota(error: Error): boolean {
  if (/exceeded quota: none/.test(error.message)) return true
  throw error
}
function isGone(error: unknown): false {
  if (isClusterError(error, 'NotFound')) return false
  throw error
}
const count = async (w: OperatorWorld) => [(await w.jobs()).length, (await w.pods('med-1')).length]

t.test('suspend takes a waiting pod away and keeps the Job, resume makes another pod', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1', { maxAttempts: 1 })
  await w.live('med-1')
  for (let i = 0; i < 2; i++) {
    await w.edit('med-1', { suspend: true })
    await w.says('med-1', 'Suspended')
    t.match(await w.status('med-1'), { phase: 'Suspended', attempts: 0 })
    await eventually('no pod', async () => (await w.pods('med-1')).length === 0)
    await w.edit('med-1', { suspend: false })
    await eventually('a pod again', async () => (await w.pods('med-1')).length === 1)
  }
  await w.run('med-1')
  await w.says('med-1', /^Running: Attempt 1 of 1 is running$/)
  await w.succeed('med-1')
  await w.says('med-1', 'Succeeded')
  const events = await w.told('med-1', /^Normal Succeeded/)
  t.equal(events.filter((e) => e.startsWith('Normal Suspended: Suspended by spec.suspend')).length, 1, 'a series')
  t.ok(events.some((e) => e.startsWith('Normal Resumed: ')))
  t.equal((await w.jobs()).length, 1)
})

t.test('suspended from the start, it gets its Job but no pod', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1', { suspend: true })
  await w.says('med-1', 'Suspended')
  t.strictSame(await count(w), [1, 0])
  await w.edit('med-1', { suspend: false })
  await w.live('med-1')
})

t.test('kubectl delete takes Job and pods along', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1')
  const pod = await w.live('med-1')
  await w.kubectl('delete', 'tj', 'med-1')
  await eventually('nothing left', async () => {
    const [jobs, pods] = [await w.jobs(), await p.kube.list(PODS, { namespace: w.namespace })]
    return jobs.length === 0 && pods.length === 0
  })
  t.equal(await p.kube.get(PODS, { namespace: w.namespace, name: pod.metadata.name }), undefined)
})

t.test('one that is re-created under its name at once gets a Job and a verdict of its own', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1')
  const first = await w.awaitJob('med-1')
  await w.kubectl('delete', 'tj', 'med-1', '--wait=false')
  await w.submit('med-1')
  const uid = (await w.resource('med-1'))?.metadata.uid ?? ''
  const second = await eventually('its Job', async () =>
    (await w.jobs()).find((j) => j.metadata.ownerReferences?.[0]?.uid === uid),
  )
  t.not(second.metadata.name, first.metadata.name)
  await w.succeed('med-1')
  await w.says('med-1', 'Succeeded')
})

t.test('a Job that somebody deletes is made again, and what ran counts as an attempt', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1')
  await w.run('med-1')
  await w.says('med-1', 'Running')
  const job = await w.awaitJob('med-1')
  await w.kubectl('delete', 'job', job.metadata.name, '--wait=false')
  const again = await eventually('another Job', async () =>
    (await w.jobs()).find((j) => j.metadata.uid !== job.metadata.uid && !j.metadata.deletionTimestamp),
  )
  t.equal(again.metadata.name, job.metadata.name, 'the same one')
  t.match(again, { spec: { backoffLimit: 1 } }, 'with the two attempts that are left')
  await eventually('its pod', async () => {
    const pods = await w.pods('med-1')
    return pods.length === 1 && pods[0]?.metadata.ownerReferences?.[0]?.uid === again.metadata.uid
  })
  await w.run('med-1')
  await w.says('med-1', /^Running: Attempt 2 of 3 is running$/)
  await w.succeed('med-1')
  await w.says('med-1', 'Succeeded')
  t.match(await w.status('med-1'), { attempts: 2 })
})

t.test('a pod that somebody deletes is a failed attempt of the Job, which makes another', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1')
  const pod = await w.run('med-1')
  await w.says('med-1', 'Running')
  await w.kubectl('delete', 'pod', pod.metadata.name, '--wait=false')
  await w.endPod(pod, { exitCode: 143 }).catch(() => {})
  await w.told('med-1', /^Warning Retrying: Attempt 1 of 3 failed: /)
  await w.succeed('med-1')
  await w.says('med-1', 'Succeeded')
  const jobs = await w.jobs()
  t.equal(jobs.length, 1)
  t.match(jobs[0]?.status, { failed: 1, succeeded: 1 })
  t.match(await w.status('med-1'), { attempts: 2 }, 'as many as the Job counts')
})

t.test('a pod that somebody deletes before it started counts as well, as its Job says', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1', { maxAttempts: 1 })
  await w.says('med-1', 'Unschedulable')
  const [pod] = await w.pods('med-1')
  await w.kubectl('delete', 'pod', pod?.metadata.name ?? '', '--wait=false')
  await w.says('med-1', 'BackoffLimitExceeded')
  t.match((await w.jobs())[0]?.status, { failed: 1 })
  t.match(await w.status('med-1'), { phase: 'Failed', attempts: 1 })
})

t.test('a quota that keeps the Job from making a pod is no silence', side(), async (t) => {
  const w = await p.world(t)
  await w.kubectl('create', 'quota', 'none', '--hard=pods=0')
  // It holds once its controller has counted what there is, and the API server has heard of that.
  const probe = () => w.kubectl('run', 'probe', '--image=none', '--dry-run=server')
  await eventually('the quota in force', () => probe().then(() => false, isOverQuota))
  await w.submit('med-1')
  const { metadata } = await w.awaitJob('med-1')
  await w.says('med-1', /^PodNotCreated: The Job has created no pod since .* "kubectl describe job tj-med-1-/)
  t.match(await w.kubectl('describe', 'job', metadata.name), /exceeded quota: none/)
  await w.told('med-1', /^Warning PodNotCreated: /)
  await w.kubectl('delete', 'quota', 'none')
  await w.says('med-1', 'Unschedulable') // the Job controller looks again after up to a minute
})

t.test('what somebody changes in the Job is put right: suspend, parallelism', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1')
  const { metadata } = await w.awaitJob('med-1')
  const specOf = async () => (await w.awaitJob('med-1')).spec
  await w.editJob(metadata.name, { suspend: true })
  await eventually('resumed', async () => (await specOf()).suspend === false)
  for (const parallelism of [0, 4]) {
    await w.editJob(metadata.name, { parallelism })
    await eventually('one at a time', async () => (await specOf()).parallelism === 1)
  }
  // The Job controller may hear of the changes later than we do, and then still replaces the pod.
  await eventually('a pod that stays', () => w.succeed('med-1').then(() => true, isGone))
  await w.says('med-1', 'Succeeded')
})

t.test('a new priority holds for pods that are still to be made', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1')
  const job = await w.awaitJob('med-1')
  await w.edit('med-1', { priority: 'interactive' })
  await eventually('seen', async () => (await w.status('med-1'))?.observedGeneration === 2)
  t.equal((await w.awaitJob('med-1')).metadata.uid, job.metadata.uid, 'what waits or runs is not thrown away')
  await w.submit('med-2', {
    priority: 'interactive',
    inputs: [{ ...{ id: 'm2', type: 'video' }, sourceKey: 'a', outputPrefix: 'b/' }],
  })
  t.match(await w.awaitJob('med-2'), { spec: { template: { spec: { priorityClassName: 'media-now' } } } })
})

t.test('status that somebody writes is put right, and a label is kept', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1')
  await w.run('med-1')
  await w.says('med-1', 'Running')
  await w.setStatus(TRANSCODE_JOBS, 'med-1', { phase: 'Pending', attempts: 0, jobName: 'nonsense' })
  await eventually('repaired', async () => {
    const status = await w.status('med-1')
    return status?.phase === 'Running' && status.attempts === 1 && status.jobName?.startsWith('tj-med-1-')
  })
  await Promise.all([
    w.kubectl('label', 'tj', 'med-1', 'team=family'),
    w.kubectl('annotate', 'tj', 'med-1', 'note=mine'),
    w.end('med-1', { exitCode: 20 }),
  ])
  await w.said('med-1', 'Retrying')
  t.match(await w.resource('med-1'), { metadata: { labels: { team: 'family' }, annotations: { note: 'mine' } } })
  t.match(await w.status('med-1'), { attempts: 1 })
})

t.test('edits that never stop lose nothing and stop nothing', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1')
  let edits = 0
  const editing = new AbortController()
  const editor = (async () => {
    while (!editing.signal.aborted) {
      await p.kube.patch(
        TRANSCODE_JOBS,
        { namespace: w.namespace, name: 'med-1' },
        { metadata: { labels: { n: `${edits++}` } } },
      )
    }
  })()
  await w.succeed('med-1')
  await w.says('med-1', 'Succeeded')
  editing.abort()
  await editor
  t.ok(edits > 10, `${edits} edits`)
  t.match(await w.resource('med-1'), {
    metadata: { labels: { n: `${edits - 1}` } },
    status: { progress: { percent: 100 } },
  })
  t.equal((await w.jobs()).length, 1)
})

t.test('a finished one goes when its time is over, with its Job', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1', { ttlSecondsAfterFinished: 3 })
  await w.succeed('med-1')
  await w.told('med-1', /^Normal Succeeded/) // which stays, while the resource may be gone before we look
  await eventually('its end', async () => (await w.resource('med-1')) === undefined)
  await eventually('that of its Job', async () => (await w.jobs()).length === 0)
})

t.test('the Job of a finished one goes before it, by a time to live of its own', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1')
  await w.end('med-1', { exitCode: 12 })
  await w.says('med-1', 'CorruptInput')
  const job = await eventually('its time to live', async () => {
    const [job] = await w.jobs()
    return job?.spec.ttlSecondsAfterFinished === 86_400 ? job : undefined
  })
  await p.kube.patch(
    JOBS,
    { namespace: w.namespace, name: job.metadata.name },
    { spec: { ttlSecondsAfterFinished: 0 } },
  )
  await eventually('its end', async () => (await w.jobs()).length === 0)
  t.match(await w.status('med-1'), { phase: 'Failed', attempts: 1 })
  await w.kubectl('annotate', 'tj', 'med-1', 'note=look-again')
  await new Promise((resolve) => setTimeout(resolve, 500))
  t.equal((await w.jobs()).length, 0, 'and no other takes its place')
})

t.test('kubectl get and describe say what happens', side(), async (t) => {
  const w = await p.world(t)
  await w.submit('med-1')
  await w.run('med-1')
  await w.says('med-1', 'Running')
  const updatedAt = new Date().toISOString()
  await w.progress('med-1', { percent: 42, speed: '1.8x', stage: 'Encoding', updatedAt })
  const rows = async (...args: string[]) =>
    (await w.kubectl('get', 'tj', ...args))
      .trimEnd()
      .split('\n')
      .map((line) => line.split(/\s{2,}/))
  const [head, row] = await rows()
  t.strictSame(head, ['NAME', 'MEDIA', 'PHASE', 'PROGRESS', 'SPEED', 'ACCELERATOR', 'ATTEMPTS', 'AGE'])
  t.match(row, ['med-1', 'm1', 'Running', '42', '1.8x', 'cpu', '1', /^(\d+[ms])+$/])
  const [wideHead, wide] = await rows('-o', 'wide')
  t.strictSame(wideHead?.slice(-2), ['REASON', 'MESSAGE'])
  t.strictSame(wide?.slice(-2), ['Running', 'Attempt 1 of 3 is running'])
  await w.end('med-1', { exitCode: 12 })
  await w.told('med-1', /CorruptInput/)
  const text = await w.kubectl('describe', 'tj', 'med-1')
  t.match(text, /Events:[\s\S]*Normal\s+JobCreated\s+\S+\s+keepsake\.dev\/operator\s+Created Job tj-med-1-/)
  t.match(text, /Warning\s+CorruptInput\s+\S+\s+keepsake\.dev\/operator\s+The source cannot be decoded/)
  t.match(await w.kubectl('get', 'keepsake'), /med-1/, 'by category')
})
