import * as z from 'zod'
import { byAge } from '../../../crds/retention-policy.ts'
import { daysOf, RETENTION_TARGETS, RetentionRule, type RetentionTarget } from '../../../crds/retention-rules.ts'

const Metadata = z.object({ name: z.string(), uid: z.string(), creationTimestamp: z.string() })

/** What the worker reads of a RetentionPolicy. */
const PolicyObject = z.object({
  metadata: Metadata,
  spec: z.object({
    target: z.enum(RETENTION_TARGETS),
    rules: z.array(RetentionRule).min(1),
    suspend: z.boolean().default(false),
    dryRun: z.boolean().default(false),
  }),
})
type PolicyObject = z.output<typeof PolicyObject>

/** As much of it as says what it is about. */
const PolicyHead = z.object({ metadata: Metadata, spec: z.object({ target: z.string() }) })
type PolicyHead = z.output<typeof PolicyHead>

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

/** What the policies of the cluster say. */
export interface Seen {
  inForce: PolicyInForce[]
  /** In force, and not to be read by this version: the target is governed, and no one knows how. */
  unread: Pick<PolicyInForce, 'target' | 'name' | 'uid'>[]
  /** The names of policies that cannot be read, of whatever target. */
  strange: string[]
  /** One of them does not even say its target: any target may be governed by it. */
  isPartial: boolean
}

/**
 * Of several policies for one target the oldest is in force, then the first by name: the operator says the same in status. A
 * policy that this version cannot read hides no other, and is none the less in force.
 */
export function policiesInForce(objects: readonly { metadata: { name: string } }[]): Seen {
  const seen: Seen = { inForce: [], unread: [], strange: [], isPartial: false }
  const heads: { head: PolicyHead; policy: PolicyObject | undefined }[] = []
  for (const object of objects) {
    const { data: policy } = PolicyObject.safeParse(object)
    if (!policy) seen.strange.push(object.metadata.name)
    const { data: head } = PolicyHead.safeParse(object)
    if (head) heads.push({ head, policy })
    else seen.isPartial = true
  }
  const inOrder = heads.sort((a, b) => byAge(a.head, b.head))
  for (const target of RETENTION_TARGETS) {
    const found = inOrder.find(({ head }) => head.spec.target === target)
    if (!found) continue
    const { name, uid } = found.head.metadata
    if (found.policy) seen.inForce.push({ target, name, uid, ...termsOf(found.policy) })
    else seen.unread.push({ target, name, uid })
  }
  return seen
}

function termsOf({ spec }: PolicyObject): Pick<PolicyInForce, 'rules' | 'purgeAfter' | 'suspended' | 'dryRun'> {
  const purge = spec.rules.find(({ action, after }) => action === 'purge' && daysOf(after) !== undefined)
  const { rules, suspend: suspended, dryRun } = spec
  return { rules, purgeAfter: purge?.after ?? null, suspended, dryRun }
}
