import { hash } from 'node:crypto'
import type { Uuid } from '../../lib/contract/ids.ts'

/** The organization of entries without one. */
export const NO_ORG: Uuid = '00000000-0000-0000-0000-000000000000'

/** A UTC day, `YYYY-MM-DD`, which sorts as text. */
export type Day = string

export const dayAfter = (day: Day, days = 1): Day =>
  new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10)

/** An entry that has no link yet, in the order of sealing. */
export interface Unsealed {
  id: Uuid
  orgId: Uuid | null
  /** The UTC day of the entry. */
  day: Day
  /** To the microsecond, as Postgres prints it. */
  at: string
  canonical: Buffer
}

/** The end of a chain. */
export interface Head {
  orgId: Uuid
  day: Day
  count: number
  hash: Buffer
}

export interface Link {
  orgId: Uuid
  day: Day
  seq: number
  at: string
  entryId: Uuid
  hash: Buffer
}

/** A chain begins with its own name: no chain can take the place of another. */
export const genesis = (orgId: Uuid, day: Day): Buffer => hash('sha256', `keepsake audit ${orgId} ${day}`, 'buffer')

export const next = (before: Buffer, canonical: Buffer): Buffer =>
  hash('sha256', Buffer.concat([before, canonical]), 'buffer')

/**
 * The day whose chain takes an entry: its own, unless that is closed. A transaction may begin before midnight and commit
 * hours later, but a day that was anchored never changes; then the oldest open day takes it.
 */
export const chainDay = (day: Day, closedUntil: Day): Day => (day > closedUntil ? day : dayAfter(closedUntil))

export const chainName = (orgId: Uuid, day: Day) => `${orgId} ${day}`

/** Links the entries to their chains. `heads` holds the present ends of these chains, as far as they have begun. */
export function linksOf(
  entries: readonly Unsealed[],
  heads: ReadonlyMap<string, Head>,
  closedUntil: Day,
): { links: Link[]; heads: Head[] } {
  const touched = new Map<string, Head>()
  const links = entries.map(({ id, orgId: org, day: ownDay, at, canonical }): Link => {
    const orgId = org ?? NO_ORG
    const day = chainDay(ownDay, closedUntil)
    const name = chainName(orgId, day)
    const head = touched.get(name) ?? heads.get(name) ?? { orgId, day, count: 0, hash: genesis(orgId, day) }
    const link = { orgId, day, seq: head.count + 1, at, entryId: id, hash: next(head.hash, canonical) }
    touched.set(name, { orgId, day, count: link.seq, hash: link.hash })
    return link
  })
  return { links, heads: [...touched.values()] }
}
