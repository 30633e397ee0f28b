import type { Role } from '../db/schema/organizations.ts'

/** Roles in order of power: each may do what those after it may. */
const RANK: Record<Role, number> = { owner: 2, admin: 1, member: 0 }

export const ROLES = Object.keys(RANK) as Role[]

/** Whether someone with this role may do what `needed` may. */
export const hasRole = (member: { role: Role }, needed: Role) => RANK[member.role] >= RANK[needed]

/** An organization always keeps an owner, or nobody could ever manage it again. */
export const leavesNoOwner = (change: { from: Role; to: Role; owners: number }) =>
  change.from === 'owner' && change.to !== 'owner' && change.owners <= 1
