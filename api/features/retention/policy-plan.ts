import * as z from 'zod'
import { byAge } from '../../../crds/retention-policy.ts'
import { daysOf, RETENTION_TARGETS, RetentionRule, type RetentionTarget } from '../../../crds/retention-rules.ts'

/** What the worker reads of a RetentionPolicy. */
export const PolicyObject = z.object({
  metadata: z.object({ name: z.string(), uid: z.string(), creationTimestamp: z.string() }),
  spec: z.object({
    target: z.enum(RETENTION_TARGETS),
    rules: z.array(RetentionRule).min(1),
    suspend: z.boolean().default(false),
    dryRun: z.boolean().default(false),
  }),
})
export type PolicyObject = z.output<typeof PolicyObject>

export interface PolicyInForce {
  target: RetentionTarget
  name: string
  uid: string
  rules: RetentionRule[]
  /** ISO 8601; null when no rule purges. */
  purgeAfter: string | null
  suspended: boolean
  dryRun: boolean
}

/** Of several policies for one target the oldest is in force, then the first by name: the operator says the same in status. */
export function policiesInForce(policies: readonly PolicyObject[]): PolicyInForce[] {
  const inOrder = [...policies].sort(byAge)
  return RETENTION_TARGETS.flatMap((target) => {
    const policy = inOrder.find(({ spec }) => spec.target === target)
    if (!policy) return []
    const { metadata, spec } = policy
    const purge = spec.rules.find(({ action, after }) => action === 'purge' && daysOf(after) !== undefined)
    const { rules, suspend: suspended, dryRun } = spec
    return [
      { target, name: metadata.name, uid: metadata.uid, rules, purgeAfter: purge?.after ?? null, suspended, dryRun },
    ]
  })
}
