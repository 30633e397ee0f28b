import type { Uuid } from '../../lib/contract/ids.ts'
import type { Role } from '../organizations/policy.ts'

/** Who asks. `role` is the membership in the organization in question; null without one. */
export interface Asking {
  userId: Uuid
  role: Role | null
  /** ROLE_ADMIN in the token. */
  platformAdmin: boolean
}

/** What a rule looks at: one thing that is true or false of the caller and, where `R` says so, of the resource. */
export interface Fact<R> {
  readonly name: string
  /** Completes the sentence "Allowed for …". */
  readonly says: string
  readonly holds: (asking: Asking, resource: R) => boolean
}

/** Facts, joined. Without effects: what decides must not be able to act. */
export type Rule<R> = Fact<R> | { readonly join: 'or' | 'and'; readonly of: readonly Rule<R>[] }

export const fact = <R = unknown>(name: string, says: string, holds: Fact<R>['holds']): Fact<R> => ({
  name,
  says,
  holds,
})
export const anyOf = <R>(...of: Rule<R>[]): Rule<R> => ({ join: 'or', of })
export const allOf = <R>(...of: Rule<R>[]): Rule<R> => ({ join: 'and', of })

export function holds<R>(rule: Rule<R>, asking: Asking, resource: R): boolean {
  if ('holds' in rule) return rule.holds(asking, resource)
  const test = (part: Rule<R>) => holds(part, asking, resource)
  return rule.join === 'or' ? rule.of.some(test) : rule.of.every(test)
}

/** `the uploader, or owners and administrators of the organization`. */
export function saysOf(rule: Rule<never>): string {
  if ('holds' in rule) return rule.says
  const parts = rule.of.map((part) => ('join' in part && part.join !== rule.join ? `(${saysOf(part)})` : saysOf(part)))
  return parts.join(`, ${rule.join} `)
}

/** Every fact of the rule once. */
export function factsOf<R>(rule: Rule<R>): Fact<R>[] {
  const all = 'holds' in rule ? [rule] : rule.of.flatMap(factsOf)
  return [...new Map(all.map((one) => [one.name, one])).values()]
}

/**
 * What a rule is about. `caller`: the signed-in person, in no organization. `organization`: the organization alone. The
 * others name the kind of row that the rule also looks at.
 */
export type ResourceKind = 'caller' | 'organization' | 'media' | 'upload'

export interface ActionRule<R = unknown> {
  readonly on: ResourceKind
  /** What the action does, for people: `see a media item`. */
  readonly does: string
  readonly allow: Rule<R>
}

/** In no organization. */
export const onCaller = (does: string, allow: Rule<undefined>): ActionRule<undefined> => ({ on: 'caller', does, allow })
/** In an organization, decided by the caller's membership alone. */
export const onOrganization = (does: string, allow: Rule<undefined>): ActionRule<undefined> => ({
  on: 'organization',
  does,
  allow,
})
/** On one row of an organization. */
export const on = <R>(kind: Exclude<ResourceKind, 'caller' | 'organization'>, does: string, allow: Rule<R>) =>
  ({ on: kind, does, allow }) satisfies ActionRule<R>

/** Why a decision is what it is. `no_such_resource` only in a dry run: where there is no row, nothing is decided. */
export const REASONS = ['allowed', 'not_a_member', 'no_such_resource', 'rule_not_met'] as const
export type Reason = (typeof REASONS)[number]

/** Interface specification §5.5. Only members may do anything in an organization, whatever the rule says. */
export function decide<R>(action: ActionRule<R>, asking: Asking, resource: R): Reason {
  if (action.on !== 'caller' && asking.role === null) return 'not_a_member'
  return holds(action.allow, asking, resource) ? 'allowed' : 'rule_not_met'
}

export interface Explanation {
  reason: Reason
  /** The role, and each fact of the rule with what it came to. */
  facts: Record<string, string | boolean | null>
}

/** The same decision with everything that it looked at. `resource` is undefined when there is no such row. */
export function explain(action: ActionRule<never>, asking: Asking, resource: unknown): Explanation {
  const rule = action.allow as Rule<unknown>
  const isMissing = resource === undefined && action.on !== 'caller' && action.on !== 'organization'
  if (isMissing) {
    return { reason: asking.role === null ? 'not_a_member' : 'no_such_resource', facts: { role: asking.role } }
  }
  const facts = factsOf(rule).map((one) => [one.name, one.holds(asking, resource)] as const)
  return {
    reason: decide(action as ActionRule, asking, resource),
    facts: { role: asking.role, ...Object.fromEntries(facts) },
  }
}
