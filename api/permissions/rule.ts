import type { Uuid } from '../../lib/contract/ids.ts'
import type { Role } from '../../lib/contract/roles.ts'
import type { State } from './state.ts'

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
 * A kind of resource. `K` has all that the rules and the states of its actions need: the row that an answer is made of
 * has it, so that the answer can say what the caller may do.
 */
export interface Kind<K> {
  readonly name: string
  /** Never set: carries the type. */
  readonly row?: K
}
export const kind = <K>(name: string): Kind<K> => ({ name })

/**
 * One action of the permission service. `R` has the fields of a row that the rule needs, `S` those that its state needs;
 * `Action` without them is any action. A feature declares its actions in its `policy.ts`.
 */
export interface Action<R = never, S = never> {
  /** The name in the documents, the audit log and answers: `media.read`. */
  readonly name: string
  /**
   * The subject of the rule. `caller`: the signed-in user, outside of organizations. `organization`: the organization
   * only. Others name the kind of row that the rule also checks.
   */
  readonly on: string
  /** Human-readable description: `see a media item`. */
  readonly does: string
  readonly allow: Rule<R>
  /** Undefined for an action that every state of the row admits. */
  readonly state?: State<S> | undefined
  /** Set where the rule alone decides: the caller need not be a member of the organization. */
  readonly guests?: true
}

/** The fields of a row that the rule of this action needs. */
export type ResourceOf<A extends Action> = A extends Action<infer R, infer _> ? R : never
/** The fields of a row that the state of this action needs. */
export type StateOf<A extends Action> = A extends Action<infer _, infer S> ? S : never

/** `M`, the caller's membership; undefined for a guest, where the action admits guests. */
export type MemberFor<A extends Action, M> = A extends { guests: true } ? M | undefined : M

/** An action outside of organizations. */
export const onCaller = (name: string, does: string, allow: Rule<undefined>): Action<undefined, unknown> => ({
  name,
  on: 'caller',
  does,
  allow,
})
/** An action in an organization; only the caller's membership decides. */
export const onOrganization = (name: string, does: string, allow: Rule<undefined>): Action<undefined, unknown> => ({
  name,
  on: 'organization',
  does,
  allow,
})
/** An action on one row of an organization. */
export const on = <K extends R & S, R, S = unknown>(
  { name: kind }: Kind<K>,
  name: string,
  does: string,
  allow: Rule<R>,
  state?: State<S>,
): Action<R, S> => ({ name, on: kind, does, allow, state })
/** The same for callers who need not be members. */
export const onForGuests = <K extends R & S, R, S = unknown>(...given: Parameters<typeof on<K, R, S>>) => ({
  ...on(...given),
  guests: true as const,
})

/** Whether the rule checks a row besides the caller and the organization. */
export const isOnRow = ({ on }: Pick<Action, 'on'>) => on !== 'caller' && on !== 'organization'

/** Reason of a decision. `no_such_resource` occurs only in a dry run: requests decide only on existing rows. */
export const REASONS = ['allowed', 'not_a_member', 'no_such_resource', 'rule_not_met'] as const
export type Reason = (typeof REASONS)[number]

/** Whether the action is refused to everyone who is not a member, whatever its rule says. */
export const needsMembership = (action: Pick<Action, 'on' | 'guests'>) => action.on !== 'caller' && !action.guests

/** Interface specification §5.5. Only members may act in an organization, except where an action admits guests. */
export function decide<R>(action: Action<R, never>, asking: Asking, resource: R): Reason {
  if (needsMembership(action) && asking.role === null) return 'not_a_member'
  if (holds(action.allow, asking, resource)) return 'allowed'
  // Neither a member nor, where the action admits them, a guest.
  return action.guests && asking.role === null ? 'not_a_member' : 'rule_not_met'
}

/** The names of those of these actions that the caller may do now. `resource` has what all of them need. */
export const listAllowed = (actions: readonly Action[], asking: Asking, resource: unknown): string[] =>
  (actions as readonly Action<unknown, unknown>[])
    .filter((action) => decide(action, asking, resource) === 'allowed' && action.state?.(resource) === undefined)
    .map(({ name }) => name)

export interface Explanation {
  reason: Reason
  /** The role, and each fact of the rule with its value. */
  facts: Record<string, string | boolean | null>
}

/** The same decision with its input. `resource` is undefined if the row does not exist. */
export function explain(action: Action, asking: Asking, resource: unknown): Explanation {
  const rule = action.allow as Rule<unknown>
  const isMissing = resource === undefined && isOnRow(action)
  if (isMissing) {
    return {
      reason: needsMembership(action) && asking.role === null ? 'not_a_member' : 'no_such_resource',
      facts: { role: asking.role },
    }
  }
  const facts = factsOf(rule).map((one) => [one.name, one.holds(asking, resource)] as const)
  return {
    reason: decide(action as Action<unknown, unknown>, asking, resource),
    facts: { role: asking.role, ...Object.fromEntries(facts) },
  }
}
