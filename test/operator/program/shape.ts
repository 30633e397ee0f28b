import t from 'tap'
import { type RunStatus, succeededOf } from '../../../crds/run.ts'
import { MAX_RESTARTS } from '../../../operator/program/judge.ts'
import type { Plan } from '../../../operator/program/plan.ts'
import { finalProgress, progressFields } from '../../../operator/program/progress.ts'
import { moreMemory } from '../../../operator/program/shape.ts'
import { trouble } from '../../../operator/program/status.ts'
import { eachKind } from '../../support/each-kind.ts'
import { aPod, endedPod, failedWith, patched, runningPod } from '../../support/pods.ts'
import { planTime, programConfig } from '../../support/program-kinds.ts'

t.test('the next memory', async (t) => {
  t.equal(moreMemory('2Gi', '8Gi'), '4Gi')
  t.equal(moreMemory('1536Mi', '8Gi'), '3Gi')
  t.equal(moreMemory('700M', '8Gi'), '1400000000', 'exactly, whatever the unit')
  t.equal(moreMemory('6Gi', '8Gi'), '8Gi', 'the limit itself')
  t.equal(moreMemory('8Gi', '8Gi'), undefined)
  t.equal(moreMemory('16Gi', '8Gi'), undefined, 'a limit below the default is none to exceed')
  t.equal(moreMemory('8192Mi', '8Gi'), undefined)
})

eachKind(t, (t, kit) => {
  const { aResource, aJob, planFor, jobName } = kit

  const resource = aResource()
  const now = planTime
  const verdict = (p: Plan) => succeededOf(p.status)
  const outOfMemory = (n: number, exit = 137) => endedPod(n, exit, undefined, { reason: 'OOMKilled' })
  const neverStarted = aPod(9, { phase: 'Failed', reason: 'OutOfcpu', message: 'Node has no CPU left' })
  const withStatus = (status: RunStatus | undefined, spec = {}) => aResource({ spec, ...(status && { status }) })

  t.test('an attempt that ran out of memory is followed by another Job with more', async (t) => {
    const first = aJob(resource)
    const told = planFor({ job: first, pods: [outOfMemory(1)] })
    t.match(verdict(told), { status: 'Unknown', reason: 'OOMKilled', message: /^Attempt 1 of 3 .* 2Gi .* gets 4Gi$/ })
    t.match(told.status, { attempts: 1, memory: '4Gi' })
    t.match(told.events, [{ type: 'Warning', reason: 'OOMKilled' }])
    t.equal(told.patchJob, undefined, 'recorded first')
    t.equal(told.requeueAfterMs, 10, 'and acted upon at once, whatever else happens')

    const knowing = withStatus(told.status)
    const ending = planFor({ resource: knowing, job: first, pods: [outOfMemory(1)] })
    t.match(ending.patchJob, { name: first.metadata.name, spec: { activeDeadlineSeconds: 1 } })
    t.strictSame(Object.keys(ending.patchJob?.spec ?? {}), ['activeDeadlineSeconds'])
    t.strictSame(ending.status, told.status)
    const again = planFor({ resource: knowing, job: patched(first, ending), pods: [] })
    t.equal(again.patchJob, undefined)
    t.equal(again.createJob, undefined, 'not while the old one is there')

    const over = planFor({
      resource: knowing,
      job: aJob(resource, failedWith('DeadlineExceeded')),
      pods: [outOfMemory(1)],
    })
    t.match(over.status, { restarts: 1, attempts: 1, memory: '4Gi', jobName: jobName(resource, 2) })
    t.equal(over.deleteJobs?.length, 1)

    const second = planFor({ resource: withStatus(over.status) })
    t.match(second.createJob, { metadata: { name: jobName(resource, 2) }, spec: { backoffLimit: 1 } })
    const running = planFor({
      resource: withStatus(over.status),
      job: aJob(withStatus(over.status)),
      pods: [runningPod(1)],
    })
    t.match(verdict(running), { reason: 'Running', message: 'Attempt 2 of 3 is running' })
    t.match(running.status, { attempts: 2, memory: '4Gi' })
  })

  t.test('when the Job is over by itself, nothing has to be ended', async (t) => {
    const p = planFor({ job: aJob(resource, failedWith('BackoffLimitExceeded')), pods: [outOfMemory(1, 20)] })
    t.match(p.status, { memory: '4Gi', restarts: 1, attempts: 1 })
    t.equal(p.deleteJobs?.length, 1)
  })

  t.test('a Job that is called failed while its next pod is still ending is not followed yet', async (t) => {
    const failedJob = aJob(resource, failedWith('DeadlineExceeded'))
    const starting = { ...runningPod(2), status: { phase: 'Pending' } }
    for (const pods of [
      [outOfMemory(1), starting],
      [outOfMemory(1), runningPod(2)],
    ]) {
      const p = planFor({ resource: withStatus({ memory: '4Gi', attempts: 1 }), job: failedJob, pods })
      t.notOk(p.status?.restarts)
      t.equal(p.deleteJobs, undefined)
      t.equal(p.createJob, undefined)
    }
    const unlearned = planFor({ job: failedJob, pods: [outOfMemory(1), starting] })
    t.match(unlearned.status, { memory: '4Gi' })
    t.notOk(unlearned.status?.restarts)
  })

  t.test('Jobs that made room for one of another shape do not count as Jobs that could not start', async (t) => {
    const status = { memory: '8Gi', gpuGivenUp: 'no GPU was free', attempts: 2 }
    const never = (restarts: number) => {
      const r = withStatus({ ...status, restarts })
      return verdict(planFor({ resource: r, job: aJob(r, failedWith('BackoffLimitExceeded')), pods: [neverStarted] }))
    }
    t.match(never(3 + MAX_RESTARTS - 1), { status: 'Unknown', reason: 'Retrying' })
    t.match(never(3 + MAX_RESTARTS), { status: 'False', reason: 'NeverStarted' })
  })

  t.test('an attempt at the limit is the last, and says so', async (t) => {
    const big = withStatus({ memory: '8Gi', attempts: 1, restarts: 1 })
    const ending = planFor({ resource: big, job: aJob(big), pods: [outOfMemory(1)] })
    t.match(verdict(ending), {
      status: 'Unknown',
      reason: 'OOMKilled',
      message: /8Gi of memory, which is the maximum$/,
    })
    t.strictSame(ending.patchJob?.spec, { activeDeadlineSeconds: 1 })
    const over = planFor({ resource: big, job: aJob(big, failedWith('DeadlineExceeded')), pods: [outOfMemory(1)] })
    t.match(verdict(over), {
      status: 'False',
      reason: 'OOMKilled',
      message: 'Attempt 2 of 3 needed more than 8Gi of memory, which is the maximum',
    })
    t.match(over.status, { phase: 'Failed', attempts: 2, memory: '8Gi' })
  })

  t.test('an attempt that runs has its chance, whatever happened to the one before', async (t) => {
    const p = planFor({ job: aJob(resource), pods: [outOfMemory(1), runningPod(2)] })
    t.match(verdict(p), { reason: 'Running' })
    t.equal(p.status?.memory, undefined)
  })

  t.test('a failure for another reason is no reason for more memory', async (t) => {
    t.equal(planFor({ job: aJob(resource), pods: [outOfMemory(1), endedPod(2, 20)] }).status?.memory, undefined)
  })

  t.test('what was learned outlives trouble', async (t) => {
    const seen = withStatus({ memory: '4Gi', gpuGivenUp: 'none' })
    t.match(trouble(seen, { reason: 'X', message: '' }, now), { memory: '4Gi', gpuGivenUp: 'none' })
  })

  const withGpus = { ...programConfig, gpuAvailable: true }
  const auto = aResource({ spec: { accelerator: 'auto' } })
  const gpuJob = planFor({ resource: auto, config: withGpus }).createJob
  const asGiven = (status = {}) =>
    ({ ...aJob(auto, status), metadata: { ...gpuJob?.metadata, uid: 'job-uid' } }) as ReturnType<typeof aJob>
  const waitingSince = (lastTransitionTime: string) =>
    aPod(1, {
      phase: 'Pending',
      conditions: [
        {
          type: 'PodScheduled',
          status: 'False',
          reason: 'Unschedulable',
          message: '1 Insufficient nvidia.com/gpu',
          lastTransitionTime,
        },
      ],
    })

  t.test('auto waits for a GPU, but not for ever', async (t) => {
    const early = planFor({
      resource: auto,
      job: asGiven(),
      pods: [waitingSince('2026-01-01T00:09:00Z')],
      config: withGpus,
    })
    t.match(verdict(early), { reason: 'Unschedulable', message: '1 Insufficient nvidia.com/gpu' })
    t.equal(early.requeueAfterMs, 240_000)

    const late = planFor({
      resource: auto,
      job: asGiven(),
      pods: [waitingSince('2026-01-01T00:05:00Z')],
      config: withGpus,
    })
    t.match(verdict(late), {
      status: 'Unknown',
      reason: 'GpuUnavailable',
      message: /CPU: no GPU was free within 300 s/,
    })
    t.match(late.status, { gpuGivenUp: /Insufficient nvidia/ })
    t.equal(late.requeueAfterMs, 10)
    t.match(late.events, [{ type: 'Warning', reason: 'GpuUnavailable' }])

    const knowing = withStatus(late.status)
    const ending = planFor({ resource: knowing, job: asGiven(), pods: [], config: withGpus })
    t.strictSame(ending.patchJob?.spec, { activeDeadlineSeconds: 1 })
    const over = planFor({
      resource: knowing,
      job: asGiven(failedWith('DeadlineExceeded', 0)),
      pods: [],
      config: withGpus,
    })
    t.match(over.status, { restarts: 1, gpuGivenUp: /Insufficient/ })
    const cpu = planFor({ resource: withStatus(over.status), config: withGpus }).createJob
    t.notMatch(JSON.stringify(cpu), 'nvidia.com/gpu":"1"')
  })

  t.test('a success that came in between counts', async (t) => {
    const knowing = withStatus({ gpuGivenUp: 'none' })
    const done = asGiven({ conditions: [{ type: 'Complete', status: 'True' }], succeeded: 1 })
    const pods = [endedPod(1, 0, { ok: true })]
    t.match(verdict(planFor({ resource: knowing, job: done, pods, config: withGpus })), { status: 'True' })
  })

  t.test('gpu waits for ever, and says for what', async (t) => {
    const demanding = aResource({ spec: { accelerator: 'gpu' } })
    const p = planFor({ resource: demanding, job: asGiven(), pods: [waitingSince('2025-01-01T00:00:00Z')] })
    t.match(verdict(p), { reason: 'Unschedulable', message: '1 Insufficient nvidia.com/gpu' })
    t.equal(p.requeueAfterMs, undefined)
  })

  t.test('the reason is shown as that of the accelerator', async (t) => {
    const resource = withStatus({ gpuGivenUp: 'no GPU was free within 300 s' })
    const report = { percent: 1, speed: null, etaSeconds: null, stage: 'Encoding', accelerator: 'cpu' } as const
    const fields = progressFields(kit.kind, resource, {
      report: { ...report, acceleratorReason: 'as specified' },
      at: now,
    })
    t.equal(fields?.acceleratorReason, 'no GPU was free within 300 s')
    t.equal(
      finalProgress(resource, { playable: [], at: '', accelerator: 'cpu' })?.acceleratorReason,
      'no GPU was free within 300 s',
    )
  })

  t.test('only a kind that has a place for the plan is given what a program reports of it', async (t) => {
    const report = { percent: 1, speed: null, etaSeconds: null, stage: 'Encoding', planReason: 'one pass' } as const
    const fields = progressFields(kit.kind, aResource(), { report, at: now })
    t.equal(fields?.planReason, kit.kind.hasPlanReason ? 'one pass' : undefined)
  })

  t.test('what a user edited in the Job is put right', async (t) => {
    t.strictSame(planFor({ job: aJob(resource, {}, { parallelism: 0 }) }).patchJob?.spec, { parallelism: 1 })
    t.strictSame(planFor({ job: aJob(resource, {}, { suspend: true, parallelism: 5 }) }).patchJob?.spec, {
      suspend: false,
      parallelism: 1,
    })
  })

  t.test('to resume is an event', async (t) => {
    const { status } = planFor({
      resource: aResource({ spec: { suspend: true } }),
      job: aJob(resource, {}, { suspend: true }),
    })
    t.match(status, { phase: 'Suspended' })
    const p = planFor({ resource: withStatus(status), job: aJob(resource, {}, { suspend: true }) })
    t.match(p.events, [{ type: 'Normal', reason: 'Resumed' }])
  })
})
