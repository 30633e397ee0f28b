import * as z from 'zod'
import {
  API_VERSION,
  type CelRule,
  type Condition,
  Conditions,
  conditionOf,
  GROUP,
  immutable,
  type Kind,
  type Metadata,
  VERSION,
} from './kind.ts'

export const RENDITION_NAMES = ['360p', '720p', '1080p'] as const

const itemRules: CelRule[] = [
  {
    rule: '!self.sourceKey.startsWith(self.outputPrefix)',
    message: 'sourceKey must not lie below outputPrefix',
    fieldPath: '.sourceKey',
  },
]

/**
 * One input to convert. `id` is unique within the resource (the media item's id). Object keys are plain ASCII, so that
 * 64 inputs always fit in one environment variable of the pod (128 KiB on Linux).
 */
export const TranscodeInput = z
  .object({
    id: z
      .string()
      .min(1)
      .max(64)
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/)
      .describe('Unique in this resource, e.g. the id of the media item; status.outputs refers to it'),
    type: z
      .enum(['video', 'image', 'motion'])
      .describe('Type of the original. motion, the moving part of a Live Photo, is converted like video'),
    sourceKey: z
      .string()
      .min(1)
      .max(512)
      .regex(/^[A-Za-z0-9._=@+-]+(\/[A-Za-z0-9._=@+-]+)*$/)
      .describe('Key of the original in the object store'),
    outputPrefix: z
      .string()
      .min(1)
      .max(512)
      .regex(/^([A-Za-z0-9._=@+-]+\/)+$/)
      .describe('Key prefix of all converted files; ends in a slash. manifest.json is written last and is the commit'),
  })
  .refine((input) => !input.sourceKey.startsWith(input.outputPrefix), {
    path: ['sourceKey'],
    message: 'must not lie below outputPrefix',
  })
  .meta({ 'x-kubernetes-validations': itemRules })
export type TranscodeInput = z.infer<typeof TranscodeInput>

const specRules: CelRule[] = [
  ...immutable([
    'inputs',
    'renditions',
    'segmentSeconds',
    'accelerator',
    'attemptDeadlineSeconds',
    'maxAttempts',
    'ttlSecondsAfterFinished',
  ]),
  {
    rule: 'self.inputs.all(a, self.inputs.exists_one(b, b.outputPrefix == a.outputPrefix))',
    message: 'every input needs an outputPrefix of its own',
    fieldPath: '.inputs',
  },
]

const isUnique = (values: readonly string[]) => new Set(values).size === values.length

export const TranscodeJobSpec = z
  .object({
    inputs: z
      .array(TranscodeInput)
      .min(1)
      .max(64)
      .refine((inputs) => isUnique(inputs.map((i) => i.id)), 'ids must be unique')
      .refine((inputs) => isUnique(inputs.map((i) => i.outputPrefix)), 'every input needs an outputPrefix of its own')
      .describe('Inputs to convert, all in one pod; some may succeed and others fail')
      .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['id'] }),
    renditions: z
      .array(z.enum(RENDITION_NAMES))
      .min(1)
      .max(3)
      .refine(isUnique, 'renditions must be unique')
      .default(['360p', '720p', '1080p'])
      .describe('Renditions to make, named by their short side; those larger than the source are omitted')
      .meta({ 'x-kubernetes-list-type': 'set' }),
    segmentSeconds: z.int().min(1).max(20).default(6).describe('Length of a segment in seconds'),
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
    attemptDeadlineSeconds: z.int().min(60).max(86_400).default(7200).describe('Maximum seconds of one attempt'),
    maxAttempts: z
      .int()
      .min(1)
      .max(10)
      .default(3)
      .describe('Failed attempts after which the TranscodeJob fails; attempts that the cluster ended do not count'),
    ttlSecondsAfterFinished: z
      .int()
      .min(0)
      .max(2_592_000)
      .default(86_400)
      .describe('Seconds after which a finished TranscodeJob is deleted; the converted files stay'),
  })
  .meta({
    description: 'The conversion to run. Immutable except suspend and priority: create another TranscodeJob instead.',
    'x-kubernetes-validations': specRules,
  })
export type TranscodeJobSpec = z.infer<typeof TranscodeJobSpec>

export const TranscodeProgress = z.object({
  percent: z.int().min(0).max(100).describe('Percent done of all inputs together'),
  speed: z.string().max(16).optional().describe('Encoding speed in media seconds per second, e.g. "1.8x"'),
  etaSeconds: z.int().min(0).optional().describe('Estimated seconds left'),
  stage: z.string().max(32).optional().describe('Current stage, e.g. Downloading or Encoding'),
  playable: z.array(z.string().max(64)).max(64).optional().describe('Ids of the inputs that can already be played'),
  updatedAt: z.iso.datetime().max(64).describe('Time of the last progress report'),
})
export type TranscodeProgress = z.infer<typeof TranscodeProgress>

export const TranscodeOutput = z.object({
  id: z.string().max(64).describe('Id of the input'),
  state: z.enum(['Succeeded', 'Failed']).describe('Result of the conversion of this input'),
  manifestKey: z.string().max(512).optional().describe('Key of the manifest, which lists all converted files'),
  reason: z.string().max(64).optional().describe('Machine-readable reason of the failure, e.g. CorruptInput'),
  message: z.string().max(512).optional().describe('Human-readable reason of the failure'),
})
export type TranscodeOutput = z.infer<typeof TranscodeOutput>

/** The progress field manager owns `progress`, `accelerator` and `acceleratorReason`; the operator's owns the rest. */
export const TranscodeJobStatus = z.object({
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
  completionTime: z.iso.datetime().max(64).optional().describe('Time at which the TranscodeJob succeeded or failed'),
  accelerator: z.enum(['gpu', 'cpu']).optional().describe('Accelerator that encodes'),
  acceleratorReason: z.string().max(256).optional().describe('Why this accelerator was chosen'),
  progress: TranscodeProgress.optional().describe('Last progress report of the running pod'),
  outputs: z
    .array(TranscodeOutput)
    .max(64)
    .optional()
    .describe('Result of each input')
    .meta({
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['id'],
    }),
})
export type TranscodeJobStatus = z.infer<typeof TranscodeJobStatus>

/** The condition that is Unknown until the end, then finally True or False. */
export const SUCCEEDED = 'Succeeded'
export const succeededOf = (status: TranscodeJobStatus | undefined): Condition | undefined =>
  conditionOf(status?.conditions, SUCCEEDED)
export const isFinished = (status: TranscodeJobStatus | undefined) =>
  ['True', 'False'].includes(succeededOf(status)?.status ?? 'Unknown')

export const transcodeJobKind: Kind<typeof TranscodeJobSpec, typeof TranscodeJobStatus> = {
  kind: 'TranscodeJob',
  plural: 'transcodejobs',
  shortNames: ['tj'],
  categories: ['keepsake'],
  description:
    'Converts uploaded videos into HLS streams and images into JPEG and WebP, which play and show everywhere. Runs Jobs and reports progress in the status.',
  spec: TranscodeJobSpec,
  status: TranscodeJobStatus.describe('State of the conversion, written by the operator'),
  columns: [
    { name: 'Media', type: 'string', jsonPath: '.spec.inputs[0].id' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Progress', type: 'integer', jsonPath: '.status.progress.percent' },
    { name: 'Speed', type: 'string', jsonPath: '.status.progress.speed' },
    { name: 'Accelerator', type: 'string', jsonPath: '.status.accelerator' },
    { name: 'Attempts', type: 'integer', jsonPath: '.status.attempts' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
    { name: 'Reason', type: 'string', priority: 1, jsonPath: `.status.conditions[?(@.type=="${SUCCEEDED}")].reason` },
    { name: 'Message', type: 'string', priority: 1, jsonPath: `.status.conditions[?(@.type=="${SUCCEEDED}")].message` },
  ],
}

/** The API resource of TranscodeJobs. */
export const TRANSCODE_JOBS = {
  group: GROUP,
  version: VERSION,
  plural: transcodeJobKind.plural,
  kind: transcodeJobKind.kind,
} as const

export interface TranscodeJob {
  apiVersion: string
  kind: 'TranscodeJob'
  metadata: Metadata
  spec: TranscodeJobSpec
  status?: TranscodeJobStatus
}

const Envelope = z.object({
  metadata: z.looseObject({ name: z.string().min(1), namespace: z.string().min(1), uid: z.string().min(1) }),
})

export type ParsedTranscodeJob = { resource: TranscodeJob } | { problem: string }

/**
 * Validates the spec like the CRD's schema and fills in the defaults, for a cluster whose CRD is older or was edited.
 * Returns the status unvalidated: only the operator writes it, and if a status of a newer version counted as absent,
 * finished conversions would start again. Throws for a value that is not a Kubernetes object.
 */
export function parseTranscodeJob(object: unknown): ParsedTranscodeJob {
  const { metadata } = Envelope.parse(object)
  const { spec, status } = object as { spec?: unknown; status?: TranscodeJobStatus }
  const parsed = TranscodeJobSpec.safeParse(spec)
  if (!parsed.success) return { problem: parsed.error.issues.map(describe).join('; ').slice(0, 1024) }
  return {
    resource: {
      apiVersion: API_VERSION,
      kind: 'TranscodeJob',
      metadata: metadata as Metadata,
      spec: parsed.data,
      ...(status && { status }),
    },
  }
}

const describe = (issue: z.core.$ZodIssue) => `${['spec', ...issue.path].join('.')}: ${issue.message}`
