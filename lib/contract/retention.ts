import * as z from 'zod'
import { faultOfRules, RetentionRule, RetentionTarget } from '../../crds/retention-rules.ts'
import { Reason } from './job-result.ts'

/**
 * What the operator and the retention program agree on: the run that a pod gets, and the result that it leaves. Targets,
 * rules and durations are those of the resource (`crds/retention-rules.ts`).
 */

const Count = z.int().min(0)
const Time = z.iso.datetime().max(64)

/** The value of the environment variable RETENTION_RUN, as JSON. All pods of a run get the same. */
export const RetentionRun = z
  .object({
    policy: z.string().min(1).max(253),
    /** Of the policy: one created again under the same name is another. */
    uid: z.string().min(1).max(64),
    /** The name of the Job, which is the key of the run in Postgres. */
    run: z.string().min(1).max(63),
    target: RetentionTarget,
    rules: z.array(RetentionRule).min(1).max(8),
    /** How many things a pod leases at once. */
    batchSize: z.int().min(1).max(1000),
    /** Of the whole run: a pod takes its share of it. Unset: no limit. */
    bytesPerSecond: z.int().min(1).optional(),
    /** Pods of the run at the same time. */
    parallelism: z.int().min(1).max(16).default(1),
    /** The end of the window: no lease is taken from then on. */
    until: Time.optional(),
    dryRun: z.boolean(),
    maxDuePercent: z.int().min(1).max(100),
    /** A person has confirmed that so much is due. */
    confirmed: z.boolean(),
    /** What the run that asked had found due: a confirmation covers little more. Unset: any number. */
    confirmedDue: Count.optional(),
    /** When the run was due, or was asked for. */
    slot: Time,
  })
  .superRefine(({ target, rules }, context) => {
    const fault = faultOfRules(target, rules)
    if (fault) context.addIssue({ code: 'custom', path: ['rules'], message: fault })
  })
export type RetentionRun = z.infer<typeof RetentionRun>

/** How a run ended, as its program says. */
export const RETENTION_ENDS = [
  'Finished',
  'WindowClosed',
  'Stopped',
  'ConfirmationRequired',
  'ClockSkew',
  'StoreUnavailable',
] as const

export const RetentionError = z.object({
  /** The public id of the thing, or the key of the object. */
  id: z.string().min(1).max(128),
  code: Reason,
  message: z.string().max(256),
})
export type RetentionError = z.infer<typeof RetentionError>

/**
 * The JSON that a pod writes to its termination log (the file that TERMINATION_LOG names). The figures are those of the
 * whole run, as Postgres knows them, so those of the pod that ends last are complete.
 */
export const RetentionResult = z.object({
  v: z.literal(1),
  moved: Count,
  purged: Count,
  bytes: Count,
  failures: Count,
  /** What was due when the run began. */
  due: Count,
  ended: z.enum(RETENTION_ENDS),
  /** Human-readable, where `ended` alone does not say enough. */
  reason: z.string().max(512).optional(),
  errors: z.array(RetentionError).max(10),
  /** The key of the report of a dry run. */
  report: z.string().max(512).optional(),
})
export type RetentionResult = z.infer<typeof RetentionResult>

/** The kubelet cuts a termination message after as many bytes. */
const MAX_MESSAGE_BYTES = 4096

/** The termination message of a result: with as many of the first errors as fit. */
export function retentionMessage(result: RetentionResult): string {
  for (let count = Math.min(result.errors.length, 10); ; count--) {
    const text = JSON.stringify({ ...result, errors: result.errors.slice(0, count) })
    if (count === 0 || Buffer.byteLength(text) <= MAX_MESSAGE_BYTES) return text
  }
}

/** Undefined unless the text is a complete, valid result: a killed program leaves half a file or none. */
export function parseRetentionResult(text: string | undefined): RetentionResult | undefined {
  if (!text) return undefined
  try {
    return RetentionResult.safeParse(JSON.parse(text)).data
  } catch {
    return undefined
  }
}
