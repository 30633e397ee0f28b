import * as z from 'zod'

/**
 * Exit codes of every job program: the contract with `podFailurePolicy`. ffmpeg's own codes differ by version and are
 * 0 for corrupt input, so the job program decides. 10 to 13: permanent (FailJob). All others: retry (Count).
 */
export const EXIT = {
  ok: 0,
  badSpec: 10,
  inputMissing: 11,
  inputBad: 12,
  encoderMissing: 13,
  transient: 20,
  noSpace: 21,
  gpuBusy: 22,
  verificationFailed: 30,
  terminated: 143,
} as const
export const PERMANENT_EXITS: readonly number[] = [EXIT.badSpec, EXIT.inputMissing, EXIT.inputBad, EXIT.encoderMissing]

/** A machine-readable reason in Kubernetes' style, e.g. `CorruptInput`. */
export const Reason = z
  .string()
  .regex(/^[A-Z][A-Za-z0-9]*$/)
  .max(64)

/** The result of one input. */
export const OutputResult = z.object({
  id: z.string().max(64),
  state: z.enum(['Succeeded', 'Failed']),
  manifestKey: z.string().max(512).optional(),
  reason: Reason.optional(),
  message: z.string().max(512).optional(),
  /** The item that made an output of several items fail. */
  item: z.string().max(64).optional(),
})
export type OutputResult = z.infer<typeof OutputResult>

/** The JSON that a job program writes to its termination log. The kubelet truncates it at 4096 bytes. */
export const JobResult = z.object({
  ok: z.boolean(),
  reason: Reason.optional(),
  message: z.string().max(1024).optional(),
  accelerator: z.enum(['gpu', 'cpu']).optional(),
  acceleratorReason: z.string().max(256).optional(),
  /** How the latest video was encoded, and why. */
  planReason: z.string().max(256).optional(),
  outputs: z.array(OutputResult).max(64).optional(),
})
export type JobResult = z.infer<typeof JobResult>

/** Undefined unless the text is a complete, valid result: a killed program leaves half a file or none. */
export function parseJobResult(text: string | undefined): JobResult | undefined {
  if (!text) return undefined
  try {
    return JobResult.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
