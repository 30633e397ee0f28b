import type { Uuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import type { Actor } from '../auth/actor.ts'
import type { Tx } from '../db/db.ts'
import { findMembership, type Member } from './queries.ts'

export type { Member }

/** The actor as a member of the organization. To anybody else it does not exist: NOT_FOUND. */
export async function requireMember(tx: Tx, actor: Actor, orgId: Uuid): Promise<Member> {
  const member = await findMembership(tx, orgId, actor.userId)
  if (!member) throw new Problem('NOT_FOUND', 'There is nothing at this address, or not for you')
  return member
}
