import t from 'tap'
import { succeededOf } from '../../../crds/run.ts'
import { eachKind } from '../../support/each-kind.ts'
import { endedPod, pendingPod } from '../../support/pods.ts'
import { planTime } from '../../support/program-kinds.ts'

eachKind(t, (t, kit) => {
  const { aResource, aJob, planFor } = kit

  /**
   * A quota, a policy or a webhook may keep a Job from making its pod, a node from starting it: only events tell.
   */

  const resource = aResource()
  const ago = (seconds: number) => new Date(planTime.getTime() - seconds * 1000).toISOString()
  const since = (startTime: string | undefined, pods = [] as ReturnType<typeof pendingPod>[]) =>
    planFor({ job: aJob(resource, startTime ? { startTime } : {}), pods })

  t.test('a Job that makes no pod is told of after a while', async (t) => {
    const early = since(ago(10))
    t.match(succeededOf(early.status), { reason: 'Queued' })
    t.equal(early.requeueAfterMs, 20_000)
    const late = since(ago(30))
    t.match(late.status, { phase: 'Pending' })
    t.match(succeededOf(late.status), {
      status: 'Unknown',
      reason: 'PodNotCreated',
      message: `The Job has created no pod since ${ago(30)}; "kubectl describe job ${kit.jobName(resource, 1)}" shows why`,
    })
    t.match(late.events, [{ type: 'Warning', reason: 'PodNotCreated' }])
    t.equal(late.requeueAfterMs, undefined)
  })

  t.test('also one that its controller has not even looked at', async (t) => {
    const job = aJob(resource)
    const unseen = { ...job, metadata: { ...job.metadata, creationTimestamp: ago(31) } }
    t.match(succeededOf(planFor({ job: unseen, pods: [] }).status), { reason: 'PodNotCreated' })
    t.match(succeededOf(since(undefined).status), { reason: 'Queued' }, 'nobody knows since when')
  })

  t.test('one that is just being resumed is not late', async (t) => {
    const suspended = aJob(resource, { conditions: [{ type: 'Suspended', status: 'True' }] })
    const resumed = { ...suspended, metadata: { ...suspended.metadata, creationTimestamp: ago(999) } }
    t.match(succeededOf(planFor({ job: resumed, pods: [] }).status), { reason: 'Queued' })
  })

  t.test('what has a pod, or had one, is told of otherwise', async (t) => {
    t.match(
      succeededOf(since(ago(999), [pendingPod(1)]).status),
      { reason: 'Queued' },
      'not yet looked at by the scheduler',
    )
    t.match(succeededOf(since(ago(99), [endedPod(1, 20)]).status), { reason: 'Retrying' })
  })

  /** Bound to a node: what its kubelet does is told by events of the pod alone, until there is a container. */
  const bound = (createdAgo: number) => {
    const pod = pendingPod(1)
    const conditions = [{ type: 'PodScheduled', status: 'True' }]
    return {
      metadata: { ...pod.metadata, creationTimestamp: ago(createdAgo) },
      status: {
        ...pod.status,
        conditions: conditions.map((c) => ({ ...c, lastTransitionTime: ago(createdAgo - 5) })),
      },
    }
  }

  t.test('a pod that has a node and does not start is told of after a while', async (t) => {
    const early = since(ago(999), [bound(65)])
    t.match(succeededOf(early.status), { reason: 'Queued' })
    t.equal(early.requeueAfterMs, 60_000)
    const late = since(ago(999), [bound(125)])
    t.match(late.status, { phase: 'Pending' })
    const message = `The node has not started the pod since ${ago(120)}; "kubectl describe pod pod-1" shows why`
    t.match(succeededOf(late.status), { status: 'Unknown', reason: 'PodNotStarted', message })
    t.match(late.events, [{ type: 'Warning', reason: 'PodNotStarted' }])
  })
})
