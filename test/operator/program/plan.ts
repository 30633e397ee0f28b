import { randomUUID } from 'node:crypto'
import t from 'tap'
import { type Run, succeededOf } from '../../../crds/run.ts'
import type { JobResult } from '../../../lib/contract/job-result.ts'
import { trimPod } from '../../../operator/jobs/trim.ts'
import { MAX_RESTARTS } from '../../../operator/program/judge.ts'
import type { Observed } from '../../../operator/program/observed.ts'
import type { Plan } from '../../../operator/program/plan.ts'
import { QUIET_MS } from '../../../operator/program/quiet.ts'
import { notUnderstood, trouble } from '../../../operator/program/status.ts'
import { eachKind } from '../../support/each-kind.ts'
import {
  aPod,
  complete,
  endedPod,
  failedWith,
  pendingPod,
  runningPod,
  sidecarWaitingPod,
  unschedulablePod,
  waitingPod,
} from '../../support/pods.ts'
import { planTime } from '../../support/program-kinds.ts'

eachKind(t, (t, kit) => {
  const { aResource, aJob, planFor, jobName, output } = kit

  const resource = aResource()
  const now = planTime
  const verdict = (p: Plan) => succeededOf(p.status)
  const made: JobResult = {
    ok: true,
    accelerator: 'cpu',
    outputs: [{ ...output, state: 'Succeeded' }],
  }
  const corrupt: JobResult = {
    ok: false,
    reason: 'Truncated',
    message: 'ends after 2 of 60 s',
    outputs: [{ id: output.id, state: 'Failed', reason: 'Truncated' }],
  }
  const job = aJob(resource, { startTime: '2026-01-01T00:00:01Z' })
  const suspended = aResource({ spec: { suspend: true } })
  const unschedulable = unschedulablePod(1)
  const disrupted = (n: number) =>
    aPod(n, {
      phase: 'Failed',
      conditions: [
        { type: 'DisruptionTarget', status: 'True', reason: 'DeletionByTaintManager', message: 'node is gone' },
      ],
      containerStatuses: [{ name: 'media', state: { running: { startedAt: '2026-01-01T00:00:02Z' } } }],
    })
  const neverStarted = aPod(1, { phase: 'Failed', reason: 'OutOfcpu', message: 'Node has no CPU left' })

  t.test('creates the Job once, under a name that depends on the resource alone', async (t) => {
    const p = planFor({})
    t.match(p.createJob, { metadata: { name: jobName(resource, 1), ownerReferences: [{ uid: 'uid-1' }] } })
    t.equal(p.status, undefined, 'most pods start soon')
    t.ok((p.requeueAfterMs ?? 0) >= QUIET_MS && (p.requeueAfterMs ?? 0) < QUIET_MS + 1000)
    t.strictSame(p.events, [])
    const { status } = planFor({ job: aJob(resource) })
    t.match(status, { phase: 'Pending', jobName: jobName(resource, 1), attempts: 0, observedGeneration: 1 })
    t.equal(planFor({ job }).createJob, undefined)
  })

  const verdicts: [string, Partial<Observed>, object, object?][] = [
    [
      'a Job that is gone',
      { resource: aResource({ status: planFor({ job: aJob(resource) }).status }) },
      { status: 'Unknown', reason: 'Creating' },
      { phase: 'Pending' },
    ],
    ['a Job without a pod', { job: aJob(resource) }, { status: 'Unknown', reason: 'Queued' }, { phase: 'Pending' }],
    ['a pod that waits', { job, pods: [pendingPod(1)] }, { status: 'Unknown', reason: 'Queued' }],
    ['a pod that no node takes', { job, pods: [unschedulable] }, { reason: 'Unschedulable', message: '0/3 nodes' }],
    ['an image that cannot be pulled', { job, pods: [waitingPod(1, 'ErrImagePull')] }, { reason: 'ImagePullBackOff' }],
    [
      'an image that cannot be pulled, of which only the sidecar tells',
      { job, pods: [sidecarWaitingPod(1, 'ErrImagePull')] },
      { reason: 'ImagePullBackOff', message: 'ErrImagePull!' },
    ],
    [
      'a secret that is missing',
      { job, pods: [waitingPod(1, 'CreateContainerConfigError')] },
      { reason: /ConfigError$/ },
    ],
    [
      'a running pod',
      { job, pods: [runningPod(1)] },
      { status: 'Unknown', reason: 'Running', message: 'Attempt 1 of 3 is running' },
      { phase: 'Running', attempts: 1, startTime: '2026-01-01T00:00:01Z' },
    ],
    [
      'a pod that failed, and none yet to follow it',
      { job, pods: [endedPod(1, 20)] },
      { status: 'Unknown', reason: 'Retrying', message: /^Attempt 1 of 3 failed: StorageUnavailable/ },
      { phase: 'Running', attempts: 1 },
    ],
    ['a success that its Job has not seen yet', { job, pods: [endedPod(1, 0, made)] }, { reason: 'Running' }],
    [
      'a failure for good that its Job has not seen yet',
      { job, pods: [endedPod(1, 12, corrupt)] },
      { reason: 'Running' },
    ],
    [
      'the last attempt, whose failure its Job has not seen yet',
      { job, pods: [endedPod(1, 20), endedPod(2, 20), endedPod(3, 20)] },
      { reason: 'Running', message: 'Attempt 3 of 3 is running' },
    ],
    [
      'a pod that the cluster took away',
      { job, pods: [disrupted(1)] },
      { reason: 'Interrupted', message: /does not count as an attempt: DeletionByTaintManager: node is gone/ },
      { phase: 'Running', attempts: 0 },
    ],
    [
      'an attempt after the cluster took one away',
      { job, pods: [disrupted(1), runningPod(2)] },
      { reason: 'Running', message: 'Attempt 1 of 3 is running' },
    ],
    [
      'a Job that a user deleted while its last attempt ran',
      { resource: aResource({ status: { attempts: 3 } }), job: aJob(aResource({ status: { attempts: 3 } })) },
      { status: 'Unknown', reason: 'Queued' },
      { attempts: 3 },
    ],
    [
      'a second attempt',
      { job, pods: [endedPod(1, 20), runningPod(2)] },
      { reason: 'Running', message: 'Attempt 2 of 3 is running' },
      { attempts: 2 },
    ],
    [
      'a suspended Job',
      { resource: suspended, job: aJob(suspended) },
      { status: 'Unknown', reason: 'Suspended' },
      { phase: 'Suspended' },
    ],
    [
      'a Job that is being deleted',
      { job: { ...job, metadata: { ...job.metadata, deletionTimestamp: 'x' } } },
      { reason: 'Creating' },
    ],
    [
      'a Job of another owner under our name',
      { job: aJob(aResource({ metadata: { uid: 'other' } })) },
      { status: 'False', reason: 'NameTaken' },
      { phase: 'Failed', jobName: undefined },
    ],
    [
      'a success',
      { job: aJob(resource, complete()), pods: [endedPod(1, 0, made)] },
      { status: 'True', reason: 'Succeeded', message: kit.kind.successMessage(resource.spec) },
      { phase: 'Succeeded', completionTime: '2026-01-01T00:05:00Z', outputs: made.outputs as object },
    ],
    [
      'a success that followed a failure',
      { job: aJob(resource, complete()), pods: [endedPod(1, 20), endedPod(2, 0, made)] },
      { status: 'True' },
      { attempts: 2 },
    ],
    [
      'a success that said nothing',
      { job: aJob(resource, complete()), pods: [endedPod(1, 0)] },
      { status: 'True', reason: 'Succeeded', message: /the result that its program wrote is lost$/ },
      { phase: 'Succeeded', completionTime: '2026-01-01T00:05:00Z', outputs: made.outputs as object },
    ],
    [
      'a success whose pod is gone',
      { job: aJob(resource, complete()), pods: [] },
      { status: 'True', reason: 'Succeeded', message: /the result that its program wrote is lost$/ },
      { phase: 'Succeeded', attempts: 1, outputs: made.outputs as object },
    ],
    [
      'a success whose pod is gone, while that of an earlier attempt is there',
      {
        job: aJob(resource, { ...complete(), failed: 1 }),
        pods: [endedPod(1, 12, { ...corrupt, accelerator: 'gpu' })],
      },
      { status: 'True', reason: 'Succeeded' },
      { phase: 'Succeeded', attempts: 2, accelerator: undefined, outputs: made.outputs as object },
    ],
    [
      'a success whose message was cut',
      {
        job: aJob(resource, complete()),
        pods: [
          aPod(1, {
            phase: 'Succeeded',
            containerStatuses: [{ name: 'media', state: { terminated: { exitCode: 0, message: '{"ok":tr' } } }],
          }),
        ],
      },
      { status: 'True', reason: 'Succeeded', message: /the result that its program wrote is lost$/ },
      { outputs: made.outputs as object },
    ],
    [
      'a failure that the program explains',
      { job: aJob(resource, failedWith('PodFailurePolicy')), pods: [endedPod(1, 12, corrupt)] },
      { status: 'False', reason: 'Truncated', message: 'ends after 2 of 60 s' },
      { phase: 'Failed', outputs: [{ id: output.id, state: 'Failed', reason: 'Truncated' }] },
    ],
    [
      'a failure that only its exit code explains',
      { job: aJob(resource, failedWith('PodFailurePolicy')), pods: [endedPod(1, 12)] },
      { status: 'False', reason: 'CorruptInput' },
    ],
    [
      'an attempt that needed too much memory',
      {
        job: aJob(resource, failedWith('BackoffLimitExceeded', 3)),
        pods: [endedPod(1, 20), endedPod(2, 20), endedPod(3, 137, undefined, { reason: 'OOMKilled' })],
      },
      { status: 'False', reason: 'OOMKilled', message: 'Attempt 3 of 3 needed more than 2Gi of memory' },
    ],
    [
      'an attempt that took too long',
      {
        job: aJob(resource, failedWith('BackoffLimitExceeded')),
        pods: [endedPod(1, 143, { ok: false, reason: 'Terminated' }, { podReason: 'DeadlineExceeded' })],
      },
      { status: 'False', reason: 'DeadlineExceeded' },
    ],
    [
      'an eviction',
      {
        job: aJob(resource, failedWith('BackoffLimitExceeded')),
        pods: [endedPod(1, 137, undefined, { podReason: 'Evicted' })],
      },
      { status: 'False', reason: 'Evicted' },
    ],
    [
      'a running attempt on a node that is not heard of',
      {
        job: aJob(resource, { active: 1 }),
        pods: [
          aPod(1, {
            phase: 'Running',
            conditions: [
              { type: 'Ready', status: 'False', lastTransitionTime: '2026-01-01T00:03:00Z' },
              { type: 'ContainersReady', status: 'True' },
            ],
            containerStatuses: [{ name: 'media', state: { running: {} } }],
          }),
        ],
      },
      { status: 'Unknown', reason: 'NodeUnreachable', message: /attempt 1 of 3 .* since 2026-01-01T00:03:00Z/ },
      { phase: 'Running', attempts: 1 },
    ],
    [
      'an eviction of a program that had time to say that it was stopped',
      {
        job: aJob(resource, failedWith('BackoffLimitExceeded')),
        pods: [endedPod(1, 143, { ok: false, reason: 'Terminated', message: 'stopped' }, { podReason: 'Evicted' })],
      },
      { status: 'False', reason: 'Evicted' },
    ],
    [
      'a crash with an unknown code',
      { job: aJob(resource, failedWith('BackoffLimitExceeded')), pods: [endedPod(1, 1)] },
      { status: 'False', reason: 'Failed', message: /exit code 1$/ },
    ],
    [
      'a failed Job whose pods have been collected',
      { job: aJob(resource, failedWith('BackoffLimitExceeded', 3)) },
      { status: 'False', reason: 'BackoffLimitExceeded', message: 'said Kubernetes' },
    ],
  ]
  const collected = (status: Parameters<typeof aJob>[1]) => {
    const gone = aJob(resource, status)
    return { ...gone, metadata: { ...gone.metadata, deletionTimestamp: '2026-01-01T00:09:00Z' } }
  }
  t.test('a Job that failed and is collected before anyone read why is created again', async (t) => {
    const gone = collected(failedWith('PodFailurePolicy'))
    const inTime = planFor({ job: gone, pods: [endedPod(1, 12, corrupt)] })
    t.match(verdict(inTime), { status: 'False', reason: 'Truncated' })
    const late = planFor({ job: gone, resource: aResource({ status: planFor({ job }).status }) })
    t.match(verdict(late), { status: 'Unknown', reason: 'Creating' })
    t.strictSame([late.createJob, late.deleteJobs, late.patchJob], [undefined, undefined, undefined])
  })

  t.test('a Job that succeeded and is collected has succeeded', async (t) => {
    for (const pods of [[endedPod(1, 0, made)], []]) {
      t.match(verdict(planFor({ job: collected(complete()), pods })), { status: 'True', reason: 'Succeeded' })
    }
  })

  for (const [name, seen, want, status] of verdicts) {
    t.test(`judges ${name}`, async (t) => {
      const p = planFor(seen)
      t.match(verdict(p), want)
      if (status) t.match(p.status, status)
    })
  }

  t.test('planning twice from the same world gives the same status, whenever that is', async (t) => {
    for (const [name, seen] of verdicts) {
      const first = planFor(seen)
      const written: Run = { ...(seen.resource ?? resource), status: first.status ?? {} }
      const later = planFor({ ...seen, resource: written, now: new Date('2027-01-01T00:00:00Z') })
      if (verdict(first)?.status === 'Unknown') {
        t.strictSame(later.status, first.status, name)
        t.strictSame(later.events, [], `${name}: no event again`)
      } else t.equal(later.status, undefined, `${name}: over is over`)
    }
  })

  t.test('a Job whose pods could not even start is replaced by another one, a few times', async (t) => {
    const failed = (r: Run) => aJob(r, failedWith('BackoffLimitExceeded', 1))
    const p = planFor({ job: failed(resource), pods: [neverStarted] })
    t.match(verdict(p), { status: 'Unknown', reason: 'Retrying', message: /Node has no CPU left/ })
    t.match(p.status, { restarts: 1, attempts: 0, jobName: jobName(resource, 2) })
    t.match(p.deleteJobs, [{ metadata: { name: jobName(resource, 1) } }])
    t.equal(p.createJob, undefined, 'not in the same step')

    const next = aResource({ status: p.status })
    const second = planFor({ resource: next, leftovers: [failed(resource)] })
    t.equal(second.createJob?.metadata.name, jobName(resource, 2))
    t.match(second.deleteJobs, [{ metadata: { name: jobName(resource, 1) } }], 'in case it was not deleted then')

    const last = aResource({ status: { ...p.status, restarts: MAX_RESTARTS } })
    const end = planFor({ resource: last, job: failed(last), pods: [neverStarted] })
    t.match(verdict(end), { status: 'False', reason: 'NeverStarted' })
  })

  t.test('a pod that is deleted before it started is a failed attempt, before and after it is gone', async (t) => {
    const deleted = aPod(1, { phase: 'Failed' })
    deleted.metadata.deletionTimestamp = '2026-01-01T00:04:59Z'
    for (const pods of [[deleted], []]) {
      const p = planFor({ job: aJob(resource, failedWith('BackoffLimitExceeded', 1)), pods })
      t.match(verdict(p), { status: 'False', reason: 'BackoffLimitExceeded' })
      t.match(p.status, { attempts: 1, restarts: undefined })
      const again = planFor({ job: aJob(resource, { startTime: '2026-01-01T00:00:01Z', failed: 1 }), pods })
      t.match(verdict(again), { reason: 'Retrying', message: 'Attempt 1 of 3 failed: its pod was deleted' })
    }
  })

  t.test('an attempt that ran is believed, even if the last pod was refused', async (t) => {
    const pods = [endedPod(1, 21), { ...neverStarted, metadata: { ...neverStarted.metadata, name: 'pod-2' } }]
    const p = planFor({ job: aJob(resource, failedWith('BackoffLimitExceeded', 2)), pods })
    t.match(verdict(p), { status: 'False', reason: 'NoSpace' })
    t.equal(p.status?.attempts, 1)
  })

  t.test('what got its Job within the same second and waits is not written about at the same moment', async (t) => {
    const made = '2026-01-01T00:10:00Z'
    const waits = Array.from({ length: 200 }, () => {
      const waiting = aResource({ metadata: { uid: randomUUID() } })
      const bare = aJob(waiting)
      const its = { ...bare, metadata: { ...bare.metadata, creationTimestamp: made } }
      const wait = (at: Date) => planFor({ resource: waiting, job: its, now: at })
      const first = wait(new Date(made))
      t.equal(first.status, undefined, 'not yet')
      const due = new Date(Date.parse(made) + (first.requeueAfterMs ?? 0))
      t.equal(wait(new Date(due.getTime() - 1)).status, undefined)
      t.match(wait(due).status, { phase: 'Pending' })
      const urgent = planFor({ resource: waiting, job: its, now: due, isUrgent: true })
      t.match([urgent.status, urgent.requeueAfterMs, urgent.requeueLast], [undefined, 1, true], 'while others wait')
      return first.requeueAfterMs ?? 0
    })
    t.ok(Math.min(...waits) >= QUIET_MS && Math.max(...waits) < QUIET_MS + 1000)
    t.ok(new Set(waits).size > 100, 'spread over the second')
  })

  t.test('a container that the kubelet could not find has run only if it was ever there', async (t) => {
    // What the kubelet writes at the deadline of a pod whose image never came.
    const lost = { exitCode: 137, reason: 'ContainerStatusUnknown', message: 'could not be located' }
    const late = (was: object) =>
      trimPod(
        aPod(1, {
          phase: 'Failed',
          reason: 'DeadlineExceeded',
          containerStatuses: [{ name: 'media', state: { terminated: lost }, ...was }],
        }),
      )
    const judged = (was: object) => {
      const p = planFor({ job: aJob(resource, failedWith('BackoffLimitExceeded')), pods: [late(was)] })
      return { ...verdict(p), attempts: p.status?.attempts, restarts: p.status?.restarts }
    }
    const never = judged({ containerID: '', lastState: {} })
    t.match(never, { status: 'Unknown', reason: 'Retrying', attempts: 0, restarts: 1 })
    for (const was of [{ containerID: 'containerd://1' }, { lastState: { terminated: lost } }]) {
      t.match(judged(was), { status: 'False', reason: 'DeadlineExceeded', attempts: 1, restarts: undefined })
    }
  })

  t.test('a program that ran and was not found any more when its pod ended was an attempt', async (t) => {
    // What the kubelet wrote of an eviction: the state is that of a container that was never there.
    const lost = { exitCode: 137, reason: 'ContainerStatusUnknown', message: 'It used to be Running' }
    const container = { state: { waiting: { reason: 'ContainerCreating' } }, lastState: { terminated: lost } }
    const judged = (why: object) => {
      const pod = aPod(1, { phase: 'Failed', ...why, containerStatuses: [{ name: 'media', ...container }] })
      const p = planFor({ job: aJob(resource, failedWith('BackoffLimitExceeded', 1)), pods: [trimPod(pod)] })
      return { ...verdict(p), attempts: p.status?.attempts, restarts: p.status?.restarts }
    }
    const attempt = { status: 'False', attempts: 1, restarts: undefined }
    const evicted = { reason: 'Evicted', message: 'Usage exceeds the limit' }
    t.match(judged(evicted), { ...attempt, ...evicted })
    t.match(judged({}), { ...attempt, reason: 'ContainerStatusUnknown', message: 'It used to be Running' })
  })

  t.test('attempts are remembered when their pods have been collected', async (t) => {
    const before = aResource({ status: { attempts: 2 } })
    t.equal(planFor({ resource: before, job: aJob(resource, { failed: 2 }), pods: [] }).status?.attempts, 2)
  })

  t.test('suspend is carried over to the Job, both ways, until it has finished', async (t) => {
    t.match(planFor({}).createJob, { spec: { suspend: false } })
    t.match(planFor({ resource: suspended }).createJob, { spec: { suspend: true } })
    t.strictSame(planFor({ resource: suspended, job }).patchJob, { name: job.metadata.name, spec: { suspend: true } })
    t.strictSame(planFor({ job: aJob(suspended) }).patchJob?.spec, { suspend: false })
    t.equal(planFor({ job }).patchJob, undefined)
    t.equal(planFor({ resource: suspended, job: aJob(resource, complete()) }).patchJob, undefined)
    const strangers = aJob(aResource({ metadata: { uid: 'other' } }))
    t.equal(planFor({ resource: suspended, job: strangers }).patchJob, undefined, 'never the Job of another owner')
  })

  t.test('success is recorded together with 100 percent and the accelerator that was really used', async (t) => {
    const resource = aResource({
      status: {
        progress: { percent: 97, speed: '2x', stage: 'Verifying', updatedAt: '2026-01-01T00:04:00Z' },
        accelerator: 'gpu',
        planReason: 'one pass',
      },
    })
    const result: JobResult = { ...made, acceleratorReason: 'no NVENC on this card' }
    const p = planFor({ resource, job: aJob(resource, complete()), pods: [endedPod(1, 0, result)] })
    t.strictSame(p.progress, {
      progress: { percent: 100, speed: '2x', etaSeconds: 0, playable: [output.id], updatedAt: '2026-01-01T00:05:00Z' },
      accelerator: 'cpu',
      acceleratorReason: 'no NVENC on this card',
      planReason: 'one pass',
    })
    const now = { ...made, planReason: 'two passes' }
    const other = planFor({ resource, job: aJob(resource, complete()), pods: [endedPod(1, 0, now)] })
    const isTold = kit.kind.hasPlanReason === true
    t.equal(other.progress?.planReason, isTold ? 'two passes' : 'one pass', 'a kind without this field is not given it')
    const bad = planFor({ resource, job: aJob(resource, failedWith('PodFailurePolicy')), pods: [endedPod(1, 12)] })
    t.equal(bad.progress, undefined, 'a failure keeps the progress it had')
  })

  t.test('a finished resource', async (t) => {
    const seen = { job: aJob(resource, complete()), pods: [endedPod(1, 0, made)] }
    const first = planFor(seen)
    const finished = aResource({ status: { ...first.status, ...first.progress } })

    t.test('is left alone until its time is over; the Job of an older operator gets a time to live', async (t) => {
      const older = aJob(resource, complete(), { ttlSecondsAfterFinished: undefined })
      const p = planFor({ ...seen, job: older, resource: finished })
      t.strictSame(p.patchJob, { name: older.metadata.name, spec: { ttlSecondsAfterFinished: 21_600 } })
      const done = { ...seen, resource: finished }
      t.strictSame(planFor(done), { events: [], requeueAfterMs: 86_400_000 - 300_000 })
      t.strictSame(planFor({ ...done, now: new Date('2026-01-02T00:05:00Z') }), { events: [], deleteResource: true })
    })

    t.test('keeps the Job of a failure longer, but never longer than itself', async (t) => {
      const failure = { job: aJob(resource, failedWith('PodFailurePolicy')), pods: [endedPod(1, 12, corrupt)] }
      const { status } = planFor(failure)
      const ttl = (ttlSecondsAfterFinished: number) =>
        planFor({ ...failure, resource: aResource({ spec: { ttlSecondsAfterFinished }, status }) }).patchJob?.spec
      t.strictSame(ttl(1_000_000), { ttlSecondsAfterFinished: 86_400 })
      t.strictSame(ttl(30_000), { ttlSecondsAfterFinished: 30_000 })
      t.equal(ttl(60), undefined, 'the garbage collector deletes it with its resource')
      const byHand = { ...failure, job: aJob(resource, failedWith('PodFailurePolicy'), { ttlSecondsAfterFinished: 0 }) }
      t.equal(planFor({ ...byHand, resource: aResource({ status }) }).patchJob, undefined, 'as an administrator said')
    })

    t.test('gets its 100 percent back when a late report overwrote it', async (t) => {
      const late = { percent: 97, stage: 'Publishing', updatedAt: '2026-01-01T00:05:01Z' }
      const p = planFor({ ...seen, resource: aResource({ status: { ...first.status, progress: late } }) })
      t.match(p.progress, { progress: { percent: 100, playable: [output.id] } })
      t.equal(p.status, undefined)
    })

    t.test('loses what an interrupted restart left over', async (t) => {
      const p = planFor({ ...seen, resource: finished, leftovers: [aJob(aResource({ status: { restarts: 4 } }))] })
      t.equal(p.deleteJobs?.length, 1)
    })
  })

  t.test('a resource that is being deleted is left to the garbage collector', async (t) => {
    t.strictSame(planFor({ resource: aResource({ metadata: { deletionTimestamp: 'x' } }) }), { events: [] })
  })

  t.test('trouble of ours is never final, and keeps the number of the Job', async (t) => {
    const counted = aResource({ status: { restarts: 2, attempts: 1 } })
    const finding = { reason: 'X', message: 'y'.repeat(5000) }
    const status = trouble(counted, finding, now)
    t.match(status, { phase: 'Pending', restarts: 2, attempts: 1, conditions: [{ status: 'Unknown', reason: 'X' }] })
    t.equal(status.conditions?.[0]?.message.length, 1024)
    t.strictSame(trouble({ ...counted, status }, finding, new Date('2027-01-01')), status)
  })

  t.test('what a newer operator recorded stays while an older one leads that cannot read the spec', async (t) => {
    const progress = { percent: 40, updatedAt: '2026-01-01T00:04:00Z' }
    const running = planFor({ job, pods: [runningPod(1)] }).status ?? {}
    const status = notUnderstood({ ...resource, status: { ...running, progress } }, 'x'.repeat(5000), now)
    const { conditions: _, ...kept } = running
    t.match(status, { ...kept, phase: 'Running', attempts: 1, jobName: job.metadata.name, progress: undefined })
    t.match(status.conditions, [{ status: 'Unknown', reason: 'NotUnderstood' }])
    t.equal(status.conditions?.[0]?.message.length, 1024)
    t.match(notUnderstood(resource, 'x', now), { phase: 'Pending' })
  })
})
