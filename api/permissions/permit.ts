import { formatId, type Uuid } from '../../lib/contract/ids.ts'
import { notFound, Problem } from '../../lib/contract/problem.ts'
import type { Origin } from '../audit/queries.ts'
import type { Refusals } from '../audit/refusals.ts'
import type { ActionsOn } from './catalog.ts'
import type { Member } from './queries.ts'
import {
  type Action,
  type Asking,
  decide,
  type Kind,
  listAllowed,
  type MemberFor,
  needsMembership,
  type Reason,
  type ResourceOf,
  type StateOf,
} from './rule.ts'
import { requireState } from './state.ts'

/** A refusal of the permission service. The client gets 404; the audit log gets the reason. */
export class Denied extends Problem {
  readonly action: Action
  readonly reason: Reason
  readonly resourceId: Uuid | null

  constructor(
    action: Action,
    reason: Reason,
    resourceId: Uuid | null,
    { isOpen = false, field }: { isOpen?: boolean; field?: string | undefined } = {},
  ) {
    const { message, details } = notFound(field)
    const hidden = details && { details }
    super(isOpen ? 'FORBIDDEN' : 'NOT_FOUND', isOpen ? 'You do not have permission to do this' : message, hidden)
    this.action = action
    this.reason = reason
    this.resourceId = resourceId
  }
}

export interface Permit<A extends Action> {
  /**
   * Returns the row if the caller may perform the route's action on it. Throws Denied. `field` is what names the row in a
   * body: the response is that of `notFound(field)`.
   */
  permit<T extends ResourceOf<A>>(row: T, field?: string): T
  /**
   * Throws Denied unless the caller may perform another action, on a row that the request reaches through its own.
   */
  permitAlso<B extends Action>(action: B, row: ResourceOf<B>, field?: string): void
  /** Whether the caller may perform another action; for the content of the response. */
  can<B extends Action>(action: B, row: ResourceOf<B>): boolean
  /**
   * Whether the route's action changes something in this state of the row, which the transaction has locked; false for a
   * repeat. Throws the Problem of a state that refuses it.
   */
  ready(row: StateOf<A>): boolean
  /** The names of the actions on this row that the caller may do now: `can` of an answer. */
  now<K>(kind: Kind<K>, row: K): string[]
}

/** `now` of a request, for answers. */
export type Now = Permit<Action>['now']

export interface Gate<A extends Action> extends Permit<A> {
  /**
   * Must be called before `permit` and `can`; they use the latest membership. Throws Denied for non-members, unless the
   * action admits guests.
   */
  admit(member: Member | undefined): MemberFor<A, Member>
}

/** The request learns that the permission service has decided on it. */
interface Deciding {
  decided(): void
}
type Caller = Pick<Asking, 'userId' | 'platformAdmin'>

export interface GateOptions {
  action: Action
  actor: Caller
  context: Deciding
  /** The actions of all features on one kind of row. */
  actionsOn: ActionsOn
  /** Refused members get 403 instead of 404. */
  isOpen?: boolean
}

/** The decisions of one transaction, on the membership and the rows that the transaction read or locked. */
export function openGate<A extends Action>({
  action,
  actor,
  context,
  actionsOn,
  isOpen = false,
}: GateOptions): Gate<A> {
  let asking: Asking | undefined
  const known = () => {
    if (asking) return asking
    throw new Error(`a decision on ${action.name} was requested before the membership was known`)
  }
  const check = (
    row: unknown,
    { of = action, ...how }: { of?: Action; isOpen?: boolean; field?: string | undefined },
  ) => {
    const reason = decideOn(of, known(), row)
    context.decided()
    if (reason !== 'allowed') throw new Denied(of, reason, idOf(row), how)
  }
  return {
    admit(member) {
      if (!member && needsMembership(action)) throw new Denied(action, 'not_a_member', null)
      asking = { ...actor, role: member?.role ?? null }
      if (action.on === 'organization') check(undefined, { isOpen })
      return member as MemberFor<A, Member>
    },
    permit(row, field) {
      check(row, { isOpen, field })
      return row
    },
    permitAlso: (other, row, field) => check(row, { of: other, field }),
    can: (other, row) => decideOn(other, known(), row) === 'allowed',
    ready: (row) => requireState((action as Action<unknown, unknown>).state, row),
    now: ({ name }, row) => listAllowed(actionsOn(name), known(), row),
  }
}

const decideOn = (action: Action, asking: Asking, row: unknown) =>
  decide(action as Action<unknown, unknown>, asking, row)

const idOf = (row: unknown): Uuid | null => (row as { id?: Uuid } | undefined)?.id ?? null

/** Decides on actions of kind `caller`. Records a refusal and throws Denied. */
export async function permitCaller(
  action: Action,
  { actor, context }: { actor: Caller; context: Deciding & Origin },
  refusals: Refusals,
): Promise<void> {
  const reason = decideOn(action, { ...actor, role: null }, undefined)
  context.decided()
  if (reason === 'allowed') return
  await recordingDenials({ refusals, actor, context, orgId: null }, async () => {
    throw new Denied(action, reason, null)
  })
}

/** Runs `work`; records its denials in the audit log before it rethrows them. */
export async function recordingDenials<T>(
  o: { refusals: Refusals; actor: { userId: Uuid }; context: Origin; orgId: Uuid | null },
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof Denied) await recordDenial(o, error)
    throw error
  }
}

// The key omits organization and resource: a scanner may name any number of them.
const recordDenial = (
  { refusals, actor, context, orgId }: Parameters<typeof recordingDenials>[0],
  { action, reason, resourceId }: Denied,
) =>
  refusals.record(`${actor.userId} ${action.name} ${reason}`, {
    orgId,
    actorId: actor.userId,
    action: 'ACCESS_DENIED',
    resourceType: action.on,
    resourceId,
    context,
    details: { permission: action.name, reason, ...(orgId && { org_id: formatId('organization', orgId) }) },
  })
