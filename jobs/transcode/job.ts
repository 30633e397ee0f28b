import * as z from 'zod'
import { TranscodeJobSpec } from '../../crds/transcode-job.ts'
import { json } from '../../lib/runtime/config.ts'
import { runEncodeJob } from '../hls/encode-job.ts'
import { transcode } from './transcode.ts'

const { inputs, renditions, segmentSeconds, accelerator, parallelism } = TranscodeJobSpec.shape
const Spec = z.object({ inputs, renditions, segmentSeconds, accelerator, parallelism })

/** JOB_SPEC is the part of the TranscodeJob's spec that a job needs. */
const own = {
  config: { JOB_SPEC: json(Spec) },
  inputs: (c: { JOB_SPEC: { inputs: unknown[] } }) => c.JOB_SPEC.inputs.length,
}

/** What the environment asks for. Returns the exit code. */
export const runTranscodeJob = (): Promise<number> =>
  runEncodeJob('transcode', own, ({ JOB_SPEC }, tools) => transcode(JOB_SPEC, tools))
