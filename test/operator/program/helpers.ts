import t from 'tap'
import type { TranscodeJobSpec } from '../../../crds/transcode-job.ts'
import type { Job, Pod } from '../../../operator/jobs/batch.ts'
import { isHelperJob, trimJob } from '../../../operator/jobs/trim.ts'
import { childName, configurationOf, helperJob, helpersName } from '../../../operator/program/child.ts'
import type { Observed } from '../../../operator/program/observed.ts'
import type { Plan } from '../../../operator/program/plan.ts'
import { RefusedHelpers } from '../../../operator/program/refused-helpers.ts'
import { transcodeJob } from '../../../operator/transcode-job/kind.ts'
import { aPod, complete, endedPod, failedWith, pendingPod, runningPod, unschedulablePod } from '../../support/pods.ts'
import { planTime, programConfig, TRANSCODE } from '../../support/program-kinds.ts'

const { aJob, planFor, kind } = TRANSCODE
type Change = Parameters<typeof TRANSCODE.aResource>[0]
const aResource = (change: Change = {}, parallelism = 4) =>
  TRANSCODE.aResource({ ...change, spec: { ...change.spec, parallelism } as Partial<TranscodeJobSpec> })

const resource = aResource()
const job = aJob(resource, { startTime: '2026-01-01T00:00:01Z' })
const pods = [runningPod(1)]
const helpersOf = (lead: Job, status: Job['status'] = {}, metadata: object = {}): Job => {
  const made = helperJob(kind, resource, { number: 1, job: lead }, programConfig)
  if (!made) throw new Error('a resource with helpers has none')
  return { ...made, metadata: { ...made.metadata, uid: 'helpers-uid', ...metadata }, status }
}
const helpers = [helpersOf(job)]
const suspended = aResource({ spec: { suspend: true } })
const disrupted = aPod(1, {
  phase: 'Failed',
  conditions: [{ type: 'DisruptionTarget', status: 'True', reason: 'DeletionByTaintManager' }],
  containerStatuses: [{ name: 'media', state: { running: { startedAt: '2026-01-01T00:00:02Z' } } }],
})
/** The time of `planTime` less so many seconds. */
const ago = (seconds: number) => new Date(planTime.getTime() - seconds * 1000).toISOString()
const withoutRoom = (since: string): Pod => {
  const pod = unschedulablePod(2)
  const conditions = pod.status?.conditions?.map((c) => ({ ...c, lastTransitionTime: since })) ?? []
  return { ...pod, status: { ...pod.status, conditions } }
}
const outdated = { ...job, metadata: { ...job.metadata, annotations: { 'media.keepsake.dev/configuration': 'older' } } }
const withGpu = {
  ...job,
  metadata: { ...job.metadata, annotations: { ...job.metadata.annotations, 'media.keepsake.dev/gpu': '1' } },
}
const finished = (status: 'True' | 'False') => {
  const condition = { type: 'Succeeded', status, reason: 'X', message: '', observedGeneration: 1 }
  const lastTransitionTime = '2026-01-01T00:09:00Z'
  const conditions = [{ ...condition, lastTransitionTime }]
  return aResource({ status: { conditions, completionTime: lastTransitionTime } })
}

const removed = (p: Plan) => [...(p.deleteFirst ?? []), ...(p.deleteJobs ?? [])].filter((j) => isHelperJob(j.metadata))

const cases: [what: string, seen: Partial<Observed>, creates: boolean, removes: number, againMs?: number][] = [
  ['a resource without its Job', {}, false, 0],
  ['an attempt that waits', { job, pods: [pendingPod(1)] }, false, 0],
  ['an attempt that runs', { job, pods }, true, 0],
  ['one that runs, and needs no help', { resource: aResource({}, 1), job, pods }, false, 0],
  ['an attempt that has ended', { job, pods: [endedPod(1, 0)] }, false, 0],
  ['one whose Job belongs to another object', { job: aJob(aResource({ metadata: { uid: 'u' } })), pods }, false, 0],
  ['one whose Job an operator of another configuration made', { job: outdated, pods }, false, 0],
  ['one that is being deleted', { resource: aResource({ metadata: { deletionTimestamp: 'x' } }), job, pods }, false, 0],
  ['helpers of an attempt that runs', { job, pods, helpers }, false, 0],
  ['helpers that an operator of another configuration left', { job: outdated, pods, helpers }, false, 0],
  ['helpers that have done everything', { job, pods, helpers: [helpersOf(job, complete())] }, false, 0],
  ['helpers that have failed', { job, pods, helpers: [helpersOf(job, failedWith('FailedIndexes'))] }, false, 0],
  [
    'helpers that are being deleted',
    { job, pods, helpers: [helpersOf(job, {}, { deletionTimestamp: 'x' })] },
    false,
    0,
  ],
  ['helpers between two attempts', { job, pods: [endedPod(1, 20)], helpers }, false, 0],
  ['helpers of an attempt that the cluster took away', { job, pods: [disrupted], helpers }, false, 0],
  ['helpers, and an attempt that waits', { job, pods: [disrupted, pendingPod(2)], helpers }, false, 0],
  [
    'helpers, and an attempt that has no room yet',
    { job, pods: [disrupted, withoutRoom(ago(20))], helpers },
    false,
    0,
    40_000,
  ],
  [
    'helpers, which may hold the GPU that an attempt waits for',
    { job: withGpu, pods: [disrupted, withoutRoom(ago(1))], helpers },
    false,
    1,
  ],
  ['helpers that take its room', { job, pods: [disrupted, withoutRoom(ago(60))], helpers }, false, 1],
  ['helpers that take its quota', { job, pods: [], helpers }, false, 1],
  ['a suspended resource', { resource: suspended, job: aJob(suspended), pods, helpers }, false, 1],
  ['a success', { job: aJob(resource, complete()), pods: [endedPod(1, 0, { ok: true })], helpers }, false, 1],
  ['a failure', { job: aJob(resource, failedWith('PodFailurePolicy')), pods: [endedPod(1, 12)], helpers }, false, 1],
  ['a resource that has succeeded', { resource: finished('True'), job, helpers }, false, 1],
  ['a resource that has failed, and its Job is gone', { resource: finished('False'), helpers }, false, 1],
  ['a Job that is gone', { pods: [], helpers }, false, 1],
  [
    'another Job of the same name',
    { job: { ...job, metadata: { ...job.metadata, uid: 'b' } }, pods, helpers },
    false,
    1,
  ],
  [
    'a Job that is replaced by one with more memory',
    {
      resource: aResource({ status: { memory: '4Gi' } }),
      job: aJob(resource, failedWith('DeadlineExceeded')),
      pods: [endedPod(1, 137, undefined, { reason: 'OOMKilled' })],
      helpers,
    },
    false,
    1,
  ],
  ['helpers that were refused', { job, pods, helpersNotBefore: new Date(planTime.getTime() + 5000) }, false, 0, 5000],
  ['helpers that were refused a while ago', { job, pods, helpersNotBefore: planTime }, true, 0],
]
for (const [what, seen, creates, removes, againMs] of cases) {
  t.test(what, async (t) => {
    const with_ = planFor({ resource, ...seen })
    t.equal(with_.createHelpers !== undefined, creates, 'creates')
    t.equal(removed(with_).length, removes, 'removes')
    if (againMs !== undefined) t.equal(with_.requeueAfterMs, againMs)
    // Everything else is planned as if there were no helpers.
    const without = planFor({ resource, ...seen, helpers: [] })
    for (const field of ['createJob', 'patchJob', 'status', 'progress', 'events', 'deleteResource'] as const) {
      t.strictSame(with_[field], without[field], field)
    }
  })
}

t.test('helpers go before the next Job is created, and after everything else is written', async (t) => {
  const gone = planFor({ resource, helpers })
  t.ok(gone.createJob)
  t.strictSame(gone.deleteFirst, helpers)
  t.equal(gone.deleteJobs, undefined)
  const old = aJob(aResource({ status: { restarts: 4 } }))
  const over = planFor({ resource: finished('True'), job, leftovers: [old], helpers })
  t.strictSame(over.deleteJobs, [old, ...helpers])
})

t.test('a Job of helpers is one that differs from the Job of the attempts in this alone', async (t) => {
  const made = planFor({ resource, job, pods }).createHelpers as Job & { spec: Template }
  t.match(made.metadata, {
    name: helpersName(kind, resource, 1),
    labels: { 'media.keepsake.dev/role': 'helper', 'media.keepsake.dev/owner-uid': 'uid-1' },
    annotations: {
      'media.keepsake.dev/transcode-job': 'med-1',
      'media.keepsake.dev/helps': 'job-uid',
      'media.keepsake.dev/configuration': configurationOf(programConfig),
    },
    ownerReferences: [{ kind: 'TranscodeJob', uid: 'uid-1', controller: true, blockOwnerDeletion: true }],
  })
  const { template, ...own } = made.spec
  t.strictSame(own, {
    suspend: false,
    completionMode: 'Indexed',
    parallelism: 3,
    completions: 3,
    backoffLimitPerIndex: 3,
    ttlSecondsAfterFinished: 86_400,
    podReplacementPolicy: 'Failed',
    podFailurePolicy: {
      rules: [
        { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] },
        { action: 'FailIndex', onExitCodes: { containerName: 'media', operator: 'In', values: [10, 11, 12, 13] } },
      ],
    },
  })
  const lead = (job as Job & { spec: Template }).spec.template
  const known = ['PROGRESS_URL', 'PROGRESS_TOKEN']
  const asLead = structuredClone(lead)
  const [program] = asLead.spec.containers
  if (!program) throw new Error('no program')
  program.command = ['node', 'jobs/chunks/main.js']
  program.env = program.env.filter(({ name }) => !known.includes(name))
  t.strictSame(template.spec, asLead.spec, 'with the same resources, volumes, user, grant and JOB_SPEC')
  t.strictSame(template.metadata, {
    ...lead.metadata,
    labels: { ...lead.metadata.labels, 'media.keepsake.dev/role': 'helper' },
  })
  t.match(program.env.find(({ name }) => name === 'JOB_SPEC')?.value, /"accelerator":"auto","parallelism":4\}$/)
})
interface Template {
  template: {
    metadata: { labels: object }
    spec: { containers: { command: string[]; env: { name: string; value?: string }[] }[] }
  }
}

t.test('helpers have what the current Job has, and not what the configuration would give the next', async (t) => {
  const learned = aResource({ status: { memory: '4Gi', gpuGivenUp: 'no GPU was free', attempts: 1, restarts: 1 } })
  const second = aJob(learned, { startTime: '2026-01-01T00:00:01Z' })
  const config = { ...programConfig, memory: '3Gi', gpuAvailable: true }
  const sameConfiguration = {
    ...second.metadata.annotations,
    'media.keepsake.dev/configuration': configurationOf(config),
  }
  const lead = { ...second, metadata: { ...second.metadata, annotations: sameConfiguration } }
  const { createHelpers } = planFor({ resource: learned, job: lead, pods, config })
  t.match(JSON.stringify(createHelpers), /"limits":\{"memory":"4Gi","ephemeral-storage":"20Gi"\}/)
  t.notMatch(JSON.stringify(createHelpers), /nvidia/)
  t.match(JSON.stringify(createHelpers), /\\"accelerator\\":\\"cpu\\"/)
  t.equal(createHelpers?.metadata.name, helpersName(kind, learned, 2))
})

t.test('no two Jobs of a resource have one name, and every pod has a host name', async (t) => {
  for (const name of ['med-1', 'tj-01h455vb4pex5vsknk084sn02q-1', 'a'.repeat(63), `a.${'b'.repeat(250)}`]) {
    const one = aResource({ metadata: { name } })
    const names = [1, 2, 3].flatMap((n) => [childName(kind, one, n), helpersName(kind, one, n)])
    t.equal(new Set(names).size, 6)
    for (const n of names) t.match(n, /^tj-[a-z0-9-]{1,57}[a-z0-9]$|^tj-[a-z0-9-]{58,60}$/)
    t.ok(`${helpersName(kind, one, 1)}-62`.length <= 63)
  }
})

t.test('the ends of single helpers change nothing that the operator keeps of their Job', async (t) => {
  const at = (status: Job['status']) => trimJob(helpersOf(job, status))
  const running = at({ startTime: '2026-01-01T00:00:01Z', active: 3 })
  t.strictSame(at({ startTime: '2026-01-01T00:00:01Z', active: 1, succeeded: 2, failed: 4 }), running)
  t.ok(isHelperJob(running.metadata))
  t.equal(running.metadata.annotations?.['media.keepsake.dev/helps'], 'job-uid')
  t.notSame(at({ ...complete() }), running)
})

t.test('refused helpers are tried again ever later', async (t) => {
  const refused = new RefusedHelpers()
  const waits = [1, 2, 3, 4, 5, 6, 7].map(() => refused.refused('media/med-1', planTime) / 1000)
  t.strictSame(waits, [10, 20, 40, 80, 160, 300, 300])
  t.equal(refused.notBefore('media/med-1')?.getTime(), planTime.getTime() + 300_000)
  t.equal(refused.notBefore('media/med-2'), undefined)
  refused.forget('media/med-1')
  t.equal(refused.notBefore('media/med-1'), undefined)
  t.equal(refused.refused('media/med-1', planTime), 10_000)
})

t.test('a kind that has no helpers plans none', async (t) => {
  const { helpers: _, ...alone } = transcodeJob
  t.equal(planFor({ kind: alone as typeof kind, resource, job, pods }).createHelpers, undefined)
})
