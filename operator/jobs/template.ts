import { API_VERSION, GROUP } from '../../crds/kind.ts'
import { PERMANENT_EXITS } from '../../lib/contract/job-result.ts'
import type { StoreGrantInput } from '../../lib/contract/store-proxy.ts'
import type { Job } from './batch.ts'
import { HELPER, MANAGED_BY, OPERATOR, OWNER_UID, ROLE } from './labels.ts'

export type Priority = 'interactive' | 'normal' | 'backfill'

/** The configuration of pods that is the same for every kind. */
export interface PodConfig {
  image: string
  /** Secret with the environment of the object store. */
  storeSecret: string
  /** The namespace's default when undefined. */
  serviceAccount?: string | undefined
  progressUrl: string
  logLevel: string
  /** PriorityClass of the pods per `spec.priority`; empty: the cluster's default. */
  priorityClasses: Partial<Record<Priority, string>>
  /** Node selector of the pods. */
  nodeSelector: Readonly<Record<string, string>>
  /** Tolerations of the pods. */
  tolerations: readonly object[]
  /** Labels and annotations of the pods in addition to those of the operator, which win. */
  podLabels: Readonly<Record<string, string>>
  podAnnotations: Readonly<Record<string, string>>
}

/** One pod at a time, until one succeeds. */
interface Attempts {
  /** Failed attempts that are followed by another one. */
  backoffLimit: number
}

/** As many pods side by side, each with an index of its own. */
interface Helpers {
  count: number
}

/** What distinguishes one Job from another. */
export interface JobDescription {
  name: string
  /** The custom resource, and the annotation of Jobs and pods that holds its name. */
  owner: { kind: string; namespace: string; name: string; uid: string; annotation: string }
  /** Label app.kubernetes.io/component. */
  component: string
  /** Of the Job alone, in addition to the name of its owner. */
  annotations: Record<string, string>
  priority: Priority
  suspend: boolean
  pods: Attempts | Helpers
  attemptDeadlineSeconds: number
  /** File in the image, relative to its folder. */
  entry: string
  /** JOB_SPEC of the program, as JSON. */
  spec: object
  /** PROGRESS_TOKEN of the program. Without it the program reports nothing. */
  progressToken?: string
  grant: StoreGrantInput
  resources: { cpu: string; memory: string; scratch: string; gpu: boolean }
}

/** The container of the program. */
export const CONTAINER = 'media'
/** The sidecar that holds the object store's credentials. */
export const STORE_PROXY = 'store-proxy'

/** Decodes uploads. */
const USER = 10001
/** Holds the store's credentials: another user, so that nothing of it is open to a decoder. */
const PROXY_USER = 10002
/** The folder of the store proxy's socket, in both containers. */
const STORE_FOLDER = '/store'
const STORE_SOCKET = `${STORE_FOLDER}/socket`

/**
 * Seconds that a finished Job and its pods stay. Every Job is created with the time of a success, which saves a write
 * for each; the operator extends that of a failure. It must exceed an outage of the operator: when a Job vanishes
 * before the operator has seen how it ended, it is created again, and its program finds its files already made.
 */
export const JOB_TTL_SECONDS = { succeeded: 21_600, failed: 86_400 } as const

/** Failed pods of one index that are followed by another one. */
const HELPER_RETRIES = 3

/** A batch/v1 Job whose pods each run one program and a store proxy. */
export function jobFrom(description: JobDescription, config: PodConfig): Job {
  const { owner, component, priority, annotations, suspend, pods } = description
  const identity = {
    labels: {
      'app.kubernetes.io/name': 'keepsake',
      'app.kubernetes.io/component': component,
      [MANAGED_BY]: OPERATOR,
      [OWNER_UID]: owner.uid,
      [`${GROUP}/priority`]: priority,
      ...('count' in pods && { [ROLE]: HELPER }),
    },
    annotations: { [owner.annotation]: owner.name },
  }
  const podMetadata = {
    labels: { ...config.podLabels, ...identity.labels },
    annotations: { ...config.podAnnotations, ...identity.annotations },
  }
  const reference = { apiVersion: API_VERSION, kind: owner.kind, name: owner.name, uid: owner.uid }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: description.name,
      namespace: owner.namespace,
      ...identity,
      annotations: { ...identity.annotations, ...annotations },
      ownerReferences: [{ ...reference, controller: true, blockOwnerDeletion: true }],
    },
    spec: {
      suspend,
      ...('count' in pods ? indexed(pods) : onePod(pods)),
      template: { metadata: podMetadata, spec: podSpec(description, config) },
    },
  }
}

const onePod = ({ backoffLimit }: Attempts) => ({
  parallelism: 1,
  completions: 1,
  backoffLimit,
  ttlSecondsAfterFinished: JOB_TTL_SECONDS.succeeded,
  podReplacementPolicy: 'Failed', // two concurrent attempts would write below the same prefix
  podFailurePolicy: failurePolicy('FailJob'),
})

/** One index that fails for good ends no other. */
const indexed = ({ count }: Helpers) => ({
  completionMode: 'Indexed',
  parallelism: count,
  completions: count,
  backoffLimitPerIndex: HELPER_RETRIES,
  // The operator deletes it. It is the longest time of an attempt: a Job that had ended sooner would be created again.
  ttlSecondsAfterFinished: JOB_TTL_SECONDS.failed,
  podReplacementPolicy: 'Failed',
  podFailurePolicy: failurePolicy('FailIndex'),
})

const failurePolicy = (action: 'FailJob' | 'FailIndex') => ({
  rules: [
    // First, because an evicted pod has an exit code too: a drained node must not count as a failure.
    { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] },
    { action, onExitCodes: { containerName: CONTAINER, operator: 'In', values: [...PERMANENT_EXITS] } },
  ],
})

function podSpec(description: JobDescription, config: PodConfig) {
  const { nodeSelector } = config
  const { gpu, scratch } = description.resources
  const priorityClassName = config.priorityClasses[description.priority]
  const forGpu = { key: 'nvidia.com/gpu', operator: 'Exists', effect: 'NoSchedule' }
  const tolerations = [...config.tolerations, ...(gpu ? [forGpu] : [])]
  return {
    restartPolicy: 'Never',
    // A deadline per pod: the pod fails and keeps its logs. A deadline of the Job would delete the pod.
    activeDeadlineSeconds: description.attemptDeadlineSeconds,
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
    initContainers: [storeProxy(description, config)],
    containers: [program(description, config)],
    volumes: [
      { name: 'work', emptyDir: { sizeLimit: scratch } },
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
 * Without a CPU limit a program sees all cores of its node. The request is what the pod is promised; the kubelet rounds it
 * up, and an admission that changes the request changes this too.
 */
const cores = {
  name: 'CORES',
  valueFrom: { resourceFieldRef: { containerName: CONTAINER, resource: 'requests.cpu', divisor: '1' } },
}

function program({ entry, spec, progressToken, resources }: JobDescription, config: PodConfig) {
  const { cpu, memory, scratch, gpu } = resources
  const env = {
    JOB_SPEC: JSON.stringify(spec),
    STORE_KIND: 'proxy',
    STORE_SOCKET,
    ...(progressToken && { PROGRESS_URL: config.progressUrl, PROGRESS_TOKEN: progressToken }),
    LOG_LEVEL: config.logLevel,
    WORK_FOLDER: '/work',
    // Without `video`, CUDA works but NVENC does not.
    ...(gpu && { NVIDIA_DRIVER_CAPABILITIES: 'compute,video,utility' }),
  }
  return {
    name: CONTAINER,
    image: config.image,
    command: ['node', entry],
    env: [...entries(env), cores],
    resources: {
      requests: { cpu, memory, 'ephemeral-storage': scratch },
      limits: { memory, 'ephemeral-storage': scratch, ...(gpu && { 'nvidia.com/gpu': '1' }) },
    },
    terminationMessagePolicy: 'FallbackToLogsOnError',
    securityContext: restricted,
    volumeMounts: [
      { name: 'work', mountPath: '/work' },
      { name: 'tmp', mountPath: '/tmp' },
      // Connecting to a socket changes no file. The decoder can neither replace the socket nor fill the folder.
      { name: 'store', mountPath: STORE_FOLDER, readOnly: true },
    ],
  }
}

/**
 * A native sidecar: the kubelet starts it before the program, restarts it when it ends, ends it after the program, and
 * does not count it for the outcome of the pod.
 */
function storeProxy({ grant }: JobDescription, { image, storeSecret, logLevel }: PodConfig) {
  const env = { STORE_GRANT: JSON.stringify(grant), STORE_SOCKET, LOG_LEVEL: logLevel, SCRATCH_FOLDER: '/tmp' }
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

const entries = (env: Readonly<Record<string, string>>) => Object.entries(env).map(([name, value]) => ({ name, value }))
