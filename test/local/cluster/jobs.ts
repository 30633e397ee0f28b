import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { isClusterError, JOBS, PODS } from '../../../lib/runtime/kube/cluster.ts'
import { eventually } from '../../support/eventually.ts'
import { jobCluster, testFolder } from '../../support/local-jobs.ts'

t.test('a Job that succeeds leaves its pod, its message and its counters', async (t) => {
  const c = jobCluster(t)
  await c.create('good', 'echo working; printf done > $TERMINATION_LOG')
  const { job, final, pods } = await c.over('good')
  t.match(final, { type: 'Complete', status: 'True', reason: 'CompletionsReached' })
  t.match(job.status, { succeeded: 1, ready: 0, terminating: 0, startTime: String, completionTime: String })
  t.notOk('failed' in (job.status ?? {}) || 'active' in (job.status ?? {}), 'counters of zero are left out')
  t.strictSame(
    job.status?.conditions?.map((x) => x.type),
    ['SuccessCriteriaMet', 'Complete'],
  )
  t.match(pods, [
    {
      metadata: {
        labels: { 'batch.kubernetes.io/controller-uid': job.metadata.uid },
        ownerReferences: [{ kind: 'Job', uid: job.metadata.uid, controller: true }],
      },
      status: {
        phase: 'Succeeded',
        containerStatuses: [{ state: { terminated: { exitCode: 0, reason: 'Completed', message: 'done' } } }],
      },
    },
  ])
  t.equal(pods[0]?.metadata.finalizers, undefined, 'counted, so free to go')
  t.equal(c.cluster.logs(c.key(pods[0]?.metadata.name ?? '')), 'working\n')
})

for (const code of [10, 11, 12, 13]) {
  t.test(`exit code ${code} ends the Job at the first attempt`, async (t) => {
    const c = jobCluster(t)
    await c.create('bad', `exit ${code}`)
    const { job, final, pods } = await c.over('bad')
    t.match(final, {
      type: 'Failed',
      reason: 'PodFailurePolicy',
      message: `failed with exit code ${code} matching FailJob rule at index 1`,
    })
    t.strictSame([job.status?.failed, pods.length], [1, 1])
    t.equal(job.status?.completionTime, undefined)
  })
}

for (const code of [1, 20, 21, 22, 30, 143]) {
  t.test(`exit code ${code} is tried again until the limit`, async (t) => {
    const c = jobCluster(t)
    await c.create('flaky', `exit ${code}`)
    const { job, final, pods } = await c.over('flaky')
    t.match(final, { type: 'Failed', reason: 'BackoffLimitExceeded' })
    t.strictSame([job.status?.failed, pods.length], [2, 2])
    t.strictSame(
      job.status?.conditions?.map((x) => x.type),
      ['FailureTarget', 'Failed'],
    )
    t.match(pods[0]?.status, {
      phase: 'Failed',
      containerStatuses: [{ state: { terminated: { exitCode: code, reason: 'Error' } } }],
    })
  })
}

t.test('a second attempt may succeed, after a pause', async (t) => {
  const folder = await testFolder(t)
  const c = jobCluster(t, { extraEnv: { FOLDER: folder }, backoffBaseMs: 300 })
  await c.create('retried', 'date +%s%3N >> $FOLDER/starts; test $(wc -l < $FOLDER/starts) = 2 || exit 20')
  const { job, final } = await c.over('retried')
  t.equal(final.type, 'Complete')
  t.match(job.status, { succeeded: 1, failed: 1 })
  const [first = 0, second = 0] = (await readFile(join(folder, 'starts'), 'utf8')).trim().split('\n').map(Number)
  t.ok(second - first >= 290, `after ${second - first} ms`)
})

t.test('a program that is killed has 128 plus the signal as its code', async (t) => {
  const c = jobCluster(t)
  await c.create('killed', 'kill -9 $$', { spec: { backoffLimit: 0 } })
  const { pods } = await c.over('killed')
  t.match(pods[0]?.status?.containerStatuses?.[0]?.state.terminated, { exitCode: 137, signal: 9, reason: 'Error' })
})

t.test('an attempt that takes too long fails in place and counts', async (t) => {
  const c = jobCluster(t)
  await c.create('slow', 'sleep 60', { pod: { activeDeadlineSeconds: 1 }, spec: { backoffLimit: 0 } })
  const { final, pods } = await c.over('slow')
  t.match(final, { type: 'Failed', reason: 'BackoffLimitExceeded' })
  t.match(pods, [
    {
      status: {
        phase: 'Failed',
        reason: 'DeadlineExceeded',
        containerStatuses: [{ state: { terminated: { exitCode: 143 } } }],
      },
    },
  ])
})

t.test('a Job that takes too long fails for good and its pod goes', async (t) => {
  const c = jobCluster(t)
  await c.create('late', 'sleep 60', { spec: { activeDeadlineSeconds: 1, backoffLimit: 5 } })
  const { final } = await c.over('late')
  t.match(final, { type: 'Failed', reason: 'DeadlineExceeded' })
  await eventually('the end of its pod', async () => (await c.pods('late')).length === 0)
})

t.test('suspending stops the pod without spending an attempt, resuming starts again', async (t) => {
  const c = jobCluster(t)
  const folder = await testFolder(t)
  const script = `echo ready; trap 'exit 143' TERM; for i in $(seq 600); do test -e ${folder}/go && exit 0; sleep 0.05; done`
  await c.create('paused', script, { spec: { backoffLimit: 0 } })
  const first = await c.running('paused')
  t.match((await c.job('paused'))?.status, { active: 1, ready: 1 })
  await c.patch('paused', { suspend: true })
  await eventually('no pod', async () => (await c.pods('paused')).length === 0)
  const paused = await c.job('paused')
  t.match(paused?.status?.conditions, [{ type: 'Suspended', status: 'True', reason: 'JobSuspended' }])
  t.notOk(paused?.status?.failed || paused?.status?.active)
  await c.patch('paused', { suspend: false })
  const second = await c.running('paused')
  t.not(second.metadata.uid, first.metadata.uid)
  t.match((await c.job('paused'))?.status?.conditions, [{ type: 'Suspended', status: 'False', reason: 'JobResumed' }])
  await writeFile(join(folder, 'go'), '')
  t.equal((await c.over('paused')).final.type, 'Complete')
})

t.test('a Job that is resumed while its pod still ends does not run twice at once, nor count that end', async (t) => {
  const c = jobCluster(t)
  const folder = await testFolder(t)
  const ending = `until test -e ${folder}/go; do sleep 0.02; done; exit 1`
  await c.create('hasty', `trap '${ending}' TERM; echo ready; while :; do sleep 0.05; done`, {
    spec: { backoffLimit: 0 },
    pod: { terminationGracePeriodSeconds: 60 },
  })
  const first = await c.running('hasty')
  await c.patch('hasty', { suspend: true })
  await c.pod('hasty', 'a pod that ends', (p) => p.metadata.deletionTimestamp !== undefined)
  await c.patch('hasty', { suspend: false })
  const isResumed = async () => (await c.job('hasty'))?.status?.conditions?.some((x) => x.reason === 'JobResumed')
  await eventually('the Job to go on', isResumed)
  t.strictSame(
    (await c.pods('hasty')).map((p) => p.metadata.uid),
    [first.metadata.uid],
    'no other one beside it',
  )
  await writeFile(join(folder, 'go'), '')
  const second = await c.running('hasty')
  t.not(second.metadata.uid, first.metadata.uid)
  t.notOk((await c.job('hasty'))?.status?.failed)
})

t.test('a Job created suspended starts when it is resumed', async (t) => {
  const c = jobCluster(t)
  await c.create('later', 'exit 0', { spec: { suspend: true } })
  await eventually('the condition', async () => (await c.job('later'))?.status?.conditions)
  t.strictSame([await c.pods('later'), (await c.job('later'))?.status?.startTime], [[], undefined])
  await c.patch('later', { suspend: false })
  t.equal((await c.over('later')).final.type, 'Complete')
})

t.test('deleting a Job lets its program end by itself and removes everything', async (t) => {
  const folder = await testFolder(t)
  const c = jobCluster(t, { folder: join(folder, 'cluster') })
  await c.create('gone', `trap 'echo bye > ${folder}/bye; exit 143' TERM; echo ready; while :; do sleep 0.05; done`)
  const pod = await c.running('gone')
  t.ok(existsSync(join(folder, 'cluster/pods', pod.metadata.uid ?? '')))
  await c.delete('gone')
  t.equal(await c.job('gone'), undefined, 'the Job at once')
  await eventually('the end of its pod', async () => (await c.pods('gone')).length === 0)
  t.equal(await readFile(join(folder, 'bye'), 'utf8'), 'bye\n')
  await eventually('the end of its folder', () => !existsSync(join(folder, 'cluster/pods', pod.metadata.uid ?? '')))
  t.throws(() => c.cluster.logs(c.key(pod.metadata.name)), /no output of pod/)
})

t.test('a program that does not listen is killed when its grace is over', async (t) => {
  const c = jobCluster(t)
  await c.create('deaf', `trap '' TERM; echo ready; sleep 600`, { pod: { terminationGracePeriodSeconds: 1 } })
  await c.running('deaf')
  const start = Date.now()
  await c.delete('deaf')
  await eventually('the end of its pod', async () => (await c.pods('deaf')).length === 0)
  t.ok(Date.now() - start >= 900, 'no sooner, and long before its 600 seconds are over')
})

t.test('an evicted pod is replaced without spending an attempt', async (t) => {
  const c = jobCluster(t)
  await c.create('moved', 'echo ready; sleep 60', { spec: { backoffLimit: 0 } })
  const first = await c.running('moved')
  await c.cluster.evict(c.key(first.metadata.name))
  await c.pod('moved', 'another pod', (p) => p.metadata.uid !== first.metadata.uid && p.status?.phase === 'Running')
  t.notOk((await c.job('moved'))?.status?.failed)
})

t.test('a deleted pod counts as an attempt', async (t) => {
  const c = jobCluster(t)
  await c.create('lost', 'echo ready; sleep 60', { spec: { backoffLimit: 0 } })
  const pod = await c.running('lost')
  await c.cluster.delete(PODS, c.key(pod.metadata.name))
  t.match((await c.over('lost')).final, { type: 'Failed', reason: 'BackoffLimitExceeded' })
})

t.test('a finished Job goes when its time to live is over, also when that is said later', async (t) => {
  const c = jobCluster(t)
  let goneAt: number | undefined
  const onDelete = () => {
    goneAt ??= Date.now()
  }
  c.cluster.reflect(JOBS, { onSet: () => undefined, onDelete })
  await c.create('kept', 'exit 0')
  const { final } = await c.over('kept')
  await c.patch('kept', { ttlSecondsAfterFinished: 1 })
  const at = await eventually('the end of the Job', () => goneAt)
  t.ok(at >= Date.parse(final.lastTransitionTime ?? '') + 1000, 'not before its time')
  await eventually('the end of its pod', async () => (await c.pods('kept')).length === 0)
})

const ON_INDEX = [
  { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget' }] },
  { action: 'FailIndex', onExitCodes: { operator: 'In', values: [10] } },
]
const indexed = (completions: number) => ({
  spec: {
    completionMode: 'Indexed',
    completions,
    parallelism: completions,
    backoffLimit: undefined,
    backoffLimitPerIndex: 2,
    podFailurePolicy: { rules: ON_INDEX },
  },
})

t.test('the pods of an Indexed Job know their index, and a failed one alone is repeated', async (t) => {
  const c = jobCluster(t)
  const folder = await testFolder(t)
  const script = `echo $JOB_COMPLETION_INDEX >> ${folder}/ran
    if [ $JOB_COMPLETION_INDEX = 1 ] && mkdir ${folder}/once; then exit 20; fi`
  await c.create('many', script, indexed(3))
  const { job, final, pods } = await c.over('many')
  t.match(final, { type: 'Complete', reason: 'CompletionsReached' })
  t.match(job.status, { succeeded: 3, failed: 1, completedIndexes: '0-2' })
  t.strictSame((await readFile(join(folder, 'ran'), 'utf8')).split('\n').sort(), ['', '0', '1', '1', '2'])
  t.strictSame(pods.map((p) => p.metadata.annotations?.['batch.kubernetes.io/job-completion-index']).sort(), [
    '0',
    '1',
    '1',
    '2',
  ])
  for (const { metadata } of pods) t.match(metadata.name, /^many-[0-2]-[a-z0-9]+$/)
})

t.test('an index that fails for good, or too often, ends no other', async (t) => {
  const c = jobCluster(t)
  const script = 'case $JOB_COMPLETION_INDEX in 0) exit 10;; 2) exit 20;; *) exit 0;; esac'
  await c.create('mixed', script, indexed(4))
  const { job, final, pods } = await c.over('mixed')
  t.match(final, { type: 'Failed', reason: 'FailedIndexes' })
  t.match(job.status, { succeeded: 2, failed: 4, completedIndexes: '1,3', failedIndexes: '0,2' })
  t.equal(pods.length, 6, 'one of index 0, three of index 2')
})

t.test('refuses a Job that it could not run as it is meant', async (t) => {
  const c = jobCluster(t)
  const cases: [string, Parameters<typeof c.create>[2]][] = [
    ['restartPolicy', { pod: { restartPolicy: 'OnFailure' } }],
    ['init containers', { pod: { initContainers: [{ name: 'a' }] } }],
    ['a volume', { pod: { volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'v' } }] } }],
    ['a mount without a volume', { container: { volumeMounts: [{ name: 'v', mountPath: '/v' }] } }],
    ['indexed completion without a number', { spec: { completionMode: 'Indexed' } }],
    ['a limit per index without indexes', { spec: { backoffLimitPerIndex: 1 } }],
    ['a success policy', { spec: { completionMode: 'Indexed', completions: 2, successPolicy: { rules: [] } } }],
    ['replacement before the end', { spec: { podReplacementPolicy: 'TerminatingOrFailed' } }],
  ]
  for (const [name, more] of cases) {
    const error: unknown = await c.create('refused', 'exit 0', more).catch((e: unknown) => e)
    t.ok(isClusterError(error, 'Invalid'), `${name}: ${String(error)}`)
  }
  await c.create('fixed', 'sleep 1', { spec: { suspend: true } })
  const change = c.patch('fixed', { template: { spec: { activeDeadlineSeconds: 5 } } })
  t.ok(isClusterError(await change.catch((e: unknown) => e), 'Invalid'), 'a changed template')
})
