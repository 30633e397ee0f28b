import * as z from 'zod'
import { TranscodeJobSpec } from '../../crds/transcode-job.ts'
import { int, json } from '../../lib/runtime/config.ts'
import { runEncodeJob } from '../hls/encode-job.ts'
import { help } from './help.ts'

const { inputs, accelerator, parallelism } = TranscodeJobSpec.shape
const Spec = z.object({ inputs, accelerator, parallelism })

/** JOB_SPEC is that of the pod that leads; the Job controller numbers the pods of an Indexed Job. */
const own = {
  config: { JOB_SPEC: json(Spec), JOB_COMPLETION_INDEX: int(0, 1000).default(0) },
  inputs: (c: { JOB_SPEC: { inputs: unknown[] } }) => c.JOB_SPEC.inputs.length,
}

/** What the environment asks for. Returns the exit code. */
export const runChunksJob = (): Promise<number> =>
  runEncodeJob('chunks', own, ({ JOB_SPEC: spec, JOB_COMPLETION_INDEX: index }, tools) =>
    help({ ...tools, spec, index }),
  )
