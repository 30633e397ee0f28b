import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { inArray, type PgTable, type SQL, sql } from '../../db/orm.ts'
import { organizations } from '../../db/schema/organizations.ts'
import type { OrganizationSeen, WaitingRow } from './admission-plan.ts'

/** Rows that need a slot of their organization before they get a resource. Each line has slots of its own. */
export interface Line {
  /** Has the columns `id`, `org_id` and `created_at`. */
  table: PgTable
  /** Unfinished rows with a slot. Matches the predicate of an index literally: the planner requires it. */
  isAdmitted: SQL
  /** Unfinished rows without one; the same applies. */
  isWaiting: SQL
  /** How many slots a row takes, at most as many as an organization has; one where it is omitted. */
  slots?: SQL
}

/** Organizations with a row that waits; `more` is a condition on `waiting.org_id`. */
export async function listWaitingOrganizations(
  tx: Tx,
  { table, isWaiting }: Pick<Line, 'table' | 'isWaiting'>,
  more: SQL = sql`true`,
): Promise<Uuid[]> {
  // Skips from one organization to the next in the index instead of scanning all waiting rows.
  const { rows } = await tx.execute<{ orgId: Uuid }>(sql`
    with recursive waiting (org_id) as (
      (select org_id from ${table} where ${isWaiting} order by org_id limit 1)
      union all
      select (select r.org_id from ${table} r where ${isWaiting} and r.org_id > waiting.org_id order by r.org_id limit 1)
      from waiting where waiting.org_id is not null
    )
    select org_id as "orgId" from waiting where org_id is not null and ${more}`)
  return rows.map(({ orgId }) => orgId)
}

/** Organizations with a free slot and a row that waits for one. */
export function listAdmissible(tx: Tx, line: Line, maxPerOrganization: number): Promise<Uuid[]> {
  const { table, isAdmitted } = line
  const admitted = sql`(select ${slotsOf(line)} from ${table} r where r.org_id = waiting.org_id and ${isAdmitted})`
  return listWaitingOrganizations(tx, line, sql`${admitted} < ${maxPerOrganization}`)
}

/** Keeps other transactions from giving slots of these organizations until this one ends. Locks in order of id. */
export async function lockAdmissions(tx: Tx, orgIds: readonly Uuid[]): Promise<void> {
  await tx
    .select({ id: organizations.id })
    .from(organizations)
    .where(inArray(organizations.id, [...orgIds]))
    .orderBy(organizations.id)
    // Not `for update`, which would block inserts of rows that refer to the organization.
    .for('no key update')
}

/** The slots that rows take together. */
const slotsOf = ({ slots }: Pick<Line, 'slots'>): SQL => (slots ? sql`coalesce(sum(${slots}), 0)` : sql`count(*)`)

/** Counts the slots that are taken in each organization and lists at most `limit` of the rows that wait. */
export async function findOrganizations(
  tx: Tx,
  line: Line,
  orgIds: readonly Uuid[],
  limit: number,
): Promise<OrganizationSeen[]> {
  const { table, isAdmitted, isWaiting, slots = sql`1` } = line
  const fields = sql`'id', id, 'createdAt', created_at, 'slots', slots`
  const { rows } = await tx.execute<{
    admitted: number
    waiting: (Omit<WaitingRow, 'createdAt'> & { createdAt: string })[]
  }>(sql`
    select
      (select ${slotsOf(line)}::int from ${table} r where r.org_id = o.id and ${isAdmitted}) as admitted,
      (select coalesce(json_agg(json_build_object(${fields}) order by created_at, id), '[]')
        from (select id, created_at, ${slots} as slots from ${table} r where r.org_id = o.id and ${isWaiting}
          order by created_at, id limit ${limit}) oldest) as waiting
    from ${organizations} o where ${inArray(sql`o.id`, [...orgIds])}`)
  return rows.map(({ admitted, waiting }) => ({
    admitted,
    waiting: waiting.map((row) => ({ ...row, createdAt: new Date(row.createdAt) })),
  }))
}

/**
 * Locks those of these rows that still wait, and returns their ids: Postgres checks the condition again once it has the
 * lock. In order of id, as every transaction that locks several of them: otherwise two could wait for each other.
 */
export async function lockWaiting(
  tx: Tx,
  { table, isWaiting }: Pick<Line, 'table' | 'isWaiting'>,
  ids: readonly Uuid[],
): Promise<Uuid[]> {
  const { rows } = await tx.execute<{ id: Uuid }>(
    sql`select id from ${table} where ${inArray(sql`id`, [...ids])} and ${isWaiting} order by id for no key update`,
  )
  return rows.map(({ id }) => id)
}

/** How many rows wait. */
export async function countWaiting(tx: Tx, { table, isWaiting }: Pick<Line, 'table' | 'isWaiting'>): Promise<number> {
  const { rows } = await tx.execute<{ n: number }>(sql`select count(*)::int as n from ${table} where ${isWaiting}`)
  return rows[0]?.n ?? 0
}
