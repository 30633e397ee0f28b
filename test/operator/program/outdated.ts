import t from 'tap'
import { type RunStatus, succeededOf } from '../../../crds/run.ts'
import type { Job, Pod } from '../../../operator/jobs/batch.ts'
import { eachKind } from '../../support/each-kind.ts'
import {
  aPod,
  complete,
  endedPod,
  failedWith,
  patched,
  pendingPod,
  runningPod,
  sidecarWaitingPod,
  unschedulablePod,
  waitingPod,
} from '../../support/pods.ts'
import { planTime, programConfig } from '../../support/program-kinds.ts'

eachKind(t, (t, kit) => {
  const { aResource, aJob, planFor, jobName } = kit

  /** A pod that waits in vain because of a configuration that an administrator has corrected since. */

  const resource = aResource()
  const corrected = { ...programConfig, image: 'keepsake:2' }
  const unschedulable = unschedulablePod(1)
  const boundAt = (time: Date) =>
    aPod(1, {
      phase: 'Pending',
      conditions: [{ type: 'PodScheduled', status: 'True', lastTransitionTime: time.toISOString() }],
    })
  const withStatus = (status: RunStatus | undefined) => aResource(status ? { status } : {})
  const noImage = waitingPod(1, 'ImagePullBackOff')

  t.test('its Job makes room for one of the new configuration, which costs nothing', async (t) => {
    const job = aJob(resource)
    const end = planFor({ job, pods: [noImage], config: corrected })
    t.match(succeededOf(end.status), {
      status: 'Unknown',
      reason: 'Outdated',
      message: /^ImagePullBackOff: ImagePullBackOff!; the configuration has changed since/,
    })
    t.match(end.status, { phase: 'Pending', attempts: 0 })
    t.match(end.patchJob, { name: job.metadata.name, spec: { activeDeadlineSeconds: 1 } })
    t.match(end.events, [{ reason: 'Outdated' }])
    t.equal(end.deleteJobs, undefined)

    const knowing = withStatus(end.status)
    const over = { ...patched(job, end), status: failedWith('DeadlineExceeded', 1) }
    const still = planFor({ resource: knowing, job: over, pods: [noImage], config: corrected })
    t.equal(still.deleteJobs, undefined, 'not while its pod is there')
    const gone = planFor({ resource: knowing, job: over, pods: [], config: corrected })
    t.match(gone.deleteJobs, [{ metadata: { name: job.metadata.name } }])
    t.match(gone.status, { attempts: 0, phase: 'Pending', restarts: undefined })

    const next = planFor({ resource: withStatus(gone.status), config: corrected })
    t.match(next.createJob, { metadata: { name: jobName(resource, 1) }, spec: { backoffLimit: 2 } })
    t.match(JSON.stringify(next.createJob), '"keepsake:2"')
    const made = { ...aJob(resource), metadata: { ...next.createJob?.metadata, uid: 'job-uid' } } as Job
    const waits = planFor({ resource: withStatus(next.status), job: made, pods: [noImage], config: corrected })
    t.match(succeededOf(waits.status), { reason: 'ImagePullBackOff' }, 'this one is as configured')
  })

  const isOutdated = (pods: Pod[], config: object, job = aJob(resource)) =>
    succeededOf(planFor({ job, pods, config: { ...programConfig, ...config } }).status)?.reason === 'Outdated'

  t.test('what a pod may wait for in vain', async (t) => {
    t.ok(isOutdated([unschedulable], { cpu: '1' }), 'room')
    t.ok(isOutdated([waitingPod(1, 'CreateContainerConfigError')], { storeSecret: 'other' }), 'a Secret')
    t.ok(isOutdated([sidecarWaitingPod(1, 'CreateContainerConfigError')], { storeSecret: 'other' }), 'its sidecar too')
    t.notOk(isOutdated([pendingPod(1)], { image: 'other' }), 'one that merely starts')
    t.notOk(isOutdated([boundAt(planTime)], { image: 'other' }), 'one that its node is just starting')
    t.ok(isOutdated([boundAt(new Date(0))], { image: 'other' }), 'one that its node does not start')
    t.notOk(isOutdated([runningPod(1)], { image: 'other' }), 'one that runs keeps what it has')
    const metadata = { podLabels: { mesh: 'no' }, podAnnotations: { mesh: 'no' } }
    t.notOk(isOutdated([runningPod(1)], metadata), 'whatever labels the next one gets')
    t.notOk(isOutdated([endedPod(1, 20)], { image: 'other' }), 'one that has ended')
    t.notOk(isOutdated([], { image: 'other' }))
  })

  t.test('what makes a Job outdated', async (t) => {
    for (const change of [
      { image: 'x' },
      { storeSecret: 'x' },
      { serviceAccount: 'x' },
      { cpu: '1' },
      { memory: '1Gi' },
      { scratch: '1Gi' },
      { priorityClasses: { normal: 'x' } },
    ]) {
      t.ok(isOutdated([unschedulable], change), JSON.stringify(change))
    }
    for (const change of [
      { logLevel: 'debug' },
      { progressUrl: 'http://x' },
      { progressKey: 'x'.repeat(32) },
      { gpuAvailable: true },
      { gpuWaitSeconds: 1 },
      { memoryMax: '16Gi' },
    ]) {
      t.notOk(isOutdated([unschedulable], change), JSON.stringify(change))
    }
    const older = aJob(resource)
    delete older.metadata.annotations?.['media.keepsake.dev/configuration']
    t.notOk(isOutdated([unschedulable], { image: 'x' }, older), 'a Job of an operator that did not write it down')
    const edited = aResource({ spec: { priority: 'interactive' } })
    const p = planFor({ resource: edited, job: aJob(resource), pods: [unschedulable] })
    t.match(succeededOf(p.status), { reason: 'Unschedulable' }, 'an edited priority is for later Jobs')
  })

  t.test('once it is told to end it is followed, whatever happens in between', async (t) => {
    const end = planFor({ job: aJob(resource), pods: [noImage], config: corrected })
    const knowing = withStatus(end.status)
    const job = patched(aJob(resource), end)
    const reverted = planFor({ resource: knowing, job, pods: [noImage] })
    t.match(succeededOf(reverted.status), { reason: 'Outdated' }, 'the old configuration is back')
    const late = planFor({ resource: knowing, job, pods: [runningPod(1)], config: corrected })
    t.match(succeededOf(late.status), { reason: 'Outdated' }, 'it found its image after all, too late')
    const overToo = { ...job, status: failedWith('DeadlineExceeded', 1) }
    t.equal(planFor({ resource: knowing, job: overToo, pods: [endedPod(1, 143)] }).deleteJobs?.length, 1)

    const done = { ...job, status: complete() }
    const success = planFor({ resource: knowing, job: done, pods: [endedPod(1, 0, { ok: true })], config: corrected })
    t.match(succeededOf(success.status), { status: 'True' })
    const bad = { ...job, status: failedWith('PodFailurePolicy', 1) }
    const failure = planFor({ resource: knowing, job: bad, pods: [endedPod(1, 12)], config: corrected })
    t.match(succeededOf(failure.status), { status: 'False', reason: 'CorruptInput' })
  })

  t.test('a suspended one is left alone', async (t) => {
    const suspended = aResource({ spec: { suspend: true } })
    const p = planFor({ resource: suspended, job: aJob(suspended), pods: [noImage], config: corrected })
    t.match(succeededOf(p.status), { reason: 'Suspended' })
  })
})
