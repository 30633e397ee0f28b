import t from 'tap'
import { JobSpec } from '../../../local/cluster/batch-schemas.ts'
import { type JobSeen, planJob } from '../../../local/cluster/job-plan.ts'
import { judgePod } from '../../../local/cluster/pod-failure-policy.ts'
import { JOB_TRACKING, type Job, type Pod, type PodStatus, SUSPENDED, timeOf } from '../../../local/cluster/types.ts'

const NOW = Date.parse('2026-05-01T12:00:00Z')
const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'main' }] } }

function aJob(spec: object = {}, status: Job['status'] = {}): Job {
  return { metadata: { name: 'j', namespace: 'n', uid: 'u' }, spec: JobSpec.parse({ template, ...spec }), status }
}

function aPod(name: string, status: Partial<PodStatus> = {}, metadata: Partial<Pod['metadata']> = {}): Pod {
  const spec = aJob().spec.template.spec
  return {
    metadata: { name, namespace: 'n', uid: name, finalizers: [JOB_TRACKING], ...metadata },
    spec,
    status: { phase: 'Running', ...status },
  }
}

const ended = (name: string, exitCode: number, metadata: Partial<Pod['metadata']> = {}): Pod => {
  const at = timeOf(NOW)
  const terminated = { exitCode, reason: exitCode ? 'Error' : 'Completed', startedAt: at, finishedAt: at } as const
  const container = { name: 'main', image: '', ready: false, started: false, restartCount: 0, state: { terminated } }
  return aPod(name, { phase: exitCode ? 'Failed' : 'Succeeded', containerStatuses: [container] }, metadata)
}

const plan = (job: Job, pods: Pod[] = [], more: Partial<JobSeen> = {}) =>
  planJob({ job, pods, nowMs: NOW, lastFailureMs: undefined, backoffBaseMs: 1000, ...more })

t.test('creates a pod, and no second one while that lives', async (t) => {
  t.match(plan(aJob()), { create: 1, status: { active: 1, startTime: '2026-05-01T12:00:00Z' } })
  t.match(plan(aJob(), [aPod('a')]), { create: 0, status: { active: 1 } })
})

t.test('waits for the end of a pod that is being deleted only where that is asked for', async (t) => {
  const dying = aPod('a', {}, { deletionTimestamp: timeOf(NOW) })
  t.equal(plan(aJob({ podFailurePolicy: { rules: [] } }), [dying]).create, 0)
  t.equal(plan(aJob({ podReplacementPolicy: 'TerminatingOrFailed' }), [dying]).create, 1)
})

t.test('doubles the pause with every failure, up to a bound', async (t) => {
  const pauses = [1, 2, 3, 4, 7, 8, 20].map((failed) => {
    return plan(aJob({ backoffLimit: 99 }, { failed }), [], { lastFailureMs: NOW }).wakeInMs
  })
  t.strictSame(pauses, [1000, 2000, 4000, 8000, 64_000, 64_000, 64_000])
  const waited = plan(aJob({}, { failed: 2 }), [], { lastFailureMs: NOW - 1500 })
  t.match(waited, { create: 0, wakeInMs: 500 })
  t.match(plan(aJob({}, { failed: 2 }), [], { lastFailureMs: NOW - 2000 }), { create: 1, wakeInMs: undefined })
})

t.test('counts each end once: by the finalizer that it then takes away', async (t) => {
  const failure = ended('a', 20)
  const first = plan(aJob(), [failure])
  t.match(first, { create: 0, hasNewFailure: true, wakeInMs: 1000, status: { failed: 1 }, release: [failure] })
  const again = plan(aJob({}, first.status), [ended('a', 20, { finalizers: [] })], { lastFailureMs: NOW })
  t.match(again, { hasNewFailure: false, status: { failed: 1 }, release: [] })
})

t.test('does not hold an end against the Job that its suspension has caused, but takes a success', async (t) => {
  const annotations = { [SUSPENDED]: 'true' }
  t.notOk(plan(aJob(), [ended('a', 143, { annotations })]).status.failed)
  t.match(plan(aJob(), [ended('a', 0, { annotations })]).status, { succeeded: 1 })
})

t.test('announces a verdict at once and makes it final when nothing runs any more', async (t) => {
  const job = aJob({ backoffLimit: 0, parallelism: 2, completions: 2 })
  const other = aPod('b')
  const first = plan(job, [ended('a', 20), other])
  t.match(first, {
    remove: [other],
    create: 0,
    status: { conditions: [{ type: 'FailureTarget', reason: 'BackoffLimitExceeded' }] },
  })
  t.equal(first.status.conditions?.length, 1)
  const last = plan({ ...job, status: first.status }, [ended('a', 20, { finalizers: [] }), ended('b', 0)])
  t.match(last.status.conditions, [{ type: 'FailureTarget' }, { type: 'Failed', reason: 'BackoffLimitExceeded' }])
  t.match(last.status, { failed: 1, succeeded: 1 }, 'a late success does not turn it round')
  t.match(last.remove, [])
})

t.test('judges in order: success, policy, limit, deadline', async (t) => {
  const started = { startTime: timeOf(NOW - 10_000) }
  const rules = [{ action: 'FailJob', onExitCodes: { operator: 'In', values: [12] } }]
  const strict = { backoffLimit: 0, activeDeadlineSeconds: 5, podFailurePolicy: { rules } }
  const verdict = (pods: Pod[]) => plan(aJob(strict, started), pods).status.conditions?.at(-1)?.reason
  t.equal(verdict([ended('a', 0)]), 'CompletionsReached')
  t.equal(verdict([ended('a', 12)]), 'PodFailurePolicy')
  t.equal(verdict([ended('a', 20)]), 'BackoffLimitExceeded')
  t.equal(verdict([]), 'DeadlineExceeded')
  t.match(plan(aJob({ activeDeadlineSeconds: 15 }, started), [aPod('a')]), {
    wakeInMs: 5000,
    status: { conditions: undefined },
  })
  const suspended = plan(aJob({ ...strict, suspend: true }, started), [])
  t.match(
    suspended,
    { wakeInMs: undefined, status: { conditions: [{ type: 'Suspended', status: 'True' }] } },
    'a suspended Job has no deadline',
  )
  const resumed = plan(aJob(strict, { ...started, conditions: suspended.status.conditions ?? [] }))
  t.match(resumed, {
    create: 1,
    status: { startTime: timeOf(NOW), conditions: [{ type: 'Suspended', status: 'False' }] },
  })
})

t.test('a finished Job stays as it is until its time to live is over', async (t) => {
  const conditions = [{ type: 'Complete', status: 'True', lastTransitionTime: timeOf(NOW - 10_000) }] as const
  const status = { succeeded: 1, conditions: [...conditions] }
  t.match(plan(aJob({}, status)), { status, create: 0, isExpired: false, wakeInMs: undefined })
  t.match(plan(aJob({ ttlSecondsAfterFinished: 15 }, status)), { isExpired: false, wakeInMs: 5000 })
  t.match(plan(aJob({ ttlSecondsAfterFinished: 10 }, status)), { isExpired: true })
})

t.test('a plan that was carried out leads to no other', async (t) => {
  const worlds: [Job, Pod[]][] = [
    [aJob({ suspend: true }), []],
    [aJob(), [aPod('a')]],
    [aJob({ backoffLimit: 0 }), [ended('a', 20, { finalizers: [] })]],
    [aJob({}, { succeeded: 1 }), [ended('a', 0, { finalizers: [] })]],
  ]
  for (const [job, pods] of worlds) {
    const { status } = plan(job, pods)
    t.strictSame(plan({ ...job, status }, pods, { nowMs: NOW + 1 }).status, status)
  }
})

t.test('the first rule of a podFailurePolicy that matches decides', async (t) => {
  const disrupted = { conditions: [{ type: 'DisruptionTarget', status: 'True' as const }] }
  const ignore = { action: 'Ignore' as const, onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] }
  const fail = { action: 'FailJob' as const, onExitCodes: { operator: 'In' as const, values: [12, 137] } }
  const other = {
    action: 'FailJob' as const,
    onExitCodes: { containerName: 'other', operator: 'In' as const, values: [12] },
  }
  const notIn = { action: 'Ignore' as const, onExitCodes: { operator: 'NotIn' as const, values: [12] } }
  const cases: [string, Parameters<typeof judgePod>[0], Pod, string][] = [
    ['no rules', [], ended('a', 12), 'Count'],
    ['a listed code', [ignore, fail], ended('a', 12), 'FailJob'],
    ['another code', [ignore, fail], ended('a', 20), 'Count'],
    [
      'a disruption before its code',
      [ignore, fail],
      { ...ended('a', 137), status: { ...ended('a', 137).status, phase: 'Failed', ...disrupted } },
      'Ignore',
    ],
    ['a code of another container', [other], ended('a', 12), 'Count'],
    ['a code that is not among', [notIn], ended('a', 20), 'Ignore'],
    ['a code that is among', [notIn], ended('a', 12), 'Count'],
    ['a pod that never ran', [fail, notIn], aPod('a', { phase: 'Failed' }), 'Count'],
  ]
  for (const [name, rules, pod, action] of cases) t.equal(judgePod(rules, pod).action, action, name)
})

const workQueue = (spec: object = {}, status: Job['status'] = {}) => aJob({ parallelism: 3, ...spec }, status)

t.test('without completions and with parallelism a Job is a work queue', async (t) => {
  const { completions, parallelism } = workQueue().spec
  t.strictSame([completions, parallelism], [undefined, 3])
  t.match(aJob().spec, { completions: 1, parallelism: 1 })
  t.match(aJob({ completions: 2 }).spec, { completions: 2, parallelism: 1 })
  t.equal(plan(workQueue()).create, 3)
  t.equal(plan(workQueue(), [aPod('a')]).create, 2)
})

t.test('a work queue adds no pod once one has succeeded, and is complete when the others have ended', async (t) => {
  const one = plan(workQueue(), [ended('a', 0), aPod('b'), aPod('c')])
  t.match(one, { create: 0, remove: [], status: { succeeded: 1, active: 2 } })
  t.equal(one.status.conditions, undefined)
  const failing = plan(workQueue({}, { succeeded: 1 }), [ended('b', 20), aPod('c')])
  t.match(failing, { create: 0, status: { succeeded: 1, failed: 1, active: 1 } })
  const over = plan(workQueue({}, { succeeded: 1, failed: 1 }), [ended('c', 20)])
  t.match(over.status, { succeeded: 1, failed: 2, completionTime: String })
  t.strictSame(
    over.status.conditions?.map((c) => `${c.type} ${c.reason}`),
    ['SuccessCriteriaMet CompletionsReached', 'Complete CompletionsReached'],
  )
})

t.test(
  'a work queue replaces a pod that fails before any has succeeded, and counts failures of all pods',
  async (t) => {
    const first = plan(workQueue({ backoffLimit: 1 }), [ended('a', 20), aPod('b'), aPod('c')])
    t.match(first, { create: 0, wakeInMs: 1000, status: { failed: 1, active: 2 } })
    const later = plan(workQueue({ backoffLimit: 1 }, { failed: 1 }), [aPod('b'), aPod('c')], {
      lastFailureMs: NOW - 1000,
    })
    t.equal(later.create, 1)
    const two = plan(workQueue({ backoffLimit: 1 }), [ended('a', 20), ended('b', 20), aPod('c')])
    t.match(two, { remove: [aPod('c')], status: { failed: 2 } })
    t.match(two.status.conditions, [{ type: 'FailureTarget', reason: 'BackoffLimitExceeded' }])
  },
)
