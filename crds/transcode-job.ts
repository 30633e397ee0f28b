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
 * One thing to convert. `id` is unique within the resource (the media's id); keys are object store keys, made of plain
 * ASCII names, so that 64 inputs always fit in one environment variable of the pod (128 KiB on Linux).
 */
export const TranscodeInput = z
  .object({
    id: z
      .string()
      .min(1)
      .max(64)
      .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/)
      .describe('Unique in this resource, such as the id of the media; status.outputs names it'),
    type: z
      .enum(['video', 'image', 'motion'])
      .describe('What the object is. This version converts video; an input of another type fails'),
    sourceKey: z
      .string()
      .min(1)
      .max(512)
      .regex(/^[A-Za-z0-9._=@+-]+(\/[A-Za-z0-9._=@+-]+)*$/)
      .describe('Key of the original in the bucket of the store'),
    outputPrefix: z
      .string()
      .min(1)
      .max(512)
      .regex(/^([A-Za-z0-9._=@+-]+\/)+$/)
      .describe('What is made lies below it. Ends in a slash; manifest.json is written last and is the commit'),
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
      .describe('What to convert, all in one pod; some may succeed and others fail')
      .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['id'] }),
    renditions: z
      .array(z.enum(RENDITION_NAMES))
      .min(1)
      .max(3)
      .refine(isUnique, 'renditions must be unique')
      .default(['360p', '720p', '1080p'])
      .describe('Wanted renditions by short side; those above the source are left out')
      .meta({ 'x-kubernetes-list-type': 'set' }),
    segmentSeconds: z.int().min(1).max(20).default(6).describe('Length of the segments of a stream'),
    accelerator: z
      .enum(['auto', 'gpu', 'cpu'])
      .default('auto')
      .describe('auto: a GPU when one is free in time, else the CPU. gpu: waits until there is one. cpu: never a GPU'),
    priority: z
      .enum(['interactive', 'normal', 'backfill'])
      .default('normal')
      .describe('Whose turn it is first, and the PriorityClass of the pods. A Job that exists keeps what it has'),
    suspend: z
      .boolean()
      .default(false)
      .describe('true takes the pod away, at no cost of an attempt; false lets another one begin'),
    attemptDeadlineSeconds: z.int().min(60).max(86_400).default(7200).describe('Seconds one attempt may take'),
    maxAttempts: z
      .int()
      .min(1)
      .max(10)
      .default(3)
      .describe('Attempts that may fail before it has failed; those that the cluster ended do not count'),
    ttlSecondsAfterFinished: z
      .int()
      .min(0)
      .max(2_592_000)
      .default(86_400)
      .describe('Seconds until a finished resource is deleted. What it has made stays'),
  })
  .meta({
    description: 'What to convert. Immutable but for suspend and priority: to change it, create another TranscodeJob.',
    'x-kubernetes-validations': specRules,
  })
export type TranscodeJobSpec = z.infer<typeof TranscodeJobSpec>

export const TranscodeProgress = z.object({
  percent: z.int().min(0).max(100).describe('Of all inputs together'),
  speed: z.string().max(16).optional().describe('Media seconds per second, e.g. "1.8x"'),
  etaSeconds: z.int().min(0).optional().describe('Seconds left at this speed'),
  stage: z.string().max(32).optional().describe('What the program is doing, e.g. Downloading or Encoding'),
  playable: z.array(z.string().max(64)).max(64).optional().describe('Inputs that can already be played'),
  updatedAt: z.iso.datetime().max(64).describe('When the program last said so'),
})
export type TranscodeProgress = z.infer<typeof TranscodeProgress>

export const TranscodeOutput = z.object({
  id: z.string().max(64).describe('Of the input'),
  state: z.enum(['Succeeded', 'Failed']).describe('What has become of it'),
  manifestKey: z.string().max(512).optional().describe('Key of the manifest, which names all that was made'),
  reason: z.string().max(64).optional().describe('Why it failed, in one word, e.g. CorruptInput'),
  message: z.string().max(512).optional().describe('Why it failed, for people'),
})
export type TranscodeOutput = z.infer<typeof TranscodeOutput>

/** `progress`, `accelerator` and `acceleratorReason` belong to the field manager of progress, the rest to the reconciler's. */
export const TranscodeJobStatus = z.object({
  observedGeneration: z.int().min(0).optional().describe('The generation of the spec that this is about'),
  phase: z
    .enum(['Pending', 'Running', 'Suspended', 'Succeeded', 'Failed'])
    .optional()
    .describe('Derived from the conditions, for people'),
  conditions: Conditions.optional().describe(
    'Succeeded: Unknown while it runs, then True or False for good; reason and message say why it waits or failed',
  ),
  jobName: z.string().max(63).optional().describe('The Job that runs the attempts'),
  attempts: z
    .int()
    .min(0)
    .optional()
    .describe('Attempts that ran, without those that the cluster itself ended; a pod that somebody deletes counts'),
  restarts: z.int().min(0).optional().describe('Jobs given up for another one: none of their attempts could do it'),
  memory: z
    .string()
    .max(32)
    .optional()
    .describe('Memory of an attempt, once earlier ones needed more than the default'),
  gpuGivenUp: z.string().max(256).optional().describe('Why attempts no longer ask for a GPU'),
  startTime: z.iso.datetime().max(64).optional().describe('When the Job of its first attempt began'),
  completionTime: z.iso.datetime().max(64).optional().describe('When it succeeded or failed'),
  accelerator: z.enum(['gpu', 'cpu']).optional().describe('What the program encodes with'),
  acceleratorReason: z.string().max(256).optional().describe('Why not with a GPU'),
  progress: TranscodeProgress.optional().describe('As the program last reported it'),
  outputs: z
    .array(TranscodeOutput)
    .max(64)
    .optional()
    .describe('What has become of each input')
    .meta({
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['id'],
    }),
})
export type TranscodeJobStatus = z.infer<typeof TranscodeJobStatus>

/** Unknown while it runs, then True or False for good. `reason` says why. */
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
    'Converts uploaded media: videos become HLS streams that play everywhere, by Jobs, with progress in the status.',
  spec: TranscodeJobSpec,
  status: TranscodeJobStatus.describe('What has become of it; the operator writes it'),
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

/** Where TranscodeJobs live in the API. */
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
 * Checks the spec as the CRD's schema does and fills in the defaults: for a cluster whose CRD is older or was edited.
 * The status is passed through unread: only we write it, and one that a newer version wrote must not look like none,
 * or finished work would begin again. Throws for what is no Kubernetes object at all.
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
