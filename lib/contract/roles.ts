/** Roles, highest first: each includes the permissions of those after it. */
export const ROLES = ['owner', 'admin', 'member'] as const
export type Role = (typeof ROLES)[number]

/** Whether the member's role includes the permissions of `needed`. */
export const hasRole = (member: { role: Role }, needed: Role) => ROLES.indexOf(member.role) <= ROLES.indexOf(needed)
