import type { Uuid } from '../../lib/contract/ids.ts'
import type { Database } from './db.ts'
import { sql } from './orm.ts'
import { prepared } from './prepared.ts'

/** Tables with a function `organization_of_<table>` (see `make_organization_lookup` in the migrations). */
export type OrganizationLookup = 'media' | 'invitations' | 'albums' | 'notifications' | 'timeline_items'

/**
 * The organization of a row, for requests whose path names none: row-level security hides the row until the
 * organization is known. This function returns the organization of any row, whatever the caller may see.
 */
export async function organizationOf(db: Database, table: OrganizationLookup, id: Uuid): Promise<Uuid | undefined> {
  const lookup = `organization_of_${table}`
  const rows = await db.readAtOnce({}, (tx) =>
    prepared(tx, lookup, { id }, () =>
      tx
        .select({ org: sql<Uuid | null>`org` })
        .from(sql`${sql.identifier(lookup)}(${sql.placeholder('id')}::uuid) as org`),
    ),
  )
  return rows[0]?.org ?? undefined
}
