import { randomBytes } from 'node:crypto'
import { KubeConfig } from '@kubernetes/client-node'
import { succeededOf } from '../../../crds/run.ts'
import { TRANSCODE_JOBS, type TranscodeJob } from '../../../crds/transcode-job.ts'
import { JOBS, PODS } from '../../../lib/runtime/kube/cluster.ts'
import { type KubeCluster, openKubeCluster } from '../../../lib/runtime/kube/kube-cluster.ts'
import type { Job, Pod } from '../../../operator/jobs/batch.ts'
import { transcodeJob } from '../../../operator/transcode-job/kind.ts'
import { eventually } from '../../support/eventually.ts'
import { quietLog } from '../../support/quiet-log.ts'
import type { TestCluster } from '../driver/cluster.ts'
import type { Owner } from './services.ts'

/** A namespace of its own, with what a test asks of it. */
export interface Namespace {
  name: string
  kube: KubeCluster
  /** kubectl in this namespace. */
  kubectl(...args: string[]): Promise<string>
  apply(...objects: object[]): Promise<void>
  secret(name: string, data: Record<string, string>): Promise<void>
  resource(name: string): Promise<TranscodeJob | undefined>
  jobsOf(resource: string): Promise<Job[]>
  podsOf(resource: string): Promise<PodSeen[]>
  /** The resource as soon as `is` says so; otherwise an error that says how far it came. */
  until(name: string, what: string, is: (resource: TranscodeJob) => unknown, ms?: number): Promise<TranscodeJob>
  untilFinished(name: string, ms?: number): Promise<TranscodeJob>
  /** A pod of the resource whose program runs. */
  runningPod(resource: string, ms?: number): Promise<PodSeen>
  events(resource: string): Promise<EventSeen[]>
  /** An event that there is or that comes: the operator writes status first, and events leave the API server to others. */
  told(resource: string, what: string, is: (event: EventSeen) => boolean): Promise<EventSeen>
}

export interface EventSeen {
  type: string
  reason: string
  note: string
}

export type PodSeen = Pod & {
  spec: { containers: { image: string; resources: { limits?: Record<string, string> } }[] }
}

/** For what takes seconds on an idle machine, and minutes on one that others use too. */
const LOOK_MS = 400_000

export async function makeNamespace(owner: Owner, cluster: TestCluster, prefix: string): Promise<Namespace> {
  const name = `${prefix}-${randomBytes(3).toString('hex')}`
  await cluster.kubectl('create', 'namespace', name)
  const config = new KubeConfig()
  config.loadFromFile(cluster.kubeconfig)
  const kube = openKubeCluster({ log: quietLog(), config, perSecond: 100, burst: 200 })
  // Waited for: what is left of it would take the node's two cores from whoever comes next.
  owner.teardown(async () => {
    await kube.close()
    await cluster.kubectl('delete', 'namespace', name, '--timeout=300s')
  })
  return namespaceCalled(name, cluster, kube)
}

function namespaceCalled(name: string, cluster: TestCluster, kube: KubeCluster): Namespace {
  const kubectl = (...args: string[]) => cluster.kubectl('-n', name, ...args)
  const apply = async (...objects: object[]) => {
    const list = { apiVersion: 'v1', kind: 'List', items: objects }
    await cluster.kubectlIn(JSON.stringify(list), '-n', name, 'apply', '--server-side', '-f', '-')
  }
  const resource = (of: string) => kube.get<TranscodeJob>(TRANSCODE_JOBS, { namespace: name, name: of })
  const belongsTo = (of: string) => (o: Job | Pod) => o.metadata.annotations?.[transcodeJob.ownerAnnotation] === of
  const jobsOf = async (of: string) => (await kube.list<Job>(JOBS, { namespace: name })).filter(belongsTo(of))
  const podsOf = async (of: string) => (await kube.list<PodSeen>(PODS, { namespace: name })).filter(belongsTo(of))

  async function until(of: string, what: string, is: (r: TranscodeJob) => unknown, ms = LOOK_MS) {
    let seen: TranscodeJob | undefined
    const look = async () => {
      seen = await resource(of)
      return seen && is(seen) ? seen : undefined
    }
    try {
      return await eventually(what, look, ms, 200)
    } catch (error) {
      const pods = (await podsOf(of)).map((p) => p.status)
      throw new Error(`${what}: ${JSON.stringify({ status: seen?.status, pods }, undefined, 1)}`, { cause: error })
    }
  }

  async function events(of: string): Promise<EventSeen[]> {
    const text = await kubectl('get', 'events.events.k8s.io', '-o', 'json')
    const { items } = JSON.parse(text) as { items: (EventSeen & { regarding: { name: string } })[] }
    return items.filter((e) => e.regarding.name === of).map(({ type, reason, note }) => ({ type, reason, note }))
  }

  return {
    name,
    kube,
    kubectl,
    apply,
    secret: (of, stringData) => apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name: of }, stringData }),
    resource,
    jobsOf,
    podsOf,
    until,
    untilFinished: (of, ms) =>
      until(of, `${of} finished`, (r) => succeededOf(r.status)?.status !== 'Unknown' && succeededOf(r.status), ms),
    runningPod: (of, ms = LOOK_MS) =>
      eventually(
        `a running pod of ${of}`,
        async () => (await podsOf(of)).find((p) => p.status?.phase === 'Running'),
        ms,
        50,
      ),
    events,
    told: (of, what, is) => eventually(`the event ${what}`, async () => (await events(of)).find(is), LOOK_MS, 200),
  }
}
