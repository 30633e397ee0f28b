import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import type { Permit } from '../permissions/permit.ts'
import type { Member } from '../permissions/queries.ts'
import type { Action, MemberFor } from '../permissions/rule.ts'
import type { Actor } from './actor.ts'
import type { Change } from './change.ts'
import type { Context } from './context.ts'

/** What every handler in an organization receives. */
export interface Asked {
  actor: Actor
  orgId: Uuid
  context: Context
}

/** Inside a transaction that changes nothing. */
export interface Read<A extends Action> extends Asked, Permit<A> {
  tx: Tx
  /** To be awaited: its query leaves with the handler's first one. After that one, `permit` works without waiting. */
  member: Promise<MemberFor<A, Member>>
}

/** Inside the transaction of a change. */
export interface Write<A extends Action> extends Asked, Permit<A>, Change {
  member: MemberFor<A, Member>
  /** For a change of memberships: decides from now on for the caller's membership as the transaction has locked it. */
  admit(member: Member | undefined): MemberFor<A, Member>
}

/** Several transactions with slow work between them, such as calls to the object store. */
export interface Steps<A extends Action> extends Asked {
  /** Throws unless the caller is a member with permission; call it before any work outside the database. */
  check(): Promise<void>
  read<T>(work: (read: Read<A>) => Promise<T>): Promise<T>
  write<T>(work: (write: Write<A>) => Promise<T>): Promise<T>
  /** The write whose result is the response: stored under the Idempotency-Key in the same transaction. */
  answer<T>(work: (write: Write<A>) => Promise<T>): Promise<T>
}

/** A response with another status than the declared one, e.g. 200 when a repeat changed nothing. */
export class WithStatus<T> {
  readonly status: number
  readonly data: T
  constructor(status: number, data: T) {
    this.status = status
    this.data = data
  }
}
