import * as z from 'zod'
import { type Condition, Conditions, conditionOf, type Kind } from './kind.ts'

export const RENDITION_NAMES = ['360p', '720p', '1080p'] as const

/** One thing to convert. `id` is unique within the resource (the media's id); keys are object store keys. */
export const TranscodeInput = z.object({
  id: z.string().min(1).max(64),
  type: z.enum(['video', 'image', 'motion']),
  sourceKey: z.string().min(1).max(512),
  outputPrefix: z
    .string()
    .min(1)
    .max(512)
    .regex(/\/$/)
    .describe('Ends in a slash; manifest.json below it is the commit'),
})
export type TranscodeInput = z.infer<typeof TranscodeInput>

export const TranscodeJobSpec = z
  .object({
    inputs: z
      .array(TranscodeInput)
      .min(1)
      .max(64)
      .meta({ 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['id'] }),
    renditions: z
      .array(z.enum(RENDITION_NAMES))
      .min(1)
      .max(3)
      .default(['360p', '720p', '1080p'])
      .describe('Wanted renditions by short side; those above the source are left out')
      .meta({ 'x-kubernetes-list-type': 'set' }),
    segmentSeconds: z.int().min(1).max(20).default(6),
    accelerator: z.enum(['auto', 'gpu', 'cpu']).default('auto'),
    priority: z.enum(['interactive', 'normal', 'backfill']).default('normal'),
    suspend: z.boolean().default(false),
    attemptDeadlineSeconds: z.int().min(60).max(86_400).default(7200).describe('Seconds one attempt may take'),
    maxAttempts: z.int().min(1).max(10).default(3),
    ttlSecondsAfterFinished: z.int().min(0).max(2_592_000).default(86_400),
  })
  .meta({
    description: 'What to convert. Immutable but for suspend and priority: to change it, create another TranscodeJob.',
  })
export type TranscodeJobSpec = z.infer<typeof TranscodeJobSpec>

export const TranscodeProgress = z.object({
  percent: z.int().min(0).max(100),
  speed: z.string().max(16).optional().describe('Media seconds per second, e.g. "1.8x"'),
  etaSeconds: z.int().min(0).optional(),
  stage: z.string().max(32).optional(),
  playable: z.array(z.string().max(64)).max(64).optional().describe('Inputs that can already be played'),
  updatedAt: z.iso.datetime().max(64),
})
export type TranscodeProgress = z.infer<typeof TranscodeProgress>

export const TranscodeOutput = z.object({
  id: z.string().max(64),
  state: z.enum(['Succeeded', 'Failed']),
  manifestKey: z.string().max(512).optional(),
  reason: z.string().max(64).optional(),
  message: z.string().max(512).optional(),
})
export type TranscodeOutput = z.infer<typeof TranscodeOutput>

/** `progress` and `acceleratorInUse` come from the progress receiver, everything else from the reconciler: two field managers. */
export const TranscodeJobStatus = z.object({
  observedGeneration: z.int().min(0).optional(),
  phase: z.enum(['Pending', 'Running', 'Suspended', 'Succeeded', 'Failed']).optional().describe('Derived, for people'),
  conditions: Conditions.optional(),
  jobName: z.string().max(63).optional(),
  attempts: z.int().min(0).optional(),
  startTime: z.iso.datetime().max(64).optional(),
  completionTime: z.iso.datetime().max(64).optional(),
  accelerator: z.enum(['gpu', 'cpu']).optional(),
  acceleratorReason: z.string().max(256).optional(),
  progress: TranscodeProgress.optional(),
  outputs: z
    .array(TranscodeOutput)
    .max(64)
    .optional()
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
  description: 'Converts uploaded media: video to HLS, images to what every phone can show.',
  spec: TranscodeJobSpec,
  status: TranscodeJobStatus,
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
