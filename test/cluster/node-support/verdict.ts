import type { Test } from 'tap'
import { succeededOf } from '../../../crds/run.ts'
import type { TranscodeJob } from '../../../crds/transcode-job.ts'

/** The verdict of a resource, which goes into the output as well: docs/operator-hard-cases.md quotes it. */
export function verdict(t: Test, { metadata, status }: TranscodeJob) {
  const { status: is, reason, message } = succeededOf(status) ?? {}
  t.comment(`${metadata.name}: ${is} ${reason} after ${status?.attempts} attempts: ${message}`)
  return { is, reason, message, attempts: status?.attempts }
}
