import { TranscodeJobSpec } from '../../crds/transcode-job.ts'
import { json } from '../../lib/runtime/config.ts'
import { runEncodeJob } from '../hls/encode-job.ts'
import { transcode } from './transcode.ts'

const Spec = TranscodeJobSpec.pick({ inputs: true, renditions: true, segmentSeconds: true, accelerator: true })

/** JOB_SPEC is the part of the TranscodeJob's spec that a job needs. */
const own = {
  config: { JOB_SPEC: json(Spec) },
  inputs: (c: { JOB_SPEC: { inputs: unknown[] } }) => c.JOB_SPEC.inputs.length,
}

const exit = await runEncodeJob('transcode', own, ({ JOB_SPEC }, tools) => transcode(JOB_SPEC, tools))
// Idle connections to the store must not keep the pod alive.
process.exit(exit)
