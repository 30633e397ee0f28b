import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { RETENTION_POLICIES, RUN_REQUESTED } from '../../../crds/retention-policy.ts'
import { loadConfig } from '../../../lib/runtime/config.ts'
import { EVENTS_V1, JOBS, type KubeObject, PODS } from '../../../lib/runtime/kube/cluster.ts'
import { openLocalCluster } from '../../../local/cluster/local-cluster.ts'
import { OperatorConfig } from '../../../operator/config.ts'
import type { Job, Pod } from '../../../operator/jobs/batch.ts'
import { startOperator } from '../../../operator/operator.ts'
import type { RawPolicy } from '../../../operator/retention-policy/resources.ts'
import type { PodTemplate } from '../../../operator/retention-policy/template.ts'
import { eventually } from '../../support/eventually.ts'
import { operatorEnv } from '../../support/operator-world.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { newRetentionPolicy } from '../../support/retention-policy.ts'
import { aResult } from '../../support/retention-world.ts'

const namespace = 'media'
const key = { namespace, name: 'trash' }

/** An operator and pods that are processes, which run `script` with TOTAL, the result of a run that finished. */
async function open(t: Test, script: string, spec: object = {}) {
  const total = JSON.stringify(aResult({ purged: 9, bytes: 90, due: 9 }))
  const stopped = JSON.stringify(aResult({ purged: 4, bytes: 40, due: 9, ended: 'Stopped' }))
  const cluster = openLocalCluster({ maxPods: 4, backoffBaseMs: 10, closeGraceSeconds: 0 })
  const template: PodTemplate = {
    spec: {
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 10,
      containers: [
        {
          name: 'retention',
          command: ['sh', '-c', script],
          env: [
            { name: 'TOTAL', value: total },
            { name: 'STOPPED', value: stopped },
          ],
        },
      ],
    },
  }
  const config = loadConfig(OperatorConfig, operatorEnv({ LEADER_ELECTION: 'false' }))
  const operator = await startOperator({ config, cluster, log: quietLog(), retentionTemplate: template })
  t.teardown(async () => {
    await operator.close()
    await cluster.close()
  })
  // Its schedule has no slot during the test: a person asks for the run.
  const policy = newRetentionPolicy({
    metadata: { ...key, annotations: { [RUN_REQUESTED]: new Date().toISOString() } },
    spec: { schedule: '0 0 29 2 *', ...spec },
  })
  await cluster.create(RETENTION_POLICIES, policy as unknown as KubeObject)
  const status = async () => (await cluster.get<RawPolicy>(RETENTION_POLICIES, key))?.status
  return {
    cluster,
    operator,
    status,
    jobs: () => cluster.list<Job>(JOBS, { namespace }),
    pods: () => cluster.list<Pod>(PODS, { namespace }),
    lastRun: () => eventually('the end of the run', async () => (await status())?.lastRun),
    running: (count: number) =>
      eventually(`${count} pods that wait for a signal`, async () => {
        const pods = await cluster.list<Pod>(PODS, { namespace })
        const ready = pods.filter((p) => p.status?.phase === 'Running' && logOf(p).includes('ready'))
        return ready.length === count
      }),
  }
  function logOf({ metadata }: Pod): string {
    try {
      return cluster.logs({ namespace, name: metadata.name })
    } catch {
      return '' // it is just starting
    }
  }
}

/** Ends in good order when it is told to, and says what it did. */
const WAITS = `trap 'printf %s "$STOPPED" > $TERMINATION_LOG; exit 143' TERM; echo ready; while :; do sleep 0.05; done`

t.test('pods of one queue run together; a crash is replaced, and the result recorded', async (t) => {
  const mark = join(tmpdir(), `retention-${randomUUID()}`)
  t.teardown(() => rm(mark, { recursive: true, force: true }))
  // The first one crashes.
  const script = `mkdir ${mark} && exit 1; printf %s "$TOTAL" > $TERMINATION_LOG`
  const w = await open(t, script, { parallelism: 2 })
  t.match(await w.lastRun(), { ended: 'Finished', purged: 9, bytes: 90, due: 9, finished: String })
  const [job] = await w.jobs()
  t.match(job, { spec: { parallelism: 2, completions: undefined }, status: { failed: 1 } })
  const metrics = await (await fetch(w.operator.metricsUrl)).text()
  t.match(metrics, /keepsake_retention_items_total\{target="MediaTrash",result="purged"\} 9/)
  t.match(metrics, /keepsake_retention_runs_total\{target="MediaTrash",ended="Finished"\} 1/)
  t.match(metrics, /keepsake_retention_policy_ready\{namespace="media",policy="trash",target="MediaTrash"\} 1/)
  t.match(metrics, /keepsake_retention_last_finished_timestamp_seconds\{[^}]+\} \d{10}/)
  await eventually('its events', async () => {
    const events = await w.cluster.list<KubeObject & { reason: string }>(EVENTS_V1, { namespace })
    return ['RunStarted', 'RunFinished'].every((reason) => events.some((e) => e.reason === reason))
  })
})

t.test('a pod that is taken away is replaced, and the run goes on', async (t) => {
  const w = await open(t, WAITS)
  await w.running(1)
  const [first] = await w.pods()
  await w.cluster.delete(PODS, { namespace, name: first?.metadata.name ?? '' })
  const isAnother = async () => (await w.pods()).find((p) => p.status?.phase === 'Running')?.metadata.uid
  await eventually('another pod', async () => ![undefined, first?.metadata.uid].includes(await isAnother()))
  const { active, lastRun, runs } = (await w.status()) ?? {}
  t.match([lastRun, runs], [undefined, [{ name: active, ended: undefined, purged: 4 }]])
})

t.test('suspend lets the pods end by themselves and records what they did', async (t) => {
  const w = await open(t, WAITS, { parallelism: 2 })
  await w.running(2)
  await w.cluster.patch(RETENTION_POLICIES, key, { spec: { suspend: true } })
  t.match(await w.lastRun(), { ended: 'Stopped', purged: 4, bytes: 40 })
  await eventually('no Job and no pod', async () => (await w.jobs()).length + (await w.pods()).length === 0)
  t.match((await w.status())?.conditions, [{ status: 'False', reason: 'Suspended' }])
})

t.test('a policy that is deleted goes after its pods', async (t) => {
  const w = await open(t, WAITS)
  await w.running(1)
  const seen: { ended: boolean }[] = []
  const reflection = w.cluster.reflect<RawPolicy>(RETENTION_POLICIES, {
    onSet() {},
    onDelete: ({ status }) => void seen.push({ ended: status?.lastRun?.ended === 'Stopped' }),
  })
  await reflection.synced()
  await w.cluster.delete(RETENTION_POLICIES, key)
  await eventually('its end', () => seen.length > 0)
  t.strictSame(seen, [{ ended: true }])
  await eventually('no Job and no pod', async () => (await w.jobs()).length + (await w.pods()).length === 0)
})
