import t from 'tap'
import { type RunSpec, type RunStatus, succeededOf } from '../../../crds/run.ts'
import type { Job, JobStatus, Pod } from '../../../operator/jobs/batch.ts'
import { trimJob } from '../../../operator/jobs/trim.ts'
import type { Observed } from '../../../operator/program/observed.ts'
import type { Plan } from '../../../operator/program/plan.ts'
import { eachKind } from '../../support/each-kind.ts'
import {
  aPod,
  complete,
  endedPod,
  failedWith,
  patched,
  pendingPod,
  runningPod,
  unschedulablePod,
  waitingPod,
} from '../../support/pods.ts'
import { programConfig } from '../../support/program-kinds.ts'

eachKind(t, (t, kit) => {
  const { aResource, aJob, planFor } = kit

  /**
   * What becomes of a Job that the operator itself ended. The Job controller deletes the pod that was the reason when its
   * cache still shows it as running, and the condition in status may be lost or replaced: neither may change the verdict.
   */

  interface Cause {
    name: string
    status: RunStatus
    pod: Pod
    seen?: Partial<Observed>
    /** The condition from the end of the Job on. */
    says: { reason: string; message: RegExp }
    attempts: number
    /** What follows when the Job has ended. */
    next: 'fails' | 'another Job' | 'the same Job again'
  }

  const outOfMemory = endedPod(1, 137, undefined, { reason: 'OOMKilled' })
  const withGpus = { ...programConfig, gpuAvailable: true }
  const CAUSES: Cause[] = [
    {
      name: 'out of memory at the maximum',
      status: { memory: '8Gi', attempts: 1, restarts: 1 },
      pod: outOfMemory,
      says: { reason: 'OOMKilled', message: /^Attempt 2 of 3 needed more than 8Gi of memory, which is the maximum$/ },
      attempts: 2,
      next: 'fails',
    },
    {
      name: 'out of memory in the last attempt',
      status: { memory: '4Gi', attempts: 2, restarts: 1 },
      pod: outOfMemory,
      says: { reason: 'OOMKilled', message: /^Attempt 3 of 3 needed more than 4Gi of memory$/ },
      attempts: 3,
      next: 'fails',
    },
    {
      name: 'out of memory, and there is more',
      status: {},
      pod: outOfMemory,
      says: {
        reason: 'OOMKilled',
        message: /^Attempt 1 of 3 needed more than 2Gi of memory; the next one gets 4Gi$/,
      },
      attempts: 1,
      next: 'another Job',
    },
    {
      name: 'no free GPU',
      status: {},
      pod: aPod(1, {
        phase: 'Pending',
        conditions: [
          {
            type: 'PodScheduled',
            status: 'False',
            reason: 'Unschedulable',
            message: 'Insufficient nvidia.com/gpu',
            lastTransitionTime: '2026-01-01T00:01:00Z',
          },
        ],
      }),
      seen: { config: withGpus },
      says: { reason: 'GpuUnavailable', message: /^Continuing on the CPU: no GPU was free/ },
      attempts: 0,
      next: 'another Job',
    },
    {
      name: 'a pod that cannot start, and another configuration',
      status: {},
      pod: waitingPod(1, 'ImagePullBackOff'),
      seen: { config: { ...programConfig, image: 'keepsake:2' } },
      says: { reason: 'Outdated', message: /^ImagePullBackOff: .*the configuration has changed since/ },
      attempts: 0,
      next: 'the same Job again',
    },
  ]

  /** What the condition may say when the end of the Job is seen, instead of what the operator wrote, or wanted to. */
  const REPLACED = ['Running', 'Queued', 'Retrying', 'Suspended', 'Unschedulable', 'ImagePullBackOff', 'PodNotCreated']

  /** The other pods that may be there when the end of the Job is seen. */
  const LEFT: [what: string, pods: Pod[]][] = [
    ['no pod', []],
    ['a later pod that ran until the end', [endedPod(2, 143, { ok: false, reason: 'Terminated', message: 'stopped' })]],
    ['a later pod that no kubelet took', [aPod(2, { phase: 'Failed', reason: 'OutOfcpu' })]],
  ]

  const isOfGpu = (cause: Cause) => cause.seen?.config === withGpus
  const specOf = (cause: Cause): Partial<RunSpec> => (isOfGpu(cause) ? { accelerator: 'auto' } : {})
  const resourceWith = (cause: Cause, status: RunStatus) => aResource({ spec: specOf(cause), status })
  const conditionOf = (p: Plan) => succeededOf(p.status)

  function jobOf(cause: Cause): Job {
    const job = aJob(resourceWith(cause, cause.status))
    const gpu = { 'media.keepsake.dev/gpu': '1' }
    const annotations = { ...job.metadata.annotations, ...(isOfGpu(cause) && gpu) }
    return { ...job, metadata: { ...job.metadata, annotations } }
  }

  /** Reconciles until the operator ends the Job: the status that it has seen, and the Job after its patch. */
  function end(cause: Cause): { status: RunStatus; planned: Plan; job: Job } {
    let status = cause.status
    const job = jobOf(cause)
    for (let i = 0; i < 3; i++) {
      const planned = planFor({ ...cause.seen, resource: resourceWith(cause, status), job, pods: [cause.pod] })
      if (planned.patchJob) return { status, planned, job: trimJob(patched(job, planned)) }
      status = planned.status ?? status
    }
    throw new Error('the Job was not told to end')
  }

  const over = (job: Job, status: JobStatus = failedWith('DeadlineExceeded')): Job => ({ ...job, status })
  const saying = (status: RunStatus, reason: string): RunStatus => ({
    ...status,
    conditions: [
      {
        type: 'Succeeded',
        status: 'Unknown',
        reason,
        message: 'something else',
        observedGeneration: 1,
        lastTransitionTime: '2026-01-01T00:00:00Z',
      },
    ],
  })

  /** The statuses that the end of the Job may meet. */
  const statusesOf = ({ status, planned }: ReturnType<typeof end>): [string, RunStatus][] => [
    ['as before, because the operator died', status],
    ['as written', planned.status ?? status],
    ...REPLACED.map((reason): [string, RunStatus] => [`${reason} instead`, saying(status, reason)]),
  ]

  /** The pods that the end of the Job may meet; one that has not started is gone by then. */
  const podsOf = ({ pod }: Cause): [string, Pod[]][] => [
    ...LEFT,
    ...(pod.status?.phase === 'Pending'
      ? []
      : LEFT.map(([what, pods]): [string, Pod[]] => [`the evidence and ${what}`, [pod, ...pods]])),
  ]

  /** What follows the end of the Job, for every status and every pods that it may meet. */
  const plansAfter = (cause: Cause, ending: ReturnType<typeof end>, job: Job) =>
    statusesOf(ending).flatMap(([said, status]) =>
      podsOf(cause).map(([left, pods]) => ({
        which: `status ${said}; ${left}`,
        p: planFor({ ...cause.seen, resource: resourceWith(cause, status), job, pods }),
        // A pod that ran until the end may count or not, as the Job controller makes it.
        isCertain: !pods.some((pod) => pod.metadata.name === 'pod-2'),
      })),
    )

  const finalStatus = { fails: 'False', 'another Job': 'Unknown', 'the same Job again': 'Unknown' }
  const deletions = { fails: undefined, 'another Job': 1, 'the same Job again': 1 }
  const restartsAfter = ({ status, next }: Cause) => (status.restarts ?? 0) + (next === 'another Job' ? 1 : 0)

  for (const cause of CAUSES) {
    t.test(`${cause.name}: ${cause.next}, whatever is left when the Job has ended`, async (t) => {
      const ending = end(cause)
      const job = over(ending.job)
      for (const { which, p, isCertain } of plansAfter(cause, ending, job)) {
        t.match(conditionOf(p), { ...cause.says, status: finalStatus[cause.next] }, which)
        t.equal(p.deleteJobs?.length, deletions[cause.next], which)
        t.equal(p.status?.restarts ?? 0, restartsAfter(cause), which)
        if (isCertain) t.equal(p.status?.attempts, cause.attempts, which)
      }
    })

    t.test(`${cause.name}: nothing else is said while the Job ends`, async (t) => {
      const { planned, job } = end(cause)
      const resource = resourceWith(cause, planned.status ?? {})
      const meanwhile = [pendingPod(2), unschedulablePod(2), waitingPod(2, 'ErrImagePull'), runningPod(2)]
      for (const pods of [[], [cause.pod], ...meanwhile.map((p) => [p])]) {
        const p = planFor({ ...cause.seen, resource, job, pods })
        t.match(conditionOf(p), { ...cause.says, status: 'Unknown' })
        t.equal(p.patchJob, undefined, 'once is enough')
        t.equal(p.deleteJobs, undefined)
        t.strictSame(p.events, [])
      }
    })

    t.test(`${cause.name}: suspended and resumed while the Job ends`, async (t) => {
      const { planned, job } = end(cause)
      const spec = { ...specOf(cause), suspend: true }
      const resource = aResource({ spec, status: planned.status ?? {} })
      const suspended = planFor({ ...cause.seen, resource, job, pods: [] })
      t.match(conditionOf(suspended), { reason: 'Suspended' })
      const resumed = resourceWith(cause, suspended.status ?? {})
      t.match(conditionOf(planFor({ ...cause.seen, resource: resumed, job, pods: [] })), cause.says)
      t.match(conditionOf(planFor({ ...cause.seen, resource: resumed, job: over(job), pods: [] })), cause.says)
    })

    t.test(`${cause.name}: the end is put right when a user edits it`, async (t) => {
      const { planned, job } = end(cause)
      const { activeDeadlineSeconds: _, ...spec } = job.spec
      const resource = resourceWith(cause, planned.status ?? {})
      const p = planFor({ ...cause.seen, resource, job: { ...job, spec }, pods: [] })
      t.strictSame(p.patchJob, planned.patchJob)
    })

    t.test(`${cause.name}: a success that came in between counts`, async (t) => {
      const { status, job } = end(cause)
      const pods = [cause.pod, endedPod(2, 0, { ok: true })]
      const p = planFor({ ...cause.seen, resource: resourceWith(cause, status), job: over(job, complete()), pods })
      t.match(conditionOf(p), { status: 'True' })
    })
  }

  t.test('a Job that something else ended first is judged by its pods', async (t) => {
    for (const cause of CAUSES.filter(({ next }) => next !== 'another Job')) {
      const { status, job } = end(cause)
      const ended = over(job, failedWith('PodFailurePolicy'))
      const pods = [cause.pod, endedPod(2, 12)]
      const p = planFor({ ...cause.seen, resource: resourceWith(cause, status), job: ended, pods })
      t.match(conditionOf(p), { status: 'False', reason: 'CorruptInput' }, cause.name)
    }
  })

  t.test('a Job that has a deadline from elsewhere is ended all the same', async (t) => {
    for (const cause of CAUSES) {
      const { status } = end(cause)
      const job = jobOf(cause)
      const bounded = { ...job, spec: { ...job.spec, activeDeadlineSeconds: 3600 } }
      const p = planFor({ ...cause.seen, resource: resourceWith(cause, status), job: bounded, pods: [cause.pod] })
      t.match(p.patchJob?.spec, { activeDeadlineSeconds: 1 }, cause.name)
    }
  })

  t.test('an annotation that a user has edited says nothing', async (t) => {
    const [cause] = CAUSES as [Cause]
    const { status, job } = end(cause)
    for (const ended of ['', '{', 'null', '{"next":"Fail","reason":"no reason","message":"","attempts":0}']) {
      const annotations = { ...job.metadata.annotations, 'media.keepsake.dev/ended': ended }
      const edited = over({ ...job, metadata: { ...job.metadata, annotations } })
      const p = planFor({ resource: resourceWith(cause, status), job: edited, pods: [] })
      t.match(conditionOf(p), { status: 'False', reason: 'DeadlineExceeded' }, ended)
    }
  })
})
