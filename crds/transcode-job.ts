import * as z from 'zod'
import { type CelRule, immutable, type Kind, resourceOf } from './kind.ts'
import {
  encodeFields,
  FIXED_RUN_FIELDS,
  isUnique,
  itemId,
  keyPrefix,
  objectKey,
  type ParsedRun,
  parseRun,
  planReason,
  type Run,
  runColumns,
  runFields,
  runStatus,
} from './run.ts'

const itemRules: CelRule[] = [
  {
    rule: '!self.sourceKey.startsWith(self.outputPrefix)',
    message: 'sourceKey must not lie below outputPrefix',
    fieldPath: '.sourceKey',
  },
]

/** One input to convert. `id` is unique within the resource (the media item's id). */
export const TranscodeInput = z
  .object({
    id: itemId().describe('Unique in this resource, e.g. the id of the media item; status.outputs refers to it'),
    type: z
      .enum(['video', 'image', 'motion'])
      .describe('Type of the original. motion, the moving part of a Live Photo, is converted like video'),
    sourceKey: objectKey().describe('Key of the original in the object store'),
    outputPrefix: keyPrefix().describe(
      'Key prefix of all converted files; ends in a slash. manifest.json is written last and is the commit',
    ),
  })
  .refine((input) => !input.sourceKey.startsWith(input.outputPrefix), {
    path: ['sourceKey'],
    message: 'must not lie below outputPrefix',
  })
  .meta({ 'x-kubernetes-validations': itemRules })
export type TranscodeInput = z.infer<typeof TranscodeInput>

const ONE_VIDEO = 'more than 1 needs exactly one input, a video or a motion'

const specRules: CelRule[] = [
  ...immutable(['inputs', 'parallelism', ...FIXED_RUN_FIELDS]),
  {
    rule: 'self.inputs.all(a, self.inputs.exists_one(b, b.outputPrefix == a.outputPrefix))',
    message: 'every input needs an outputPrefix of its own',
    fieldPath: '.inputs',
  },
  {
    rule: "self.parallelism == 1 || (self.inputs.size() == 1 && self.inputs[0].type != 'image')",
    message: ONE_VIDEO,
    fieldPath: '.parallelism',
  },
]

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
    parallelism: z
      .int()
      .min(1)
      .max(64)
      .default(1)
      .describe(
        'Pods that may encode the video at the same time, each with the resources of an attempt. One makes the attempts; the others help it where nodes have room, and the result does not depend on them',
      ),
    ...encodeFields,
    ...runFields('TranscodeJob'),
  })
  .refine(({ parallelism, inputs }) => parallelism === 1 || (inputs.length === 1 && inputs[0]?.type !== 'image'), {
    path: ['parallelism'],
    message: ONE_VIDEO,
  })
  .meta({
    description: 'The conversion to run. Immutable except suspend and priority: create another TranscodeJob instead.',
    'x-kubernetes-validations': specRules,
  })
export type TranscodeJobSpec = z.infer<typeof TranscodeJobSpec>

const TranscodeJobStatus = runStatus('TranscodeJob').extend({
  planReason: planReason
    .optional()
    .describe('How the latest video is encoded, e.g. which rendition is its own stream, and why'),
})

export const transcodeJobKind: Kind<typeof TranscodeJobSpec, typeof TranscodeJobStatus, 'TranscodeJob'> = {
  kind: 'TranscodeJob',
  plural: 'transcodejobs',
  shortNames: ['tj'],
  categories: ['keepsake'],
  description:
    'Converts uploaded videos into HLS streams and images into JPEG and WebP, which play and show everywhere. Runs Jobs and reports progress in the status.',
  spec: TranscodeJobSpec,
  status: TranscodeJobStatus.describe('State of the conversion, written by the operator'),
  columns: runColumns({ name: 'Media', type: 'string', jsonPath: '.spec.inputs[0].id' }),
}

/** The API resource of TranscodeJobs. */
export const TRANSCODE_JOBS = resourceOf(transcodeJobKind)

export type TranscodeJob = Run<'TranscodeJob', TranscodeJobSpec>

/** See `parseRun`. */
export const parseTranscodeJob = (object: unknown): ParsedRun<TranscodeJob> => parseRun(transcodeJobKind, object)
