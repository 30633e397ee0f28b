import type { Uuid } from '../../lib/contract/ids.ts'
import type { Role } from '../../lib/contract/roles.ts'

/** The caller. `role` is the role in the organization of the request; null for a non-member. */
export interface Asking {
  userId: Uuid
  role: Role | null
  /** ROLE_ADMIN in the token. */
  platformAdmin: boolean
}

/** A predicate on the caller and, depending on `R`, on the resource. */
export interface Fact<R> {
  readonly name: string
  /** Completes the sentence "Allowed for …". */
  readonly says: string
  readonly holds: (asking: Asking, resource: R) => boolean
}

/** A combination of facts, without effects. */
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
 * The subject of a rule. `caller`: the signed-in user, outside of organizations. `organization`: the organization only.
 * The others name the kind of row that the rule also checks.
 */
export type ResourceKind =
  | 'caller'
  | 'organization'
  | 'media'
  | 'upload'
  | 'event'
  | 'invitation'
  | 'membership'
  | 'album'
  | 'comment'
  | 'reaction'
  | 'highlight'

export interface ActionRule<R = unknown> {
  readonly on: ResourceKind
  /** Human-readable description: `see a media item`. */
  readonly does: string
  readonly allow: Rule<R>
  /** Set where the rule alone decides: the caller need not be a member of the organization. */
  readonly guests?: true
}

/** An action outside of organizations. */
export const onCaller = (does: string, allow: Rule<undefined>): ActionRule<undefined> => ({ on: 'caller', does, allow })
/** An action in an organization; only the caller's membership decides. */
export const onOrganization = (does: string, allow: Rule<undefined>): ActionRule<undefined> => ({
  on: 'organization',
  does,
  allow,
})
/** An action on one row of an organization. */
export const on = <R>(kind: Exclude<ResourceKind, 'caller' | 'organization'>, does: string, allow: Rule<R>) =>
  ({ on: kind, does, allow }) satisfies ActionRule<R>
/** The same for callers who need not be members. */
export const onForGuests = <R>(...[kind, does, allow]: Parameters<typeof on<R>>) =>
  ({ on: kind, does, allow, guests: true }) as const satisfies ActionRule<R>

/** Reason of a decision. `no_such_resource` occurs only in a dry run: requests decide only on existing rows. */
export const REASONS = ['allowed', 'not_a_member', 'no_such_resource', 'rule_not_met'] as const
export type Reason = (typeof REASONS)[number]

/** Whether the action is refused to everyone who is not a member, whatever its rule says. */
export const needsMembership = (action: Pick<ActionRule, 'on' | 'guests'>) => action.on !== 'caller' && !action.guests

/** Interface specification §5.5. Only members may act in an organization, except where an action admits guests. */
export function decide<R>(action: ActionRule<R>, asking: Asking, resource: R): Reason {
  if (needsMembership(action) && asking.role === null) return 'not_a_member'
  return holds(action.allow, asking, resource) ? 'allowed' : 'rule_not_met'
}

export interface Explanation {
  reason: Reason
  /** The role, and each fact of the rule with its value. */
  facts: Record<string, string | boolean | null>
}

/** The same decision with its input. `resource` is undefined if the row does not exist. */
export function explain(action: ActionRule<never>, asking: Asking, resource: unknown): Explanation {
  const rule = action.allow as Rule<unknown>
  const isMissing = resource === undefined && action.on !== 'caller' && action.on !== 'organization'
  if (isMissing) {
    return {
      reason: needsMembership(action) && asking.role === null ? 'not_a_member' : 'no_such_resource',
      facts: { role: asking.role },
    }
  }
  const facts = factsOf(rule).map((one) => [one.name, one.holds(asking, resource)] as const)
  return {
    reason: decide(action as ActionRule, asking, resource),
    facts: { role: asking.role, ...Object.fromEntries(facts) },
  }
}
