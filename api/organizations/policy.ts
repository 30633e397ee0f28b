/** Roles in order of power: each may do what those after it may. */
export const ROLES = ['owner', 'admin', 'member'] as const
export type Role = (typeof ROLES)[number]

/** Whether someone with this role may do what `needed` may. */
export const hasRole = (member: { role: Role }, needed: Role) => ROLES.indexOf(member.role) <= ROLES.indexOf(needed)

/** An organization always keeps an owner, or nobody could ever manage it again. */
export const leavesNoOwner = (change: { from: Role; to: Role; owners: number }) =>
  change.from === 'owner' && change.to !== 'owner' && change.owners <= 1
