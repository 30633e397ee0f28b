import type { Uuid } from '../../lib/contract/ids.ts'
import type { Database, Tx } from '../db/db.ts'
import { and, eq, inArray, type SQL, sql } from '../db/orm.ts'
import { type ErasedKind, erasureLedger, erasureResources, erasureSteps, erasures } from '../db/schema/erasures.ts'
import { users } from '../db/schema/users.ts'
import type { ErasedPerson } from './part.ts'

/** Runs one statement and returns how many rows it changed. */
export const change = async (tx: Tx, statement: SQL): Promise<number> => (await tx.execute(statement)).rowCount ?? 0

const AT_ONCE = 1000

/**
 * Repeats a statement, each time in a transaction of its own, until it changes nothing: short transactions hold up no one.
 * Fewer rows than asked for say nothing: others may have deleted some that it had found. Returns how many it has changed.
 */
export async function changeAll(db: Database, statement: (limit: number) => SQL, limit = AT_ONCE): Promise<number> {
  for (let changed = 0; ; ) {
    const some = await db.inTransaction({}, (tx) => change(tx, statement(limit)))
    changed += some
    if (some === 0) return changed
  }
}

/** `(resource_id, org_id)` of what is the person's, before its rows go. */
export async function recordResources(tx: Tx, erasureId: Uuid, kind: ErasedKind, found: SQL): Promise<void> {
  await tx.execute(sql`insert into ${erasureResources} (erasure_id, kind, resource_id, org_id)
    select ${erasureId}, ${kind}, found.id, found.org_id from (${found}) as found (id, org_id)
    on conflict do nothing`)
}

/** The ids of what was recorded. */
export async function resourcesOf(tx: Tx, erasureId: Uuid, kinds?: readonly ErasedKind[]): Promise<Set<Uuid>> {
  const rows = await tx
    .select({ id: erasureResources.resourceId })
    .from(erasureResources)
    .where(
      and(eq(erasureResources.erasureId, erasureId), kinds ? inArray(erasureResources.kind, [...kinds]) : undefined),
    )
  return new Set(rows.map(({ id }) => id))
}

/**
 * The addresses of an erased person that are no one else's; null for others. Addresses are not unique, so a row that has only
 * an address may be about any of its accounts: it goes with the last one that is erased. An account that is closed for its own
 * erasure counts as long as a hold keeps this step of it from running: one that has run does not run again, and so leaves what is
 * left to the other.
 */
export async function ownAddresses(
  tx: Tx,
  { userId, email, phoneNumber }: Pick<ErasedPerson, 'userId' | 'email' | 'phoneNumber'>,
  step: string,
): Promise<Pick<ErasedPerson, 'email' | 'phoneNumber'>> {
  const isKept = sql`u.id <> ${userId} and (u.closed_at is null
    or exists (select from ${erasures} e where e.user_id = u.id and e.held_since is not null
      and not exists (select from ${erasureSteps} s where s.erasure_id = e.id and s.step = ${step} and s.state = 'done')))`
  const { rows } = await tx.execute<{ mail: boolean; phone: boolean }>(sql`select
    exists (select from ${users} u where lower(u.email) = ${email}::text and ${isKept}) as mail,
    exists (select from ${users} u where u.phone_number = ${phoneNumber}::text and ${isKept}) as phone`)
  return { email: rows[0]?.mail ? null : email, phoneNumber: rows[0]?.phone ? null : phoneNumber }
}

/** Whether the ledger, as far as this database knows it, says that the user was erased. */
export async function isInLedger(tx: Tx, name: string): Promise<boolean> {
  return (await tx.$count(erasureLedger, eq(erasureLedger.name, name))) > 0
}

/**
 * Whether the person is a member of the organization, or takes part in the event, as SQL. One who is neither any more is told
 * nothing of it that others may have written since, such as a title.
 */
export const belongsTo = (orgId: SQL, eventId: SQL, userId: Uuid): SQL<boolean> => sql<boolean>`(exists (
    select from memberships where memberships.org_id = ${orgId} and memberships.user_id = ${userId})
  or exists (select from event_participants where event_participants.event_id = ${eventId}
    and event_participants.user_id = ${userId}))`

const successor = (orgId: SQL, userId: Uuid): SQL => sql`select m.user_id from memberships m
  where m.org_id = ${orgId} and m.user_id <> ${userId}
  order by array_position(array['owner', 'admin', 'member'], m.role), m.joined_at, m.user_id limit 1`

/**
 * Who takes over what belonged to a person in an organization, as SQL: the member of the highest role who has been there
 * the longest; null in an organization without any other member.
 */
export const successorIn = (orgId: SQL, userId: Uuid): SQL => sql`(${successor(orgId, userId)})`

/**
 * The same member, whose membership cannot end before this transaction does: a removal in progress is waited for, and then
 * the next member takes over. Locks the membership after the event or the album, and before participants.
 */
export async function holdSuccessor(tx: Tx, orgId: Uuid, userId: Uuid): Promise<Uuid | null> {
  const { rows } = await tx.execute<{ user_id: Uuid }>(sql`${successor(sql`${orgId}`, userId)} for share`)
  return rows[0]?.user_id ?? null
}
