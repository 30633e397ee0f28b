import { GROUP } from '../../crds/kind.ts'
import { parseTranscodeJob, TRANSCODE_JOBS, type TranscodeJobSpec } from '../../crds/transcode-job.ts'
import { grantFor } from '../../lib/contract/store-proxy.ts'
import type { ProgramKind } from '../program/kind.ts'

/** Converts uploaded videos and images. */
export const transcodeJob: ProgramKind<TranscodeJobSpec> = {
  resource: TRANSCODE_JOBS,
  shortName: 'tj',
  hadPrefixTwice: true,
  hasPlanReason: true,
  ownerAnnotation: `${GROUP}/transcode-job`,
  component: 'transcode',
  gauge: 'keepsake_transcode_jobs',
  entry: 'jobs/transcode/main.js',
  size: (config) => ({
    cpu: config.JOB_CPU,
    cpuBackfill: config.JOB_CPU_BACKFILL,
    memory: config.JOB_MEMORY,
    memoryMax: config.JOB_MEMORY_MAX,
    scratch: config.JOB_SCRATCH,
  }),
  parse: parseTranscodeJob,
  jobSpec: ({ inputs, renditions, segmentSeconds, accelerator, parallelism }) => ({
    inputs,
    renditions,
    segmentSeconds,
    accelerator,
    ...(parallelism > 1 && { parallelism }),
  }),
  helpers: { entry: 'jobs/chunks/main.js', count: ({ parallelism }) => parallelism - 1 },
  makesLadders: ({ inputs }) => inputs.some(({ type }) => type === 'video'),
  grant: ({ inputs }) => grantFor(inputs),
  outputs: ({ inputs }) => inputs,
  successMessage: ({ inputs: { length } }) => `${length} of ${length} inputs converted`,
}
