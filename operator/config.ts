import { hostname } from 'node:os'
import * as z from 'zod'
import { flag, int, json } from '../lib/runtime/config.ts'

const Quantity = z.string().regex(/^\d+(\.\d+)?(m|k|[MGTPE]|[KMGTPE]i)?$/, 'is not a Kubernetes quantity')
const PriorityClasses = z.partialRecord(z.enum(['interactive', 'normal', 'backfill']), z.string().min(1))

/** As in a pod. */
const Toleration = z.strictObject({
  key: z.string().min(1).optional(),
  operator: z.enum(['Exists', 'Equal']).optional(),
  value: z.string().optional(),
  effect: z.enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute']).optional(),
  tolerationSeconds: z.int().min(0).optional(),
})

/** The environment of the operator. */
export const OperatorConfig = z.object({
  /** Only this namespace; unset: all that our role may see. */
  WATCH_NAMESPACE: z.string().optional(),
  HOST: z.string().default('0.0.0.0'),
  PROGRESS_PORT: int(0, 65_535).default(8090),
  HEALTH_PORT: int(0, 65_535).default(8081),
  METRICS_PORT: int(0, 65_535).default(8080),
  /** What pods post their progress to, path included; unset: this process itself, which only works on one machine. */
  PROGRESS_URL: z.url({ protocol: /^https?$/ }).optional(),
  /** Signs the tokens of pods. The same for all replicas, and across restarts. */
  PROGRESS_KEY: z.string().min(32),
  LEADER_ELECTION: flag.default(true),
  LEASE_NAME: z.string().default('keepsake-operator'),
  LEASE_NAMESPACE: z.string().default('default'),
  /** Unique to this process: the name of the pod. */
  IDENTITY: z.string().min(1).max(128).default(hostname()),
  RECONCILE_CONCURRENCY: int(1, 100).default(8),
  JOB_IMAGE: z.string().min(1),
  STORE_SECRET: z.string().min(1),
  /** Of the pods, in the namespace of each TranscodeJob; they get no token of it. Unset: the namespace's default. */
  JOB_SERVICE_ACCOUNT: z.string().min(1).optional(),
  /** Whether any node offers `nvidia.com/gpu`; `detect`: look at the nodes, which our role must then be allowed to. */
  GPU_AVAILABLE: z.union([z.literal('detect'), flag]).default(false),
  /** How long a TranscodeJob with `accelerator: auto` waits for a free GPU. */
  GPU_WAIT_SECONDS: int(0, 86_400).default(300),
  JOB_CPU: Quantity.default('2'),
  JOB_MEMORY: Quantity.default('2Gi'),
  /** An attempt that ran out of memory is followed by one with twice as much, up to this. */
  JOB_MEMORY_MAX: Quantity.default('8Gi'),
  JOB_SCRATCH: Quantity.default('20Gi'),
  /** PriorityClass of the pods per `spec.priority`, as JSON. */
  JOB_PRIORITY_CLASSES: json(PriorityClasses).default({}),
  /** Labels of the nodes on which pods may run, as JSON. */
  JOB_NODE_SELECTOR: json(z.record(z.string().min(1), z.string())).default({}),
  /** Taints of nodes on which they may run all the same, besides that of GPUs where one is asked for; as JSON. */
  JOB_TOLERATIONS: json(z.array(Toleration)).default([]),
  LOG_LEVEL: z.enum(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).default('info'),
  KEEPSAKE_FAILPOINT: z.string().optional(),
})
export type OperatorConfig = Readonly<z.infer<typeof OperatorConfig>>
