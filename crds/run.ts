import * as z from 'zod'
import {
  API_VERSION,
  type Condition,
  Conditions,
  conditionOf,
  type Kind,
  type Metadata,
  type PrinterColumn,
  parseSpec,
} from './kind.ts'

/**
 * What the kinds that run one program to its end have in common: TranscodeJob and HighlightRender. The fields of the
 * spec that say how to run, the status, the columns and the parser.
 */

export const RENDITION_NAMES = ['360p', '720p', '1080p'] as const

export const isUnique = (values: readonly string[]) => new Set(values).size === values.length

/** Object keys are plain ASCII, so that the longest spec always fits in one environment variable (128 KiB on Linux). */
export const objectKey = () =>
  z
    .string()
    .min(1)
    .max(512)
    .regex(/^[A-Za-z0-9._=@+-]+(\/[A-Za-z0-9._=@+-]+)*$/)

/** A prefix of object keys; ends in a slash. */
export const keyPrefix = () =>
  z
    .string()
    .min(1)
    .max(512)
    .regex(/^([A-Za-z0-9._=@+-]+\/)+$/)

export const itemId = () =>
  z
    .string()
    .min(1)
    .max(64)
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/)

/** Fields of `spec` that say what to encode. */
export const encodeFields = {
  renditions: z
    .array(z.enum(RENDITION_NAMES))
    .min(1)
    .max(3)
    .refine(isUnique, 'renditions must be unique')
    .default(['360p', '720p', '1080p'])
    .describe('Renditions to make, named by their short side; those larger than the source are omitted')
    .meta({ 'x-kubernetes-list-type': 'set' }),
  segmentSeconds: z.int().min(1).max(20).default(6).describe('Length of a segment in seconds'),
}

/** The longest deadline of an attempt. */
export const MAX_ATTEMPT_SECONDS = 86_400

/** Fields of `spec` that say how to run. `noun` names the kind in the descriptions. */
export const runFields = (noun: string) => ({
  accelerator: z
    .enum(['auto', 'gpu', 'cpu'])
    .default('auto')
    .describe('auto: a GPU if one becomes free in time, otherwise the CPU. gpu: waits for a GPU. cpu: never a GPU'),
  priority: z
    .enum(['interactive', 'normal', 'backfill'])
    .default('normal')
    .describe('Order of reconciliation, and the PriorityClass of the pods. A change does not affect an existing Job'),
  suspend: z
    .boolean()
    .default(false)
    .describe('true ends the running pod, which does not count as an attempt; false starts a new pod'),
  attemptDeadlineSeconds: z
    .int()
    .min(60)
    .max(MAX_ATTEMPT_SECONDS)
    .default(7200)
    .describe('Maximum seconds of one attempt'),
  maxAttempts: z
    .int()
    .min(1)
    .max(10)
    .default(3)
    .describe(`Failed attempts after which the ${noun} fails; attempts that the cluster ended do not count`),
  ttlSecondsAfterFinished: z
    .int()
    .min(0)
    .max(2_592_000)
    .default(86_400)
    .describe(`Seconds after which a finished ${noun} is deleted; the converted files stay`),
})

/** Fields of `runFields` and `encodeFields` that cannot change. */
export const FIXED_RUN_FIELDS = [
  'renditions',
  'segmentSeconds',
  'accelerator',
  'attemptDeadlineSeconds',
  'maxAttempts',
  'ttlSecondsAfterFinished',
] as const

export const RunProgress = z.object({
  percent: z.int().min(0).max(100).describe('Percent done of all inputs together'),
  speed: z.string().max(16).optional().describe('Encoding speed in media seconds per second, e.g. "1.8x"'),
  etaSeconds: z.int().min(0).optional().describe('Estimated seconds left'),
  stage: z.string().max(32).optional().describe('Current stage, e.g. Downloading or Encoding'),
  playable: z.array(z.string().max(64)).max(64).optional().describe('Ids of the inputs that can already be played'),
  updatedAt: z.iso.datetime().max(64).describe('Time of the last progress report'),
})
export type RunProgress = z.infer<typeof RunProgress>

export const RunOutput = z.object({
  id: z.string().max(64).describe('Id of the input'),
  state: z.enum(['Succeeded', 'Failed']).describe('Result of the conversion of this input'),
  manifestKey: z.string().max(512).optional().describe('Key of the manifest, which lists all converted files'),
  reason: z.string().max(64).optional().describe('Machine-readable reason of the failure, e.g. CorruptInput'),
  message: z.string().max(512).optional().describe('Human-readable reason of the failure'),
  item: z.string().max(64).optional().describe('Id of the item that made the output fail'),
})
export type RunOutput = z.infer<typeof RunOutput>

/** The progress field manager owns `progress`, `accelerator`, `acceleratorReason` and `planReason`; the operator's owns the rest. */
export const runStatus = (noun: string) =>
  z.object({
    observedGeneration: z.int().min(0).optional().describe('Generation of the spec that the status is based on'),
    phase: z
      .enum(['Pending', 'Running', 'Suspended', 'Succeeded', 'Failed'])
      .optional()
      .describe('Summary of the conditions, for display'),
    conditions: Conditions.optional().describe(
      'Condition Succeeded: Unknown until the end, then finally True or False; reason and message explain the state',
    ),
    jobName: z.string().max(63).optional().describe('Name of the Job that runs the attempts'),
    attempts: z
      .int()
      .min(0)
      .optional()
      .describe('Attempts that ran, without those that the cluster ended; a pod that a user deletes counts'),
    restarts: z
      .int()
      .min(0)
      .optional()
      .describe('Jobs replaced by a new one because none of their attempts could succeed'),
    memory: z
      .string()
      .max(32)
      .optional()
      .describe('Memory of an attempt, after earlier ones needed more than the default'),
    gpuGivenUp: z.string().max(256).optional().describe('Why attempts no longer request a GPU'),
    startTime: z.iso.datetime().max(64).optional().describe('Time at which the Job of the first attempt started'),
    completionTime: z.iso.datetime().max(64).optional().describe(`Time at which the ${noun} succeeded or failed`),
    accelerator: z.enum(['gpu', 'cpu']).optional().describe('Accelerator that encodes'),
    acceleratorReason: z.string().max(256).optional().describe('Why this accelerator was chosen'),
    progress: RunProgress.optional().describe('Last progress report of the running pod'),
    outputs: z
      .array(RunOutput)
      .max(64)
      .optional()
      .describe('Result of each input')
      .meta({
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['id'],
      }),
  })
/** How a program does its work, and why, where it has a choice. */
export const planReason = z.string().max(256)
export type RunStatus = z.infer<ReturnType<typeof runStatus>> & { planReason?: z.infer<typeof planReason> }

/** The condition that is Unknown until the end, then finally True or False. */
export const SUCCEEDED = 'Succeeded'
export const succeededOf = (status: RunStatus | undefined): Condition | undefined =>
  conditionOf(status?.conditions, SUCCEEDED)
export const isFinished = (status: RunStatus | undefined) =>
  ['True', 'False'].includes(succeededOf(status)?.status ?? 'Unknown')

const columnsAfterPhase: PrinterColumn[] = [
  { name: 'Progress', type: 'integer', jsonPath: '.status.progress.percent' },
  { name: 'Speed', type: 'string', jsonPath: '.status.progress.speed' },
  { name: 'Accelerator', type: 'string', jsonPath: '.status.accelerator' },
  { name: 'Attempts', type: 'integer', jsonPath: '.status.attempts' },
  { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  { name: 'Reason', type: 'string', priority: 1, jsonPath: `.status.conditions[?(@.type=="${SUCCEEDED}")].reason` },
  { name: 'Message', type: 'string', priority: 1, jsonPath: `.status.conditions[?(@.type=="${SUCCEEDED}")].message` },
]

/** The columns of `kubectl get`: what the resource is about, then how far it is. */
export const runColumns = (subject: PrinterColumn): PrinterColumn[] => [
  subject,
  { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
  ...columnsAfterPhase,
]

/** The fields of every kind's spec that say how to run. */
export type RunSpec = z.infer<z.ZodObject<ReturnType<typeof runFields> & typeof encodeFields>>

const Bounds = z.object(runFields('run')).pick({ attemptDeadlineSeconds: true, maxAttempts: true, suspend: true })

/** How long a run may take, with the defaults. No other field is read: it may have a value that a newer version knows. */
export const boundsOf = (spec: unknown) => Bounds.parse(spec)

/** A custom resource that runs one program to its end. */
export interface Run<K extends string = string, Spec extends RunSpec = RunSpec> {
  apiVersion: string
  kind: K
  metadata: Metadata
  spec: Spec
  status?: RunStatus
}

export type ParsedRun<R extends Run> = { resource: R } | { problem: string }

/**
 * See `parseSpec`. Returns the status unvalidated: only the operator writes it, and if a status of a newer version counted as absent,
 * finished work would start again. Throws for a value that is not a Kubernetes object.
 */
export function parseRun<K extends string, S extends z.ZodObject>(
  kind: Kind<S> & { kind: K },
  object: unknown,
): { resource: Omit<Run<K>, 'spec'> & { spec: z.infer<S> } } | { problem: string } {
  const { status } = object as { status?: RunStatus }
  const parsed = parseSpec(kind, object)
  if ('problem' in parsed) return parsed
  return { resource: { apiVersion: API_VERSION, kind: kind.kind, ...parsed, ...(status && { status }) } }
}
