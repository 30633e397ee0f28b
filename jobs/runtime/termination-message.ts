import type { JobResult, OutputResult } from '../../lib/contract/job-result.ts'

/** The kubelet truncates a termination message at this many bytes, which would break the JSON. */
const MAX_BYTES = 4096

/**
 * The result as JSON that always fits. When it is too long, these go first, in this order: why the last input was
 * made as it was, long output messages, all output messages, manifest keys (they follow from the output prefix), and
 * finally the outputs that succeeded.
 */
export function terminationMessage({ planReason, ...result }: JobResult): string {
  const whole = JSON.stringify({ ...result, ...(planReason && { planReason }) })
  if (Buffer.byteLength(whole) <= MAX_BYTES) return whole
  for (const shrink of SHRINKERS) {
    const text = JSON.stringify(shrink(result))
    if (Buffer.byteLength(text) <= MAX_BYTES) return text
  }
  return JSON.stringify({ ok: result.ok, ...(result.reason && { reason: result.reason }) })
}

const SHRINKERS: ((r: JobResult) => JobResult)[] = [
  (r) => r,
  (r) => mapOutputs(r, (o) => (o.message ? { ...o, message: o.message.slice(0, 96) } : o)),
  (r) => mapOutputs(r, withoutMessage),
  (r) => mapOutputs(r, (o) => withoutKey(withoutMessage(o))),
  (r) => ({ ...mapOutputs(r, (o) => withoutKey(withoutMessage(o))), message: (r.message ?? '').slice(0, 96) }),
  (r) => ({
    ...r,
    message: (r.message ?? '').slice(0, 96),
    outputs: r.outputs?.filter((o) => o.state === 'Failed').map((o) => withoutKey(withoutMessage(o))),
  }),
]

const mapOutputs = (r: JobResult, change: (o: OutputResult) => OutputResult): JobResult => ({
  ...r,
  outputs: r.outputs?.map(change),
})
const withoutMessage = ({ message: _, ...o }: OutputResult): OutputResult => o
const withoutKey = ({ manifestKey: _, ...o }: OutputResult): OutputResult => o
