import t from 'tap'
import { type RunStatus, succeededOf } from '../../../crds/run.ts'
import type { Job, Pod } from '../../../operator/jobs/batch.ts'
import { trimJob, trimPod } from '../../../operator/jobs/trim.ts'
import { eachKind } from '../../support/each-kind.ts'
import { aPod, endedPod, failedWith, pendingPod, runningPod } from '../../support/pods.ts'
import { programConfig } from '../../support/program-kinds.ts'

eachKind(t, (t, kit) => {
  const { aResource, aJob, planFor } = kit

  /** What an attempt is: what its Job counts as a failure or success, and what runs; never what could not even start. */

  const resource = aResource()
  const TRACKING = 'batch.kubernetes.io/job-tracking'
  const disruption = { type: 'DisruptionTarget', status: 'True', reason: 'DeletionByTaintManager', message: 'gone' }
  const disrupted = (pod: Pod): Pod => ({
    ...pod,
    status: { ...pod.status, phase: 'Failed', conditions: [disruption] },
  })
  /** As long as its Job has not counted it. */
  const tracked = (pod: Pod): Pod => ({ ...pod, metadata: { ...pod.metadata, finalizers: [TRACKING] } })
  const refused = (n: number) => aPod(n, { phase: 'Failed', reason: 'OutOfcpu', message: 'no CPU left' })
  const seen = (status: RunStatus | undefined, job: Job, pods: Pod[]) =>
    planFor({
      resource: aResource(status ? { status } : {}),
      job: trimJob(job),
      pods: pods.map(trimPod),
    })

  const counts: [name: string, recorded: number, jobStatus: object, pods: Pod[], want: number][] = [
    ['a running one', 0, {}, [runningPod(1)], 1],
    ['one that was running and that the cluster took away', 1, {}, [disrupted(runningPod(1))], 0],
    ['one that was taken away, whose pod is gone as well', 1, {}, [], 0],
    ['the one after it', 0, {}, [disrupted(runningPod(1)), runningPod(2)], 1],
    ['one whose pod a user deleted', 1, { failed: 1 }, [], 1],
    ['one whose deleted pod its Job is about to count', 1, { uncountedTerminatedPods: { failed: ['u'] } }, [], 1],
    ['the one after a deleted pod', 1, { failed: 1 }, [runningPod(2)], 2],
    ['a failure after a deleted pod, not counted yet', 2, { failed: 1 }, [tracked(endedPod(2, 20))], 2],
    ['a failure after a deleted pod', 2, { failed: 2 }, [endedPod(2, 20)], 2],
    ['a success after a deleted pod', 2, { failed: 1 }, [endedPod(2, 0, { ok: true })], 2],
    ['a failure that is counted and not released', 1, { failed: 1 }, [tracked(endedPod(1, 20))], 1],
    ['a pod that no kubelet took', 0, { failed: 1 }, [refused(1)], 0],
    ['an attempt after a pod that no kubelet took', 0, { failed: 1 }, [refused(1), runningPod(2)], 1],
    ['one that was suspended, and whose pod is gone', 1, { active: 0 }, [], 0],
  ]
  for (const [name, recorded, jobStatus, pods, want] of counts) {
    t.test(`counts ${name}`, async (t) => {
      t.equal(seen({ attempts: recorded }, aJob(resource, jobStatus), pods).status?.attempts, want)
    })
  }

  t.test('a start that was recorded stays, whether or not the attempt counts', async (t) => {
    const startTime = '2026-01-01T00:00:01Z'
    const p = seen({ attempts: 1, startTime }, aJob(resource, { startTime }), [disrupted(runningPod(1))])
    t.match(p.status, { attempts: 0, startTime })
  })

  t.test('that a pod was deleted is a failed attempt, and said so', async (t) => {
    const p = seen({ attempts: 1 }, aJob(resource, { failed: 1 }), [])
    t.match(succeededOf(p.status), { reason: 'Retrying', message: 'Attempt 1 of 3 failed: its pod was deleted' })
    t.match(p.status, { phase: 'Running' })
    t.match(p.events, [{ type: 'Warning', reason: 'Retrying' }])
    const last = aJob(resource, failedWith('BackoffLimitExceeded', 3))
    t.match(seen({ attempts: 3 }, last, []).status, { attempts: 3, phase: 'Failed' })
  })

  t.test('what a Job deletes because we end it is no attempt more', async (t) => {
    const ended = aJob(resource, failedWith('DeadlineExceeded', 2), { activeDeadlineSeconds: 1 })
    const status = { attempts: 1, memory: '4Gi' }
    t.match(seen(status, ended, [endedPod(1, 137, undefined, { reason: 'OOMKilled' })]).status, {
      attempts: 1,
      restarts: 1,
    })
  })

  t.test('a Job that a user deletes takes its pods along, and no attempt is forgotten', async (t) => {
    const going = aJob(resource, { active: 1 })
    const deleted = { ...going, metadata: { ...going.metadata, deletionTimestamp: 'x' } }
    t.equal(seen({ attempts: 2 }, deleted, []).status?.attempts, 2)
    t.equal(planFor({ resource: aResource({ status: { attempts: 2 } }) }).createJob?.spec['backoffLimit'], 0)
  })

  t.test('an attempt that the cluster took away costs nothing when the GPU is given up', async (t) => {
    const config = { ...programConfig, gpuAvailable: true }
    const auto = (status?: RunStatus) =>
      aResource({ spec: { accelerator: 'auto', maxAttempts: 1 }, ...(status && { status }) })
    const gpuJob = planFor({ resource: auto(), config }).createJob
    const withGpu = (status: object, spec: object = {}): Job => {
      const job = aJob(auto(), status, spec)
      return { ...job, metadata: { ...job.metadata, ...gpuJob?.metadata, uid: 'job-uid' } }
    }
    const unschedulable = aPod(2, {
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
    })
    const ran = planFor({ resource: auto(), job: withGpu({}), pods: [runningPod(1)], config })
    t.match(ran.status, { attempts: 1 })
    const drained = planFor({
      resource: auto(ran.status),
      job: withGpu({}),
      pods: [disrupted(runningPod(1)), unschedulable],
      config,
    })
    t.match(drained.status, { attempts: 0, gpuGivenUp: /no GPU was free/ })
    const job = withGpu(failedWith('DeadlineExceeded', 1), { activeDeadlineSeconds: 1 })
    const over = planFor({ resource: auto(drained.status), job, pods: [], config })
    t.match(over.status, { attempts: 0, restarts: 1 })
    const next = planFor({ resource: auto(over.status), config })
    t.notOk('media.keepsake.dev/attempts-before' in (next.createJob?.metadata.annotations ?? {}))
    const again = planFor({
      resource: auto(over.status),
      job: {
        ...withGpu({}),
        ...next.createJob,
        metadata: { ...next.createJob?.metadata, name: 'x', uid: 'job-uid' },
      },
      pods: [runningPod(3)],
      config,
    })
    t.match(succeededOf(again.status), { message: 'Attempt 1 of 1 is running' })
  })

  t.test('the same with more memory: only what the Job counted is gone', async (t) => {
    const ran = seen(undefined, aJob(resource), [runningPod(1)])
    t.match(ran.status, { attempts: 1 })
    const interrupted = seen(ran.status, aJob(resource), [disrupted(runningPod(1))])
    const oom = endedPod(2, 137, undefined, { reason: 'OOMKilled' })
    const told = seen(interrupted.status, aJob(resource), [disrupted(runningPod(1)), tracked(oom)])
    t.match(told.status, { attempts: 1, memory: '4Gi' })
  })

  t.test('a pod that waits is none', async (t) => {
    t.equal(seen({ attempts: 1 }, aJob(resource, { failed: 1 }), [pendingPod(2)]).status?.attempts, 1)
  })
})
