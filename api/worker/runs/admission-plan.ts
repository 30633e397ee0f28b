import type { Uuid } from '../../../lib/contract/ids.ts'

/** A row that waits for one of its organization's slots. */
export interface WaitingRow {
  id: Uuid
  createdAt: Date
  /** How many it takes. */
  slots: number
}

export interface OrganizationSeen {
  /** Slots that are taken. */
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
  const next = organizations.flatMap((organization) => admitted(organization, maxPerOrganization))
  return next.sort((a, b) => a.slot - b.slot || byAge(a, b)).map(({ id }) => id)
}

/** No row overtakes an older one of its organization that needs more slots than are free: it would wait for ever. */
function admitted({ admitted: taken, waiting }: OrganizationSeen, max: number): (WaitingRow & { slot: number })[] {
  const rows: (WaitingRow & { slot: number })[] = []
  let slot = taken
  for (const row of waiting) {
    if (slot + row.slots > max) break
    rows.push({ ...row, slot })
    slot += row.slots
  }
  return rows
}

const byAge = (a: WaitingRow, b: WaitingRow) => a.createdAt.getTime() - b.createdAt.getTime() || (a.id < b.id ? -1 : 1)
