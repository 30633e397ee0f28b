import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { JOBS, PODS } from '../../lib/runtime/kube/cluster.ts'
import { type LocalClusterOptions, openLocalCluster } from '../../local/cluster/local-cluster.ts'
import { conditionIn, type Job, type Pod } from '../../local/cluster/types.ts'
import { eventually } from './eventually.ts'

const NAMESPACE = 'test'

/** A folder that is removed when the test ends. */
export async function testFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-jobs-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  return folder
}

/** A Job in the shape the operator writes; `container` and `pod` and `spec` change it. */
export function aJob(
  name: string,
  script: string,
  more: { spec?: object; pod?: object; container?: object } = {},
): Job {
  const rules = [
    { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] },
    { action: 'FailJob', onExitCodes: { containerName: 'main', operator: 'In', values: [10, 11, 12, 13] } },
  ]
  const main = { name: 'main', image: 'none', command: ['sh', '-c', script], ...more.container }
  const spec = { restartPolicy: 'Never', terminationGracePeriodSeconds: 5, containers: [main], ...more.pod }
  return {
    metadata: { name, namespace: NAMESPACE },
    spec: { backoffLimit: 1, podFailurePolicy: { rules }, template: { spec }, ...more.spec } as unknown as Job['spec'],
  }
}

/** A fast local cluster of its own for one test, and the few words that tests about Jobs need. */
export function jobCluster(t: Test, options: LocalClusterOptions = {}) {
  const cluster = openLocalCluster({ maxPods: 2, backoffBaseMs: 10, closeGraceSeconds: 0, ...options })
  t.teardown(() => cluster.close())
  const key = (name: string) => ({ namespace: NAMESPACE, name })
  const job = (name: string) => cluster.get<Job>(JOBS, key(name))
  const pods = (name: string) =>
    cluster.list<Pod>(PODS, { namespace: NAMESPACE, labelSelector: `batch.kubernetes.io/job-name=${name}` })

  return {
    cluster,
    key,
    job,
    pods,
    create: (...args: Parameters<typeof aJob>) => cluster.create<Job>(JOBS, aJob(...args)),
    patch: (name: string, spec: object) => cluster.patch<Job>(JOBS, key(name), { spec }),
    delete: (name: string) => cluster.delete(JOBS, key(name)),
    /** The Job, once it is over, and its final condition. */
    over: (name: string) =>
      eventually(`the end of ${name}`, async () => {
        const seen = await job(name)
        const conditions = seen?.status?.conditions
        const final = conditionIn(conditions, 'Complete') ?? conditionIn(conditions, 'Failed')
        return seen && final && { job: seen, final, pods: await pods(name) }
      }),
    /** A pod of the Job that matches. */
    pod: (name: string, what: string, matches: (pod: Pod) => boolean) =>
      eventually(`${what}: ${name}`, async () => (await pods(name)).find(matches)),
    /** A running pod of the Job that has written so much. */
    running: (name: string, output = 'ready') =>
      eventually(`a running pod of ${name}`, async () => {
        const running = (await pods(name)).find((p) => p.status?.phase === 'Running' && !p.metadata.deletionTimestamp)
        return running && cluster.logs(key(running.metadata.name)).includes(output) ? running : undefined
      }),
  }
}
