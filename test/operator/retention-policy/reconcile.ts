import t from 'tap'
import { CONFIRM_RUN, parseRetentionPolicy, RUN_REQUESTED } from '../../../crds/retention-policy.ts'
import { ClusterError, JOBS, type KubeObject, PODS } from '../../../lib/runtime/kube/cluster.ts'
import type { Pod } from '../../../operator/jobs/batch.ts'
import { operatorMetrics } from '../../../operator/operator-metrics.ts'
import { planRetention } from '../../../operator/retention-policy/plan.ts'
import { aResult, EVERY_TEN, retentionWorld, template } from '../../support/retention-world.ts'
import type { Fault } from '../../support/store-cluster.ts'

const minutesOf = (slot: Date) => slot.getTime() / 60_000

t.test('a policy waits for its first slot, and costs nothing meanwhile', async (t) => {
  const w = retentionWorld()
  await w.settle()
  t.match(w.ready(), { status: 'True', reason: 'Scheduled', message: /The next run starts at / })
  t.match(w.status(), {
    nextRun: w.firstSlot.toISOString().replace('.000Z', 'Z'),
    schedule: EVERY_TEN,
    scheduledSince: String,
  })
  t.equal(w.seen()?.metadata.finalizers, undefined, 'it can be deleted where no operator is any more')
  const before = w.writes.length
  const looked = ['get', 'list'] as const
  for (const call of looked) {
    w.cluster[call] = () => {
      throw new Error(`an idle policy asks the API server: ${call}`)
    }
  }
  const result = await w.once()
  t.strictSame([w.writes.length, w.errors, w.events], [before, [], []])
  t.strictSame(result, { requeueAfterMs: 60_000 }, 'until the slot')
  const rare = retentionWorld({ spec: { schedule: '0 0 1 1 *' } })
  await rare.settle()
  t.match(await rare.once(), { requeueAfterMs: 600_000 }, 'at most ten minutes, because clocks are set')
})

t.test('a slot starts one run, with what the policy says', async (t) => {
  const w = retentionWorld({ spec: { parallelism: 3, bytesPerSecond: 1000, dryRun: true } })
  w.minutes(0)
  await w.settle()
  const name = `trash-${minutesOf(w.firstSlot)}`
  t.strictSame(
    w.jobs().map((j) => j.metadata.name),
    [name],
  )
  t.match(w.job(), {
    metadata: { ownerReferences: [{ kind: 'RetentionPolicy', uid: w.policy.metadata.uid, controller: true }] },
    spec: {
      parallelism: 3,
      completions: undefined,
      backoffLimit: 8,
      ttlSecondsAfterFinished: undefined,
      podReplacementPolicy: 'Failed',
      podFailurePolicy: { rules: [{ action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget' }] }] },
      template: {
        metadata: { labels: { team: 'storage', 'app.kubernetes.io/component': 'retention' } },
        spec: { terminationGracePeriodSeconds: 120, automountServiceAccountToken: false },
      },
    },
  })
  t.strictSame(w.run(), {
    policy: 'trash',
    uid: w.policy.metadata.uid,
    run: name,
    target: 'MediaTrash',
    rules: [{ after: 'P30D', action: 'purge' }],
    batchSize: 100,
    parallelism: 3,
    bytesPerSecond: 1000,
    dryRun: true,
    maxDuePercent: 20,
    confirmed: false,
    slot: w.firstSlot.toISOString(),
  })
  t.match(w.status(), { active: name, lastScheduleTime: w.firstSlot.toISOString(), runs: [{ name }] })
  t.match(w.ready(), { status: 'True', reason: 'Running' })
  t.strictSame(
    w.events.map((e) => e.reason),
    ['RunStarted'],
  )
})

t.test('the furthest result of the pods is recorded before the Job may go', async (t) => {
  const w = retentionWorld({ spec: { parallelism: 3 } })
  w.minutes(0)
  await w.settle()
  for (const name of ['a', 'b', 'c']) w.addPod(name)
  w.endPod('a', aResult({ purged: 3, bytes: 30, due: 9 }), 20)
  await w.settle()
  t.match(w.status().runs, [{ purged: 3, bytes: 30 }], 'while it runs, in case that nothing else remains')
  const errors = [{ id: 'med_1', code: 'Locked', message: 'until 2030' }]
  w.endPod('b', aResult({ purged: 8, failures: 1, bytes: 80, due: 9, errors }))
  w.endPod('c', aResult({ purged: 5, bytes: 50, due: 9 }))
  w.minutes(2)
  w.completeJob()
  await w.settle()
  const run = { purged: 8, bytes: 80, failures: 1, due: 9, ended: 'Finished', finished: w.time.now.toISOString() }
  t.match(w.status(), { lastRun: run, runs: [run], errors, active: undefined })
  t.equal(w.job().spec.ttlSecondsAfterFinished, 3600)
  t.match(w.ready(), { status: 'True', reason: 'Scheduled' })
  t.match(w.events.at(-1), { type: 'Warning', reason: 'RunFinished', note: /8 purged, 80 bytes, 1 failures/ })
  t.equal(w.recorded.length, 1)
})

t.test('the end of a dry run says what it would have done', async (t) => {
  const w = retentionWorld({ spec: { dryRun: true } })
  w.minutes(0)
  await w.settle()
  w.addPod('a')
  w.endPod('a', aResult({ purged: 8, bytes: 80, due: 8, report: 'retention/reports/x' }))
  w.completeJob()
  await w.settle()
  t.match(w.status().lastRun, { purged: 8, dryRun: true, report: 'retention/reports/x' })
  t.match(w.events.at(-1)?.note, /^Dry run trash-\d+ ended as Finished: would have moved 0 and purged 8, 80 bytes$/)
})

t.test('when a run last finished its work is known after any number of others, and before the first', async (t) => {
  const w = retentionWorld()
  const metric = async () => {
    const { registry, retention } = operatorMetrics()
    retention.watch({ list: () => [w.seen()].filter((policy) => policy !== undefined) })
    const text = await registry.getSingleMetricAsString('keepsake_retention_last_finished_timestamp_seconds')
    return Number(/\} (\d+)$/m.exec(text)?.[1]) * 1000
  }
  let slots = 0
  const runs = async (result: Parameters<typeof aResult>[0]) => {
    w.minutes(10 * slots++)
    await w.settle()
    const { name } = w.job(w.status().active).metadata
    w.addPod(`pod-${slots}`, name)
    w.endPod(`pod-${slots}`, aResult(result))
    w.completeJob(name)
    await w.settle()
    t.match(w.status().lastRun, { name, ...result })
  }
  t.equal(await metric(), Date.parse(w.policy.metadata.creationTimestamp ?? ''))
  await runs({ ended: 'StoreUnavailable' })
  t.equal(w.status().lastFinished, undefined)
  await runs({ ended: 'Finished' })
  const finished = w.time.now.toISOString()
  t.equal(w.status().lastFinished, finished)
  for (let n = 0; n < 10; n++) await runs({ ended: 'StoreUnavailable' })
  t.equal(
    w.status().runs?.find(({ ended }) => ended === 'Finished'),
    undefined,
  )
  w.edit({ spec: { dryRun: true } })
  await runs({ ended: 'Finished' })
  t.equal(w.status().lastFinished, finished, 'a dry run carries nothing out')
  t.equal(await metric(), Math.floor(Date.parse(finished) / 1000) * 1000)
})

t.test('a run says that the node of one of its pods does not report, until it does', async (t) => {
  const w = retentionWorld({ spec: { parallelism: 2 } })
  w.minutes(0)
  await w.settle()
  for (const name of ['a', 'b']) w.addPod(name)
  const conditions = (ready: string) => [
    { type: 'Ready', status: ready, lastTransitionTime: '2026-11-26T10:00:00Z' },
    { type: 'ContainersReady', status: 'True' },
  ]
  const hear = (ready: string) => {
    const key = { namespace: w.key.namespace, name: 'b' }
    w.store.setStatus<Pod>(PODS, key, { phase: 'Running', conditions: conditions(ready) })
  }
  hear('False')
  await w.settle()
  t.match(w.ready(), {
    status: 'False',
    reason: 'NodeUnreachable',
    message: /the pod b has not reported since 2026-11-26T10/,
  })
  t.match(w.events.at(-1), { type: 'Warning', reason: 'NodeUnreachable' })
  hear('True')
  await w.settle()
  t.match(w.ready(), { status: 'True', reason: 'Running' })
})

t.test('a result counts also when its pod is gone before anyone looks', async (t) => {
  const w = retentionWorld()
  w.minutes(0)
  await w.settle()
  w.addPod('a')
  w.endPod('a', aResult({ purged: 7 }), 1)
  w.removePod('a')
  w.setJob({ conditions: [{ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded', message: 'too many' }] })
  await w.settle()
  t.match(w.status().lastRun, { purged: 7, ended: 'Failed', reason: /BackoffLimitExceeded: too many/ })
  t.equal(w.job().spec.ttlSecondsAfterFinished, 86_400)
  t.match(w.ready(), { status: 'False', reason: 'RunFailed' })
})

t.test('after an administrator deletes the Job, the operator records the last known figures', async (t) => {
  const w = retentionWorld()
  w.minutes(0)
  await w.settle()
  w.addPod('a')
  w.endPod('a', aResult({ purged: 7 }), 1)
  await w.settle()
  w.store.delete(JOBS, { namespace: 'media', name: w.job().metadata.name })
  await w.settle()
  t.match(w.status(), { lastRun: { purged: 7, ended: 'Lost' }, active: undefined })
  t.strictSame(w.jobs(), [], 'its slot has had its run')
})

/** From the creation to the record of the first run. */
async function wholeRun(w: ReturnType<typeof retentionWorld>): Promise<void> {
  await w.settle()
  w.minutes(0)
  await w.settle()
  w.addPod('a')
  w.endPod('a', aResult({ purged: 1 }))
  w.completeJob()
  await w.settle()
}

t.test('whichever write is lost, or its answer: one run, recorded once', async (t) => {
  const whole = retentionWorld()
  await wholeRun(whole)
  const { length } = whole.writes
  t.ok(length >= 5, whole.writes.join(', '))
  for (let at = 1; at <= length; at++) {
    for (const when of ['before', 'after'] satisfies Fault[]) {
      const w = retentionWorld()
      w.failWrite(at, when)
      await wholeRun(w)
      const name = `${whole.writes[at - 1]} ${when}`
      t.equal(w.errors.length, 1, `${name}: the fault`)
      t.equal(w.jobs().length, 1, name)
      t.match(w.status(), { lastRun: { purged: 1, ended: 'Finished' }, active: undefined }, name)
      t.equal(w.status().runs?.length, 1, name)
      t.equal(w.job().spec.ttlSecondsAfterFinished, 3600, name)
    }
  }
})

t.test('two processes that both lead start one run', async (t) => {
  const w = retentionWorld()
  await w.settle()
  const other = w.replica()
  w.minutes(0)
  await Promise.all([w.once(), other.once(), w.once(), other.once()])
  await Promise.all([w.settle(), other.once()])
  t.equal(w.jobs().length, 1)
  t.match(w.status(), { active: w.job().metadata.name })
  t.equal(w.events.filter((e) => e.reason === 'RunStarted').length, 1)
})

t.test('slots that were missed are made up for by one run, and so are those during a run', async (t) => {
  const w = retentionWorld()
  w.minutes(95)
  await w.settle()
  t.strictSame(
    w.jobs().map((j) => j.metadata.name),
    [`trash-${minutesOf(w.firstSlot) + 90}`],
  )
  w.addPod('a')
  w.minutes(125)
  w.endPod('a', aResult())
  w.completeJob()
  await w.settle()
  t.equal(w.jobs().length, 2)
  t.equal(w.status().active, `trash-${minutesOf(w.firstSlot) + 120}`)
})

t.test(
  'a clock that goes back starts nothing, and one that was a century ahead does not stop the schedule',
  async (t) => {
    const w = retentionWorld()
    w.minutes(0)
    await w.settle()
    w.completeJob()
    await w.settle()
    w.minutes(-30)
    await w.settle()
    t.equal(w.jobs().length, 1)
    w.minutes(100 * 365 * 1440)
    await w.settle()
    t.equal(w.jobs().length, 2)
    w.completeJob(w.status().active)
    await w.settle()
    w.minutes(5)
    await w.settle()
    t.equal(w.jobs().length, 2, 'what that clock wrote is forgotten')
    w.minutes(10)
    await w.settle()
    t.equal(w.status().active, `trash-${minutesOf(w.firstSlot) + 10}`)
  },
)

t.test('an edited policy leaves its run alone; the next one follows it', async (t) => {
  const w = retentionWorld()
  w.minutes(0)
  await w.settle()
  w.edit({ spec: { rules: [{ after: 'P60D', action: 'purge' }], parallelism: 5, schedule: '5 * * * *' } })
  await w.settle()
  t.match([w.run().rules, w.job().spec.parallelism], [[{ after: 'P30D' }], 1])
  w.addPod('a')
  w.endPod('a', aResult({ ended: 'ConfirmationRequired' }))
  w.completeJob()
  await w.settle()
  t.match(w.status().lastRun, { ended: 'ConfirmationRequired', generation: 1 })
  t.match(w.ready(), { status: 'True', reason: 'Scheduled' }, 'what it asked is about rules that are no more')
  const name = w.job().metadata.name
  w.minutes(60)
  await w.settle()
  const { active } = w.status()
  t.not(active, name)
  t.match(w.run(active).rules, [{ after: 'P60D' }])
})

t.test('another schedule does not make up for slots that it would have had', async (t) => {
  const w = retentionWorld({ spec: { schedule: '0 0 1 1 *' } })
  w.minutes(0)
  await w.settle()
  w.edit({ spec: { schedule: '* * * * *' } })
  w.time.now = new Date(w.time.now.getTime() + 30_000)
  await w.settle()
  t.strictSame(w.jobs(), [])
  w.time.now = new Date(w.time.now.getTime() + 30_000)
  await w.settle()
  t.equal(w.jobs().length, 1)
})

t.test('suspend stops the run in good order, and its rules never go on', async (t) => {
  const w = retentionWorld()
  w.minutes(0)
  await w.settle()
  const { name } = w.job().metadata
  w.addPod('a')
  w.edit({ spec: { suspend: true } })
  await w.settle()
  t.equal(w.job().spec.suspend, true)
  t.match(w.ready(), { status: 'False', reason: 'Stopping' })
  w.suspended()
  await w.settle()
  t.match(w.ready(), { reason: 'Stopping', message: /waiting for pods a to end/ })
  w.endPod('a', aResult({ purged: 4, ended: 'Stopped' }))
  w.edit({ spec: { suspend: false, rules: [{ after: 'P90D', action: 'purge' }] } })
  await w.settle()
  t.match(w.status(), { lastRun: { name, purged: 4, ended: 'Stopped' }, active: undefined })
  t.strictSame(w.jobs(), [], 'the Job is gone, and no slot of the time before is made up for')
  w.minutes(10)
  await w.settle()
  t.match(w.run().rules, [{ after: 'P90D' }])
})

t.test('while it is suspended slots pass, and afterwards the next one counts', async (t) => {
  const w = retentionWorld({ spec: { suspend: true } })
  w.minutes(25)
  await w.settle()
  t.match([w.ready(), w.status().nextRun, w.jobs()], [{ status: 'False', reason: 'Suspended' }, undefined, []])
  w.edit({ spec: { suspend: false } })
  await w.settle()
  t.strictSame(w.jobs(), [])
  w.minutes(30)
  await w.settle()
  t.equal(w.jobs().length, 1)
})

t.test('a policy that is deleted stays until its pods have ended and its last run is recorded', async (t) => {
  const w = retentionWorld()
  w.minutes(0)
  await w.settle()
  w.addPod('a')
  w.deletePolicy()
  await w.settle()
  w.suspended()
  await w.settle()
  t.match(w.seen()?.metadata, { deletionTimestamp: String })
  t.match(w.ready(), { status: 'False', reason: 'Stopping', message: /is deleted.*waiting for pods a/ })
  t.strictSame(w.recorded, [])
  w.endPod('a', aResult({ purged: 2, ended: 'Stopped' }))
  await w.settle()
  t.equal(w.seen(), undefined)
  t.match(w.recorded, [{ purged: 2, ended: 'Stopped' }])
  t.strictSame(w.jobs(), [])
})

t.test('a policy without a run is deleted at once, and finalizers of others stay', async (t) => {
  const w = retentionWorld()
  w.minutes(0)
  await w.settle()
  t.strictSame(w.seen()?.metadata.finalizers, ['media.keepsake.dev/retention'], 'while it runs')
  w.completeJob()
  await w.settle()
  t.notOk(w.seen()?.metadata.finalizers?.length)
  w.edit({ metadata: { finalizers: ['media.keepsake.dev/retention', 'example.org/other'] } })
  w.deletePolicy()
  await w.settle()
  t.strictSame(w.seen()?.metadata.finalizers, ['example.org/other'])
  w.edit({ metadata: { finalizers: [] } })
  t.equal(w.seen(), undefined)
})

t.test('a policy of which the spec is none starts nothing, and can be deleted', async (t) => {
  const seen = { jobs: [], pods: [], rival: undefined, result: undefined, template: 'digest', now: new Date() }
  const w = retentionWorld()
  const parsed = parseRetentionPolicy(w.policy)
  if ('problem' in parsed) throw new Error(parsed.problem)
  const broken = { ...seen, policy: parsed.resource, problem: 'spec.rules: is none', hasFinalizer: true }
  const plan = planRetention({ ...broken, now: w.firstSlot })
  t.match(plan.status?.conditions, [{ status: 'False', reason: 'InvalidSpec', message: 'spec.rules: is none' }])
  t.equal(plan.start, undefined)
  const metadata = { ...parsed.resource.metadata, deletionTimestamp: new Date().toISOString() }
  t.match(planRetention({ ...broken, policy: { ...parsed.resource, metadata } }), { removeFinalizer: true })
})

t.test('the older of two policies for a target is in force, and the other follows it', async (t) => {
  const w = retentionWorld()
  const other = { namespace: 'media', name: 'zz-trash' }
  w.create({ metadata: { name: other.name } })
  w.create({ metadata: { name: 'uploads' }, spec: { target: 'Uploads' } })
  w.create({ metadata: { name: 'trash', namespace: 'elsewhere' } })
  w.minutes(0)
  await w.settle()
  await w.settle(other)
  await w.settle({ namespace: 'media', name: 'uploads' })
  t.match(w.ready(other.name), { status: 'False', reason: 'TargetTaken', message: /^Policy trash is older/ })
  t.strictSame(
    w.jobs().map((j) => j.metadata.name.split('-')[0]),
    ['trash', 'uploads'],
  )
  w.completeJob(w.status().active)
  await w.settle()
  w.changed.length = 0
  w.deletePolicy()
  await w.settle()
  await w.once(other)
  t.ok(w.changed.includes(other.name), 'it is told')
  t.match(w.ready(other.name), { status: 'True', reason: 'Scheduled' })
})

const at = '2099-01-01T00:00:00Z'

t.test('a person starts one run out of turn per value', async (t) => {
  const w = retentionWorld({ spec: { window: { from: '00:00', to: '00:01' } } })
  await w.settle()
  w.annotate(RUN_REQUESTED, at)
  await w.settle()
  const { name } = w.job().metadata
  t.match(name, /^trash-r[0-9a-f]{8}$/)
  t.equal(w.run().until, undefined, 'the window is of the schedule')
  t.match(w.status(), { active: name, lastRunRequest: { value: at, answer: `Started run ${name}` } })
  t.equal(w.status().lastScheduleTime, undefined)
  w.annotate(RUN_REQUESTED, '2099-01-02T00:00:00Z')
  await w.settle()
  t.match(w.status().lastRunRequest, { value: '2099-01-02T00:00:00Z', answer: `Refused: run ${name} is running` })
  w.completeJob()
  await w.settle()
  t.equal(w.jobs().length, 1, 'neither is asked for again')
  t.match(
    w.events.map((e) => e.reason),
    ['RunStarted', 'RunRefused', 'RunLost'],
  )
})

t.test('a request is refused in words', async (t) => {
  const refusal = async (w: ReturnType<typeof retentionWorld>, value = at) => {
    w.annotate(RUN_REQUESTED, value)
    await w.settle()
    t.strictSame(w.jobs(), [])
    return w.status().lastRunRequest?.answer
  }
  t.equal(await refusal(retentionWorld({ spec: { suspend: true } })), 'Refused: the policy is suspended')
  t.match(await refusal(retentionWorld(), 'now'), /^Refused: it is no RFC 3339 time/)
  t.match(await refusal(retentionWorld(), '2026-13-01T00:00:00Z'), /^Refused: it is no RFC 3339 time/)
  t.match(await refusal(retentionWorld(), '2001-01-01T00:00:00Z'), /^Refused: the policy was created after/)
  t.match(await refusal(retentionWorld({ spec: { schedule: '0 0 31 2 *' } })), /^Refused: the schedule is invalid/)
  t.match(await refusal(retentionWorld({ template: undefined })), /^Refused: the operator has no template/)
})

/** Its first run has asked for a confirmation. */
async function askingWorld() {
  const w = retentionWorld()
  w.minutes(0)
  await w.settle()
  const first = w.job().metadata.name
  w.addPod('a')
  w.endPod('a', aResult({ due: 5000, ended: 'ConfirmationRequired', reason: '5000 of 6000 are due' }))
  w.completeJob()
  await w.settle()
  return { w, first }
}

t.test(
  'after a run that asks for a confirmation, the operator starts none until an administrator confirms',
  async (t) => {
    const { w, first } = await askingWorld()
    t.match(w.ready(), { status: 'False', reason: 'ConfirmationRequired', message: new RegExp(`confirm-run=${first}`) })
    w.minutes(20)
    await w.settle()
    t.equal(w.jobs().length, 1, 'its slots pass')
    t.equal(w.status().nextRun, undefined)
    w.annotate(CONFIRM_RUN, 'trash-1')
    await w.settle()
    t.match(w.status().lastConfirmation, { value: 'trash-1', answer: /^Refused: there is no run of this name/ })
    w.annotate(CONFIRM_RUN, first)
    await w.settle()
    const { active = '' } = w.status()
    t.match(w.run(active), { confirmed: true, confirmedDue: 5000 })
    t.match(w.status().lastConfirmation, { value: first, answer: `Started run ${active}` })
    w.completeJob(active)
    await w.settle()
    t.match(w.status().active, /^trash-\d+$/, 'the schedule goes on, and makes up for the slots that passed')
    t.match(w.run(w.status().active), { confirmed: false, confirmedDue: undefined })
  },
)

t.test('a confirmation is of the last run, and of the rules that it had', async (t) => {
  const { w, first } = await askingWorld()
  w.edit({ spec: { rules: [{ after: 'P1D', action: 'purge' }] }, metadata: { generation: 2 } })
  w.annotate(CONFIRM_RUN, first)
  await w.settle()
  t.match(w.status().lastConfirmation, { value: first, answer: /^Refused: the policy was edited since this run/ })
  for (const job of w.jobs()) t.match(w.run(job.metadata.name), { confirmed: false })
})

t.test('a confirmed run that finds more than was confirmed asks again, with the new number', async (t) => {
  const { w, first } = await askingWorld()
  w.annotate(CONFIRM_RUN, first)
  await w.settle()
  const { active: second = '' } = w.status()
  w.addPod('b', second)
  w.endPod('b', aResult({ due: 9000, ended: 'ConfirmationRequired', reason: '9000 are due, and 5000 were confirmed' }))
  w.completeJob(second)
  await w.settle()
  t.match(w.ready(), { reason: 'ConfirmationRequired', message: new RegExp(`9000.*confirm-run=${second}`) })
  w.annotate(CONFIRM_RUN, second)
  await w.settle()
  t.match(w.run(w.status().active), { confirmed: true, confirmedDue: 9000 })
})

// ---------------------------------------------------------------- pods that are taken away, or cannot start

t.test('a run of which a pod was evicted goes on, and the next pod says how it ended', async (t) => {
  const w = retentionWorld()
  w.minutes(0)
  await w.settle()
  const { name } = w.job().metadata
  w.addPod('a')
  w.evictPod('a', aResult({ purged: 4, due: 9, ended: 'Stopped' }))
  await w.settle()
  t.match(w.status(), { active: name, lastRun: undefined, runs: [{ name, purged: 4 }] })
  t.match(w.ready(), { status: 'True', reason: 'Running' })
  w.addPod('b')
  w.blockPod('b', 'ImagePullBackOff', 'no such image')
  await w.settle()
  t.match(w.ready(), { status: 'False', reason: 'ImagePullBackOff' }, 'the one that has ended hides nothing')
  w.endPod('b', aResult({ purged: 4, due: 9, ended: 'StoreUnavailable', reason: 'away' }))
  w.completeJob()
  await w.settle()
  t.match(w.status().lastRun, { name, purged: 4, ended: 'StoreUnavailable', reason: 'away' }, 'not as the first one')
})

t.test('a run whose pods gave up too often has failed, and says why', async (t) => {
  const w = retentionWorld()
  w.minutes(0)
  await w.settle()
  w.addPod('a')
  w.endPod('a', aResult({ purged: 2, ended: 'Stopped', reason: 'nothing had come to an end' }), 20)
  w.setJob({ conditions: [{ type: 'Failed', status: 'True', reason: 'BackoffLimitExceeded', message: 'too many' }] })
  await w.settle()
  t.match(w.status().lastRun, {
    purged: 2,
    ended: 'Failed',
    reason: 'BackoffLimitExceeded: too many. nothing had come to an end',
  })
  t.match(w.ready(), { status: 'False', reason: 'RunFailed' })
  w.minutes(10)
  await w.settle()
  t.match(w.status().active, `trash-${minutesOf(w.firstSlot) + 10}`, 'the next slot starts anew')
})

const fixed = { ...template, spec: { ...template.spec, containers: [{ name: 'retention', image: 'keepsake:2' }] } }
/** A run whose pod cannot start. */
async function blockedWorld(reason = 'ImagePullBackOff') {
  const w = retentionWorld()
  w.minutes(0)
  await w.settle()
  const { name } = w.job().metadata
  w.addPod('a')
  w.blockPod('a', reason, 'no such image')
  await w.settle()
  return { w, name }
}

t.test('a run that cannot start says why, and another takes its place once the template has changed', async (t) => {
  const { w, name } = await blockedWorld()
  t.match(w.ready(), { status: 'False', reason: 'ImagePullBackOff', message: `Run ${name} waits: no such image` })
  w.minutes(55)
  await w.settle()
  t.strictSame(
    w.jobs().map((j) => j.metadata.name),
    [name],
    'it may start yet',
  )

  const next = w.replica(w.cluster, fixed)
  for (let i = 0; i < 4; i++) await next.once()
  const [job] = w.jobs()
  const { active = '' } = w.status()
  t.strictSame(
    w.jobs().map((j) => j.metadata.name),
    [active],
  )
  t.match(active, /^trash-r[0-9a-f]{8}$/)
  t.match(job?.spec, { template: { spec: { containers: [{ image: 'keepsake:2' }] } } })
  t.match(w.run(active), { run: active, slot: w.firstSlot.toISOString(), confirmed: false })
  const reason = `ImagePullBackOff: no such image; the template of pods has changed since, and run ${active} takes its place`
  t.match(w.status(), {
    lastRun: { name, ended: 'Failed', reason },
    runs: [{ name: active }, { name, ended: 'Failed' }],
  })
  t.match(w.ready(), { status: 'True', reason: 'Running' })
  t.match(
    w.events.filter((e) => e.reason === 'RunFailed'),
    [{ type: 'Warning' }],
  )
  t.equal(w.recorded.length, 1)
  t.strictSame(w.errors, [])

  w.addPod('b', active)
  w.endPod('b', aResult({ purged: 3 }))
  w.completeJob(active)
  for (let i = 0; i < 4; i++) await next.once()
  t.match(
    w.status().runs?.find((r) => r.name === active),
    { ended: 'Finished', purged: 3 },
  )
  t.match(w.status().active, `trash-${minutesOf(w.firstSlot) + 50}`, 'the slots that passed are made up for')
})

t.test('the run that takes its place begins with figures of its own', async (t) => {
  const w = retentionWorld()
  w.minutes(0)
  await w.settle()
  w.addPod('a')
  w.evictPod('a', aResult({ purged: 4, due: 9, ended: 'Stopped' }))
  w.addPod('b')
  w.blockPod('b', 'ImagePullBackOff', 'no such image')
  await w.settle()
  const next = w.replica(w.cluster, fixed)
  for (let i = 0; i < 4; i++) await next.once()
  const { active = '' } = w.status()
  const figures = () => w.status().runs?.find((r) => r.name === active)
  t.match(active, /^trash-r/)
  t.notOk(figures()?.purged)
  t.notOk(figures()?.due)
  w.addPod('c', active)
  w.endPod('c', aResult({ purged: 3 }))
  w.completeJob(active)
  for (let i = 0; i < 4; i++) await next.once()
  t.match(figures(), { ended: 'Finished', purged: 3 })
})

t.test(
  'whichever write of a replacement is lost, or its answer: one run in its place, both recorded once',
  async (t) => {
    const replace = async (w: Awaited<ReturnType<typeof blockedWorld>>['w']) => {
      const next = w.replica(w.cluster, fixed)
      for (let i = 0; i < 6; i++) await next.once()
    }
    const whole = await blockedWorld()
    const before = whole.w.writes.length
    await replace(whole.w)
    const { length } = whole.w.writes
    t.equal(length - before, 3, whole.w.writes.slice(before).join(', '))
    for (let at = 1; at <= length - before; at++) {
      for (const when of ['before', 'after'] satisfies Fault[]) {
        const { w, name } = await blockedWorld()
        w.failWrite(w.writes.length + at, when)
        await replace(w)
        const what = `${whole.w.writes[before + at - 1]} ${when}`
        t.equal(w.errors.length, 1, `${what}: the fault`)
        const { active = '', runs = [] } = w.status()
        t.strictSame(
          w.jobs().map((j) => j.metadata.name),
          [active],
          what,
        )
        t.strictSame(
          runs.map((r) => [r.name, r.ended]),
          [
            [active, undefined],
            [name, 'Failed'],
          ],
          what,
        )
        // A status whose answer is lost counts in no metric.
        t.ok(w.recorded.length <= 1, what)
      }
    }
  },
)

t.test('two processes that both lead put one run in the place of another', async (t) => {
  const { w } = await blockedWorld()
  const [one, two] = [w.replica(w.cluster, fixed), w.replica(w.cluster, fixed)]
  for (let i = 0; i < 6; i++) await Promise.all([one.once(), two.once()])
  t.strictSame(
    w.jobs().map((j) => j.metadata.name),
    [w.status().active],
  )
  t.equal(w.status().runs?.length, 2)
})

t.test('a run that works, waits for its turn, or is stopped keeps its template', async (t) => {
  const working = await blockedWorld()
  working.w.addPod('b')
  const queued = retentionWorld()
  queued.minutes(0)
  await queued.settle()
  const stopped = await blockedWorld()
  stopped.w.edit({ spec: { suspend: true } })
  // Also by a person.
  const held = await blockedWorld()
  held.w.store.patch(JOBS, { namespace: 'media', name: held.name }, { spec: { suspend: true } })
  for (const w of [working.w, queued, stopped.w, held.w]) {
    const next = w.replica(w.cluster, fixed)
    for (let i = 0; i < 4; i++) await next.once()
    t.strictSame(
      w.jobs().map((j) => j.metadata.name),
      [`trash-${minutesOf(w.firstSlot)}`],
    )
  }
  t.match(stopped.w.job().spec.suspend, true)
})

t.test('the run in the place of a confirmed one is confirmed, unless the policy was edited', async (t) => {
  for (const isEdited of [false, true]) {
    const { w, first } = await askingWorld()
    w.annotate(CONFIRM_RUN, first)
    await w.settle()
    const { active: second = '' } = w.status()
    w.addPod('b', second)
    w.blockPod('b', 'CreateContainerConfigError', 'no such Secret')
    if (isEdited) w.edit({ spec: { rules: [{ after: 'P1D', action: 'purge' }] }, metadata: { generation: 2 } })
    await w.settle()
    const next = w.replica(w.cluster, fixed)
    for (let i = 0; i < 4; i++) await next.once()
    const { active = '' } = w.status()
    t.not(active, second)
    t.match(
      w.run(active),
      isEdited ? { confirmed: false, rules: [{ after: 'P1D' }] } : { confirmed: true, confirmedDue: 5000 },
    )
  }
})

t.test('a run is over once a pod has said so, though another pod of it can never start', async (t) => {
  const w = retentionWorld({ spec: { parallelism: 2 } })
  w.minutes(0)
  await w.settle()
  const { name } = w.job().metadata
  for (const pod of ['a', 'b']) w.addPod(pod)
  w.blockPod('b', 'ImagePullBackOff')
  w.endPod('a', aResult({ purged: 5 }))
  await w.settle()
  t.match(w.status().active, name, 'the Job has not counted it yet')
  w.setJob({ succeeded: 1 })
  await w.settle()
  t.match(w.status(), { active: undefined, lastRun: { name, purged: 5, ended: 'Finished' } })
  t.strictSame(w.jobs(), [])
})

t.test('a window keeps a slot waiting, and ends what starts in it', async (t) => {
  const w = retentionWorld({ spec: { schedule: EVERY_TEN } })
  const hhmm = (minutes: number) => new Date(w.firstSlot.getTime() + minutes * 60_000).toISOString().slice(11, 16)
  w.edit({ spec: { window: { from: hhmm(35), to: hhmm(50) } } })
  w.minutes(12)
  await w.settle()
  t.strictSame(w.jobs(), [])
  t.equal(Date.parse(w.status().nextRun ?? ''), w.firstSlot.getTime() + 35 * 60_000)
  t.match(await w.once(), { requeueAfterMs: 600_000 })
  w.minutes(35)
  await w.settle()
  t.match(w.run(), { until: new Date(w.firstSlot.getTime() + 50 * 60_000).toISOString() })
  t.match(w.status(), { lastScheduleTime: new Date(w.firstSlot.getTime() + 30 * 60_000).toISOString() })
})

t.test('a Job of that name that is another owner’s is said in status, and the next slot starts', async (t) => {
  const w = retentionWorld()
  await w.settle()
  const name = `trash-${minutesOf(w.firstSlot)}`
  w.store.create(JOBS, {
    metadata: { name, namespace: 'media' },
    spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'i' }] } } },
  } as KubeObject)
  w.minutes(0)
  await w.settle()
  t.match(w.ready(), { status: 'False', reason: 'NameTaken', message: new RegExp(name) })
  t.match(await w.once(), { requeueAfterMs: 300_000 })
  w.minutes(10)
  await w.settle()
  t.match(w.status(), { active: `trash-${minutesOf(w.firstSlot) + 10}` })
})

t.test('what keeps the Job from being created is said in status, and tried again', async (t) => {
  for (const [error, reason] of [
    ['Forbidden', 'JobForbidden'],
    ['Invalid', 'JobRejected'],
  ] as const) {
    const w = retentionWorld()
    const { create } = w.cluster
    w.minutes(0)
    w.cluster.create = async () => {
      throw new ClusterError(error, 'exceeded quota')
    }
    await w.settle()
    t.match(w.ready(), { status: 'False', reason, message: 'exceeded quota' })
    w.cluster.create = create
    await w.settle()
    t.match(w.ready(), { status: 'True', reason: 'Running' })
  }
})

t.test('a policy that cannot be carried out says why', async (t) => {
  const bad = retentionWorld({ spec: { schedule: '0 0 31 2 *' } })
  await bad.settle()
  t.match(bad.ready(), { status: 'False', reason: 'BadSchedule', message: /impossible day/ })
  const none = retentionWorld({ template: undefined })
  none.minutes(5)
  await none.settle()
  t.match(none.ready(), { status: 'False', reason: 'NoTemplate', message: /RETENTION_TEMPLATE_FILE/ })
  t.strictSame(none.jobs(), [])
})

t.test('names of policies that no Job could have give names of their own', async (t) => {
  const long = `${'long.name.'.repeat(20)}z`
  for (const name of [long, 'a.b', 'a-b', 'a'.repeat(63)]) {
    const w = retentionWorld({ metadata: { name } })
    w.minutes(0)
    await w.settle()
    const { name: job } = w.job().metadata
    t.ok(job.length <= 63, job)
    t.match(job, /^[a-z0-9-]+$/)
    if (name === 'a.b') t.match(job, /^a-b-[0-9a-f]{8}-\d+$/, 'unlike that of a-b')
  }
})

t.test('the template keeps its environment, and RETENTION_RUN is the run’s', async (t) => {
  const [container] = template.spec.containers
  const env = [
    { name: 'RETENTION_RUN', value: '{}' },
    { name: 'LOG_LEVEL', value: 'debug' },
  ]
  const spec = { ...template.spec, containers: [{ name: 'retention', ...container, env }, { name: 'beside' }] }
  const w = retentionWorld({ template: { ...template, spec } })
  w.minutes(0)
  await w.settle()
  const { containers } = w.job().spec.template.spec
  t.strictSame(
    containers[0]?.env.map((e) => e.name),
    ['LOG_LEVEL', 'RETENTION_RUN'],
  )
  t.match(containers[1], { name: 'beside', env: undefined })
})
