import type { Uuid } from '../../../lib/contract/ids.ts'

/** A row that waits for one of its organization's slots. */
export interface WaitingRow {
  id: Uuid
  createdAt: Date
}

export interface OrganizationSeen {
  /** Rows that have a slot. */
  admitted: number
  /** Oldest first. May be truncated to the number of slots. */
  waiting: readonly WaitingRow[]
}

/**
 * Returns the rows to admit now, in the order in which to create their resources; the cluster serves them in that order.
 * Organizations take turns: every organization gets its n-th slot before any gets one more. Within a turn, and within an
 * organization, the oldest row comes first.
 */
export function admissionsOf(organizations: readonly OrganizationSeen[], maxPerOrganization: number): Uuid[] {
  const next = organizations.flatMap(({ admitted, waiting }) =>
    waiting.slice(0, Math.max(0, maxPerOrganization - admitted)).map((row, i) => ({ ...row, slot: admitted + i })),
  )
  return next.sort((a, b) => a.slot - b.slot || byAge(a, b)).map(({ id }) => id)
}

const byAge = (a: WaitingRow, b: WaitingRow) => a.createdAt.getTime() - b.createdAt.getTime() || (a.id < b.id ? -1 : 1)
