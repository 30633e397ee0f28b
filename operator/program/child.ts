import { hash } from 'node:crypto'
import { API_VERSION, GROUP } from '../../crds/kind.ts'
import { type TranscodeJob, type TranscodeJobSpec, transcodeJobKind } from '../../crds/transcode-job.ts'
import { PERMANENT_EXITS } from '../../lib/contract/job-result.ts'
import { progressToken } from '../../lib/contract/progress.ts'
import { grantFor } from '../../lib/contract/store-proxy.ts'
import type { Job } from '../jobs/batch.ts'
import { nextShape, type Shape, type ShapeConfig, shapeAnnotations } from './shape.ts'

/** The configuration of Jobs that is the same for every TranscodeJob. */
export interface ChildConfig extends ShapeConfig {
  image: string
  /** Secret with the environment of the object store. */
  storeSecret: string
  /** The namespace's default when undefined. */
  serviceAccount?: string | undefined
  progressUrl: string
  progressKey: string
  cpu: string
  /** Of a backfill: cgroups weigh processes by their request, so it gives way where a node is busy. */
  cpuBackfill: string
  /** The maximum for an attempt after others ran out of memory. */
  memoryMax: string
  /** How long `auto` waits for a node with a free GPU before it falls back to the CPU. */
  gpuWaitSeconds: number
  /** Space for the source and all converted files. */
  scratch: string
  logLevel: string
  /** PriorityClass of the pods per `spec.priority`; empty: the cluster's default. */
  priorityClasses: Partial<Record<TranscodeJobSpec['priority'], string>>
  /** Node selector of the pods. */
  nodeSelector: Readonly<Record<string, string>>
  /** Tolerations of the pods. */
  tolerations: readonly object[]
}

export const CONTAINER = 'media'
/** The sidecar that holds the object store's credentials. */
export const STORE_PROXY = 'store-proxy'
export const MANAGED_BY = 'app.kubernetes.io/managed-by'
export const OPERATOR = 'keepsake-operator'
/** Label of Jobs and pods: uid of the custom resource, whose name may be too long for a label. */
export const OWNER_UID = `${GROUP}/owner-uid`
/** Annotation of Jobs and pods: name of the custom resource. */
export const OWNER_NAME = `${GROUP}/transcode-job`
export const OUR_LABELS = `${MANAGED_BY}=${OPERATOR}`

/** Annotation of Jobs: digest of the configuration that they were created from. */
const CONFIGURATION = `${GROUP}/configuration`

/** A digest of all configuration that can keep a pod from starting. */
export function configurationOf(config: ChildConfig): string {
  const { image, storeSecret, serviceAccount, cpu, cpuBackfill, memory, scratch } = config
  const { priorityClasses, nodeSelector, tolerations } = config
  const where = [priorityClasses, nodeSelector, tolerations]
  const said = JSON.stringify([image, storeSecret, serviceAccount, cpu, cpuBackfill, memory, scratch, ...where])
  return hash('sha256', said).slice(0, 16)
}

/** The digest of the configuration that a Job was created from; undefined for Jobs of older operators. */
export const madeOf = ({ metadata }: Job): string | undefined => metadata.annotations?.[CONFIGURATION]

const MAX_NAME = 63
/** Decodes uploads. */
const USER = 10001
/** Holds the store's credentials: another user, so that nothing of it is open to a decoder. */
const PROXY_USER = 10002
/** The folder of the store proxy's socket, in both containers. */
const STORE_FOLDER = '/store'
const STORE_SOCKET = `${STORE_FOLDER}/socket`

/**
 * Name of the Job with this number. It depends on nothing else, so creating it twice is a no-op. It includes the uid,
 * so a re-created resource never finds the Job of its predecessor.
 */
export function childName(resource: TranscodeJob, number: number): string {
  const { name, uid } = resource.metadata
  const digest = hash('sha256', `${uid}/${number}`).slice(0, 8)
  const room = MAX_NAME - 'tj-'.length - digest.length - 1
  const readable = name.replaceAll('.', '-').slice(0, room).replace(/-+$/, '')
  return `tj-${readable}-${digest}`
}

/** The batch/v1 Job of a TranscodeJob. */
export function childJob(resource: TranscodeJob, number: number, config: ChildConfig): Job {
  const { metadata, spec } = resource
  const name = childName(resource, number)
  const shape = nextShape(resource, config)
  const identity = {
    labels: {
      'app.kubernetes.io/name': 'keepsake',
      'app.kubernetes.io/component': 'transcode',
      [MANAGED_BY]: OPERATOR,
      [OWNER_UID]: metadata.uid,
      [`${GROUP}/priority`]: spec.priority,
    },
    annotations: { [OWNER_NAME]: metadata.name },
  }
  const owner = { apiVersion: API_VERSION, kind: transcodeJobKind.kind, name: metadata.name, uid: metadata.uid }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name,
      namespace: metadata.namespace,
      ...identity,
      annotations: { ...identity.annotations, ...shapeAnnotations(shape), [CONFIGURATION]: configurationOf(config) },
      ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: true }],
    },
    spec: {
      suspend: spec.suspend,
      parallelism: 1,
      completions: 1,
      backoffLimit: Math.max(0, spec.maxAttempts - shape.attemptsBefore - 1),
      podReplacementPolicy: 'Failed', // two concurrent attempts would write below the same prefix
      podFailurePolicy: {
        rules: [
          // First, because an evicted pod has an exit code too: a drained node must not count as a failure.
          { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] },
          {
            action: 'FailJob',
            onExitCodes: { containerName: CONTAINER, operator: 'In', values: [...PERMANENT_EXITS] },
          },
        ],
      },
      template: { metadata: identity, spec: podSpec(resource, name, config, shape) },
    },
  }
}

function podSpec(resource: TranscodeJob, jobName: string, config: ChildConfig, { gpu, memory }: Shape) {
  const { spec } = resource
  const { nodeSelector } = config
  const priorityClassName = config.priorityClasses[spec.priority]
  const forGpu = { key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }
  const tolerations = [...config.tolerations, ...(gpu ? [forGpu] : [])]
  return {
    restartPolicy: 'Never',
    // A deadline per pod: the pod fails and keeps its logs. A deadline of the Job would delete the pod.
    activeDeadlineSeconds: spec.attemptDeadlineSeconds,
    terminationGracePeriodSeconds: 30,
    ...(config.serviceAccount && { serviceAccountName: config.serviceAccount }),
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    ...(priorityClassName && { priorityClassName }),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER,
      runAsGroup: USER,
      fsGroup: USER,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    ...(Object.keys(nodeSelector).length > 0 && { nodeSelector }),
    ...(tolerations.length > 0 && { tolerations }),
    initContainers: [storeProxy(resource, config)],
    containers: [
      {
        name: CONTAINER,
        image: config.image,
        command: ['node', 'jobs/transcode/main.js'], // relative to the image's folder
        env: podEnv(resource, jobName, config, gpu),
        resources: {
          requests: { cpu: cpuOf(spec, config), memory, 'ephemeral-storage': config.scratch },
          limits: {
            memory,
            'ephemeral-storage': config.scratch,
            ...(gpu && { 'nvidia.com/gpu': '1' }),
          },
        },
        terminationMessagePolicy: 'FallbackToLogsOnError',
        securityContext: restricted,
        volumeMounts: [
          { name: 'work', mountPath: '/work' },
          { name: 'tmp', mountPath: '/tmp' },
          // Connecting to a socket changes no file. The decoder can neither replace the socket nor fill the folder.
          { name: 'store', mountPath: STORE_FOLDER, readOnly: true },
        ],
      },
    ],
    volumes: [
      { name: 'work', emptyDir: { sizeLimit: config.scratch } },
      { name: 'tmp', emptyDir: { sizeLimit: '256Mi' } },
      { name: 'store', emptyDir: { sizeLimit: '1Mi' } },
      { name: 'proxy-tmp', emptyDir: { sizeLimit: '64Mi' } },
    ],
  }
}

const restricted = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
}

/**
 * A native sidecar: the kubelet starts it before the program, restarts it when it ends, ends it after the program, and
 * does not count it for the outcome of the pod.
 */
function storeProxy({ spec }: TranscodeJob, { image, storeSecret, logLevel }: ChildConfig) {
  const env = {
    STORE_GRANT: JSON.stringify(grantFor(spec.inputs)),
    STORE_SOCKET,
    LOG_LEVEL: logLevel,
    SCRATCH_FOLDER: '/tmp',
  }
  return {
    name: STORE_PROXY,
    image,
    restartPolicy: 'Always',
    // A small young generation keeps little of what streams through.
    command: ['node', '--max-semi-space-size=2', 'jobs/store-proxy/main.js'],
    env: entries(env),
    envFrom: [{ secretRef: { name: storeSecret } }],
    resources: {
      requests: { cpu: '50m', memory: '96Mi', 'ephemeral-storage': '64Mi' },
      limits: { memory: '256Mi', 'ephemeral-storage': '64Mi' },
    },
    securityContext: { ...restricted, runAsUser: PROXY_USER, runAsGroup: PROXY_USER },
    volumeMounts: [
      { name: 'store', mountPath: STORE_FOLDER },
      { name: 'proxy-tmp', mountPath: '/tmp' },
    ],
  }
}

const cpuOf = ({ priority }: Pick<TranscodeJobSpec, 'priority'>, { cpu, cpuBackfill }: ChildConfig) =>
  priority === 'backfill' ? cpuBackfill : cpu

function podEnv(resource: TranscodeJob, jobName: string, config: ChildConfig, gpu: boolean) {
  const { inputs, renditions, segmentSeconds, accelerator } = resource.spec
  const { namespace, name, uid } = resource.metadata
  const token = progressToken(config.progressKey, { kind: 'TranscodeJob', namespace, name, uid, jobName })
  const env: Record<string, string> = {
    JOB_SPEC: JSON.stringify({
      inputs,
      renditions,
      segmentSeconds,
      accelerator: resource.status?.gpuGivenUp ? 'cpu' : accelerator,
    }),
    STORE_KIND: 'proxy',
    STORE_SOCKET,
    PROGRESS_URL: config.progressUrl,
    PROGRESS_TOKEN: token,
    LOG_LEVEL: config.logLevel,
    WORK_FOLDER: '/work',
    // Without `video`, CUDA works but NVENC does not.
    ...(gpu && { NVIDIA_DRIVER_CAPABILITIES: 'compute,video,utility' }),
  }
  return entries(env)
}

const entries = (env: Readonly<Record<string, string>>) => Object.entries(env).map(([name, value]) => ({ name, value }))
