import { hostname } from 'node:os'
import * as z from 'zod'
import { GROUP } from '../crds/kind.ts'
import { flag, int, json, LOG_LEVELS } from '../lib/runtime/config.ts'

const Quantity = z.string().regex(/^\d+(\.\d+)?(m|k|[MGTPE]|[KMGTPE]i)?$/, 'is not a Kubernetes quantity')
const PriorityClasses = z.partialRecord(z.enum(['interactive', 'normal', 'backfill']), z.string().min(1))

/** A toleration as in a pod spec. */
const Toleration = z.strictObject({
  key: z.string().min(1).optional(),
  operator: z.enum(['Exists', 'Equal']).optional(),
  value: z.string().optional(),
  effect: z.enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute']).optional(),
  tolerationSeconds: z.int().min(0).optional(),
})

/** By these the operator and Kubernetes find the pods of a Job, and NetworkPolicies of the chart the programs of a release. */
const RESERVED = [`${GROUP}/`, 'batch.kubernetes.io/', 'job-name', 'controller-uid', 'app.kubernetes.io/instance']

/** Of a label or an annotation that an installation may give to pods. */
const MetadataName = z
  .string()
  .regex(
    /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/,
    'is not the name of a label',
  )
  .refine((name) => !RESERVED.some((reserved) => name.startsWith(reserved)), 'is reserved')
const LabelValue = z.string().regex(/^([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?$/, 'is not the value of a label')

/** The environment of the operator. */
export const OperatorConfig = z.object({
  /** The namespace to watch; unset: all namespaces that the operator's role may read. */
  WATCH_NAMESPACE: z.string().optional(),
  /** Unset: all addresses, of IPv6 as well where the machine has it. */
  HOST: z.string().optional(),
  PROGRESS_PORT: int(0, 65_535).default(8090),
  HEALTH_PORT: int(0, 65_535).default(8081),
  METRICS_PORT: int(0, 65_535).default(8080),
  /** The URL that pods post progress to, with its path. Unset: this process's own, which works on one machine only. */
  PROGRESS_URL: z.url({ protocol: /^https?$/ }).optional(),
  /** Signs the tokens of pods. Must be the same for all replicas and across restarts. */
  PROGRESS_KEY: z.string().min(32),
  LEADER_ELECTION: flag.default(true),
  LEASE_NAME: z.string().default('keepsake-operator'),
  LEASE_NAMESPACE: z.string().default('default'),
  /** Must be unique to this process; by default the name of the pod. */
  IDENTITY: z.string().min(1).max(128).default(hostname()),
  RECONCILE_CONCURRENCY: int(1, 100).default(8),
  JOB_IMAGE: z.string().min(1),
  STORE_SECRET: z.string().min(1),
  /** ServiceAccount of the pods, in each resource's namespace; no token is mounted. Unset: the default account. */
  JOB_SERVICE_ACCOUNT: z.string().min(1).optional(),
  /** Whether any node offers `nvidia.com/gpu`. `detect`: watch the nodes, which the operator's role must permit. */
  GPU_AVAILABLE: z.union([z.literal('detect'), flag]).default(false),
  /** How long a resource with `accelerator: auto` waits for a free GPU. */
  GPU_WAIT_SECONDS: int(0, 86_400).default(300),
  JOB_CPU: Quantity.default('2'),
  /** CPU request of resources with priority backfill, which thus give way to others on a busy node. */
  JOB_CPU_BACKFILL: Quantity.default('500m'),
  JOB_MEMORY: Quantity.default('2Gi'),
  /** The operator doubles the memory after each attempt that ran out of it, up to this limit. */
  JOB_MEMORY_MAX: Quantity.default('8Gi'),
  /** For the largest video that is accepted and all of its renditions. */
  JOB_SCRATCH: Quantity.default('36Gi'),
  /** Memory of the first attempt of a HighlightRender: a crossfade of 4K in HDR takes 1.4 GiB with four cores. */
  HIGHLIGHT_MEMORY: Quantity.default('1536Mi'),
  /** PriorityClass of the pods per `spec.priority`, as JSON. */
  JOB_PRIORITY_CLASSES: json(PriorityClasses).default({}),
  /** Node selector of the pods, as JSON. */
  JOB_NODE_SELECTOR: json(z.record(z.string().min(1), z.string())).default({}),
  /** Tolerations of the pods, as JSON. Pods that request a GPU also tolerate the GPU taint. */
  JOB_TOLERATIONS: json(z.array(Toleration)).default([]),
  /** Labels of the pods in addition to those of the operator, which win, as JSON. */
  JOB_POD_LABELS: json(z.record(MetadataName, LabelValue)).default({}),
  /** The same for annotations. */
  JOB_POD_ANNOTATIONS: json(z.record(MetadataName, z.string())).default({}),
  /** A file with the pod template of the runs of RetentionPolicies, as JSON. Unset: no run starts. */
  RETENTION_TEMPLATE_FILE: z.string().min(1).optional(),
  LOG_LEVEL: z.enum(LOG_LEVELS).default('info'),
  KEEPSAKE_FAILPOINT: z.string().optional(),
})
export type OperatorConfig = Readonly<z.infer<typeof OperatorConfig>>
