import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseTranscodeJob, TRANSCODE_JOBS, type TranscodeJob } from '../../crds/transcode-job.ts'
import { type Cluster, JOBS, type KubeObject, PODS } from '../../lib/runtime/kube/cluster.ts'
import type { Job, Pod } from '../../operator/jobs/batch.ts'
import { OUR_LABELS } from '../../operator/jobs/labels.ts'
import { childJob, type ProgramConfig } from '../../operator/program/child.ts'
import { plan } from '../../operator/program/plan.ts'
import { STATUS_MANAGER } from '../../operator/program/writer.ts'
import { transcodeJob } from '../../operator/transcode-job/kind.ts'

/** A resource as the API makes it for an uploaded video. */
export function newResource(namespace: string): KubeObject {
  const [org, id] = [randomUUID(), randomUUID()]
  const prefix = `org/${org}/media/${id}`
  const input = { id, type: 'video', sourceKey: `${prefix}/original`, outputPrefix: `${prefix}/v1/` }
  const labels = { 'app.kubernetes.io/name': 'keepsake', 'media.keepsake.dev/organization': org }
  return { metadata: { name: `media-${id}`, namespace, labels }, spec: { inputs: [input], priority: 'interactive' } }
}

/** Does `n` things, `width` at a time. */
export async function many(n: number, width: number, one: (i: number) => Promise<unknown>): Promise<void> {
  let next = 0
  await Promise.all(
    Array.from({ length: width }, async () => {
      while (next < n) await one(next++)
    }),
  )
}

/** New resources at an even rate, however long each takes. */
export async function atRate(cluster: Cluster, namespace: string, n: number, perSecond: number): Promise<void> {
  const startedAt = performance.now()
  const made: Promise<unknown>[] = []
  for (let i = 0; i < n; i++) {
    await sleep(Math.max(0, startedAt + (i * 1000) / perSecond - performance.now()))
    made.push(cluster.create(TRANSCODE_JOBS, newResource(namespace)))
  }
  await Promise.all(made)
}

const RESULT = JSON.stringify({ ok: true, accelerator: 'cpu' })
const image = { name: 'media', image: 'localhost/keepsake:dev', imageID: 'sha256:0', restartCount: 0 }
const at = () => `${new Date().toISOString().slice(0, -5)}Z`
export const runningPod = () => ({
  phase: 'Running',
  startTime: at(),
  containerStatuses: [{ ...image, ready: true, started: true, state: { running: { startedAt: at() } } }],
})
export const succeededPod = () => {
  const terminated = { exitCode: 0, reason: 'Completed', message: RESULT, startedAt: at(), finishedAt: at() }
  return { phase: 'Succeeded', startTime: at(), containerStatuses: [{ ...image, ready: false, state: { terminated } }] }
}

export interface Kubelet {
  /** How many resources have come to their success. */
  succeeded: number
  /** Milliseconds from the moment at which a watcher sees a Job complete until it sees its resource's condition. */
  recorded: number[]
  /** And how many were seen to wait for their pod before that. */
  waited: number
  stop(): Promise<void>
}

/** Sooner no container ever starts. */
const START_MS = 500

/** Where there is no node: says of every pod that it runs, and a little later that it has succeeded. */
export function kubeletOf(cluster: Cluster, namespace: string, runMs: number): Kubelet {
  const kubelet = {
    succeeded: 0,
    waited: 0,
    recorded: [] as number[],
    stop: async () => void (await Promise.all([pods.stop(), jobs.stop(), resources.stop()])),
  }
  const completedAt = new Map<string, number>()
  const play = async ({ metadata }: KubeObject) => {
    const key = { namespace, name: metadata.name }
    await sleep(START_MS)
    await cluster.applyStatus(PODS, key, runningPod(), 'bench-kubelet')
    await sleep(runMs)
    await cluster.applyStatus(PODS, key, succeededPod(), 'bench-kubelet')
  }
  const pods = cluster.reflect<KubeObject>(
    PODS,
    {
      onSet(object, old) {
        if (!old) play(object).catch((error: unknown) => console.error(error))
      },
      onDelete() {},
    },
    { namespace, labelSelector: OUR_LABELS, trim: ({ metadata }) => ({ metadata }) },
  )
  const jobs = cluster.reflect<Job>(
    JOBS,
    {
      onSet({ metadata, status }) {
        const owner = metadata.ownerReferences?.[0]?.uid ?? ''
        const isComplete = status?.conditions?.some((c) => c.type === 'Complete' && c.status === 'True')
        if (isComplete && !completedAt.has(owner)) completedAt.set(owner, performance.now())
      },
      onDelete() {},
    },
    {
      namespace,
      labelSelector: OUR_LABELS,
      trim: ({ metadata, status }) => ({ metadata, spec: {}, ...(status && { status }) }),
    },
  )
  const phaseOf = (object: KubeObject | undefined) => (object?.status as TranscodeJob['status'])?.phase
  const resources = cluster.reflect<KubeObject>(
    TRANSCODE_JOBS,
    {
      onSet(object, old) {
        if (phaseOf(object) === 'Succeeded' && phaseOf(old) !== 'Succeeded') {
          kubelet.succeeded += 1
          const completed = completedAt.get(object.metadata.uid ?? '')
          // Two watches are two connections: a resource that is seen before its Job gives no figure.
          if (completed !== undefined) kubelet.recorded.push(performance.now() - completed)
        }
        if (phaseOf(object) === 'Pending' && phaseOf(old) !== 'Pending') kubelet.waited += 1
      },
      onDelete() {},
    },
    { namespace, trim: ({ metadata, status }) => ({ metadata, status }) },
  )
  return kubelet
}

/**
 * A namespace as a long-lived installation has it, made without the operator: every second resource is running, the
 * others have succeeded; each with its Job and its pod.
 */
export async function fill(cluster: Cluster, namespace: string, n: number, config: ProgramConfig): Promise<void> {
  await many(n, 48, async (i) => {
    const resource = await cluster.create<KubeObject>(TRANSCODE_JOBS, newResource(namespace))
    const parsed = parseTranscodeJob(resource)
    if ('problem' in parsed) throw new Error(parsed.problem)
    const made = await cluster.create<Job>(JOBS, childJob(transcodeJob, parsed.resource, 1, config))
    const template = made.spec['template'] as { metadata: object; spec: object }
    const ownerReferences = [
      { apiVersion: 'batch/v1', kind: 'Job', name: made.metadata.name, uid: made.metadata.uid ?? '', controller: true },
    ]
    const metadata = { ...template.metadata, name: `${made.metadata.name}-pod`, namespace, ownerReferences }
    await cluster.create(PODS, { metadata, spec: template.spec })
    await advance(cluster, parsed.resource, made, metadata.name, 'Running', config)
    if (i % 2 === 0) await advance(cluster, parsed.resource, made, metadata.name, 'Succeeded', config)
  })
}

async function advance(
  cluster: Cluster,
  resource: TranscodeJob,
  made: Job,
  podName: string,
  phase: 'Running' | 'Succeeded',
  config: ProgramConfig,
): Promise<void> {
  const { namespace } = resource.metadata
  const name = made.metadata.name
  const podStatus = phase === 'Running' ? runningPod() : succeededPod()
  const startTime = (made.status?.startTime ?? at()) as string
  const running = { active: 1, ready: 1, startTime, uncountedTerminatedPods: {} }
  const jobStatus = phase === 'Running' ? running : done(startTime)
  const pod = await cluster.applyStatus<Pod>(PODS, { namespace, name: podName }, podStatus, 'bench-kubelet')
  const job = await cluster.applyStatus<Job>(JOBS, { namespace, name }, jobStatus, 'bench-controller')
  if (phase === 'Succeeded') await cluster.patch(JOBS, { namespace, name }, { spec: { ttlSecondsAfterFinished: 3600 } })
  const next = plan({
    kind: transcodeJob,
    resource,
    job,
    pods: [pod],
    leftovers: [],
    helpers: [],
    config,
    now: new Date(),
  })
  const after = await cluster.applyStatus<KubeObject>(
    TRANSCODE_JOBS,
    { namespace, name: resource.metadata.name },
    { ...next.status, ...next.progress },
    STATUS_MANAGER,
  )
  made.status = job.status ?? {}
  resource.status = after.status as NonNullable<TranscodeJob['status']>
}

const done = (startTime: string) => {
  const condition = (type: string) => ({
    type,
    status: 'True',
    reason: 'CompletionsReached',
    message: 'Reached expected number of succeeded pods',
    lastProbeTime: at(),
    lastTransitionTime: at(),
  })
  const conditions = [condition('SuccessCriteriaMet'), condition('Complete')]
  return { succeeded: 1, ready: 0, startTime, completionTime: at(), uncountedTerminatedPods: {}, conditions }
}
