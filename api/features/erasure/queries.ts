import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Role } from '../../../lib/contract/roles.ts'
import type { Tx } from '../../db/db.ts'
import { and, asc, desc, eq, inArray, isNull, or, sql } from '../../db/orm.ts'
import {
  type ErasureRow,
  type ErasureStepRow,
  erasureLedger,
  erasureResources,
  erasureSteps,
  erasures,
} from '../../db/schema/erasures.ts'
import { memberships, organizations } from '../../db/schema/organizations.ts'
import { users } from '../../db/schema/users.ts'
import type { ErasedPerson } from '../../personal/part.ts'
import { change, successorIn } from '../../personal/queries.ts'
import { lockMembers } from '../organizations/queries.ts'

export type { ErasureRow, ErasureStepRow } from '../../db/schema/erasures.ts'

// ---------------------------------------------------------------- closing an account

/** In order of id. As keepsake_api in the scope of this user. */
export async function organizationsOf(tx: Tx, userId: Uuid): Promise<Uuid[]> {
  const rows = await tx
    .select({ orgId: memberships.orgId })
    .from(memberships)
    .where(eq(memberships.userId, userId))
    .orderBy(asc(memberships.orgId))
  return rows.map(({ orgId }) => orgId)
}

/** One transaction ends memberships of several organizations: from here on row-level security shows this one. */
const enter = (tx: Tx, orgId: Uuid) => tx.execute(sql`select set_config('app.org', ${orgId}, true)`)

export interface Owned {
  orgId: Uuid
  name: string
  /** The user is its only owner. */
  isLastOwner: boolean
  /** Members besides the user. */
  others: number
}

/** Locks the membership of the user and those of the owners, before the account: accepting an invitation does so too. */
export async function lockMembership(tx: Tx, orgId: Uuid, userId: Uuid): Promise<Owned> {
  await enter(tx, orgId)
  const locked = await lockMembers(tx, orgId, [userId])
  const isOwner = locked.some((member) => member.userId === userId && member.role === 'owner')
  const isLastOwner = isOwner && locked.filter(({ role }) => role === 'owner').length === 1
  const others = (await tx.$count(memberships, eq(memberships.orgId, orgId))) - 1
  const [org] = await tx.select({ name: organizations.name }).from(organizations).where(eq(organizations.id, orgId))
  return { orgId, name: org?.name ?? '', isLastOwner, others }
}

/** After a restore no one can be asked: who would take over becomes the owner. */
export async function promoteSuccessor(tx: Tx, orgId: Uuid, userId: Uuid): Promise<void> {
  const role: Role = 'owner'
  await tx.execute(sql`update ${memberships} set role = ${role}
    where org_id = ${orgId} and user_id = ${successorIn(sql`${orgId}`, userId)}`)
}

/**
 * Someone may have accepted an invitation to an organization while its last member closed the account: neither transaction
 * saw the other. Returns in how many organizations a member became the owner.
 */
export async function promoteLeft(tx: Tx, { erasureId, userId }: ErasedPerson): Promise<number> {
  const owner: Role = 'owner'
  return change(
    tx,
    sql`update ${memberships} set role = ${owner}
      where org_id in (select unnest(sole_owner_of) from ${erasures} where id = ${erasureId})
        and user_id = ${successorIn(sql`memberships.org_id`, userId)}
        and not exists (select from ${memberships} o where o.org_id = memberships.org_id and o.role = ${owner})`,
  )
}

/**
 * Locks the account, against everything that refers to it: transactions that have stored something about the user are
 * waited for, and later ones find it closed. Undefined for an unknown user.
 */
export async function lockAccount(tx: Tx, userId: Uuid): Promise<{ isClosed: boolean } | undefined> {
  const [row] = await tx
    .select({ isClosed: sql<boolean>`${users.closedAt} is not null` })
    .from(users)
    .where(eq(users.id, userId))
    .for('update')
  return row
}

/** Deferred triggers tell the feeds of the organization at once, as long as row-level security shows it. */
export async function endMembership(tx: Tx, orgId: Uuid, userId: Uuid): Promise<void> {
  await enter(tx, orgId)
  await tx.delete(memberships).where(and(eq(memberships.orgId, orgId), eq(memberships.userId, userId)))
  await tx.execute(sql`set constraints all immediate`)
  await tx.execute(sql`set constraints all deferred`)
}

/** Every token of the user is refused from now on, by every version of the API. */
export async function close(tx: Tx, userId: Uuid): Promise<void> {
  await tx
    .update(users)
    .set({ closedAt: sql`now()`, tokensNotBefore: 'infinity', updatedAt: sql`now()` })
    .where(eq(users.id, userId))
}

// ---------------------------------------------------------------- erasures

export type NewErasure = Pick<ErasureRow, 'id' | 'userId' | 'askedBy' | 'administratorId' | 'reason'>

/** With its name in the ledger, which is written to the object store afterwards: so this database always knows as much. */
export async function insertErasure(
  tx: Tx,
  row: NewErasure & Pick<ErasureRow, 'soleOwnerOf'>,
  ledgerName: string,
): Promise<ErasureRow> {
  const [made] = await tx.insert(erasures).values(row).returning()
  if (!made) throw new Error('an erasure was not inserted')
  await addToLedger(tx, [ledgerName])
  return made
}

export async function findErasure(tx: Tx, by: { id: Uuid } | { userId: Uuid }): Promise<ErasureRow | undefined> {
  const [row] = await tx
    .select()
    .from(erasures)
    .where('id' in by ? eq(erasures.id, by.id) : eq(erasures.userId, by.userId))
  return row
}

export const findSteps = (tx: Tx, erasureId: Uuid): Promise<ErasureStepRow[]> =>
  tx
    .select()
    .from(erasureSteps)
    .where(eq(erasureSteps.erasureId, erasureId))
    .orderBy(asc(erasureSteps.finishedAt), asc(erasureSteps.step))

// ---------------------------------------------------------------- the saga

/** Undefined if another worker carries it out, or it is completed. */
export async function claim(
  tx: Tx,
  id: Uuid,
  o: { holder: Uuid; seconds: number },
): Promise<(ErasedPerson & { requestedAt: Date }) | undefined> {
  const { rowCount } = await tx
    .update(erasures)
    .set({ leaseHolder: o.holder, leaseUntil: sql`now() + make_interval(secs => ${o.seconds})` })
    .where(
      and(
        eq(erasures.id, id),
        eq(erasures.status, 'processing'),
        or(isNull(erasures.leaseUntil), sql`${erasures.leaseUntil} <= now()`, eq(erasures.leaseHolder, o.holder)),
      ),
    )
  if (rowCount !== 1) return undefined
  const [row] = await tx
    .select({
      erasureId: erasures.id,
      requestedAt: erasures.requestedAt,
      userId: users.id,
      issuer: users.issuer,
      subject: users.subject,
      email: sql<string | null>`lower(${users.email})`,
      phoneNumber: users.phoneNumber,
    })
    .from(erasures)
    .innerJoin(users, eq(users.id, erasures.userId))
    .where(eq(erasures.id, id))
  return row
}

export async function dropLease(tx: Tx, id: Uuid, holder: Uuid): Promise<void> {
  await tx
    .update(erasures)
    .set({ leaseHolder: null, leaseUntil: null })
    .where(and(eq(erasures.id, id), eq(erasures.leaseHolder, holder)))
}

export async function isUnfinished(tx: Tx, id: Uuid): Promise<boolean> {
  return (await tx.$count(erasures, and(eq(erasures.id, id), eq(erasures.status, 'processing')))) > 0
}

/** The oldest first. */
export async function listUnfinished(tx: Tx): Promise<Uuid[]> {
  const rows = await tx
    .select({ id: erasures.id })
    .from(erasures)
    .where(eq(erasures.status, 'processing'))
    .orderBy(asc(erasures.requestedAt))
  return rows.map(({ id }) => id)
}

export async function beginStep(tx: Tx, erasureId: Uuid, step: string): Promise<void> {
  await tx
    .insert(erasureSteps)
    .values({ erasureId, step, attempts: 1 })
    .onConflictDoUpdate({
      target: [erasureSteps.erasureId, erasureSteps.step],
      set: { attempts: sql`${erasureSteps.attempts} + 1`, updatedAt: sql`now()` },
    })
}

/** Adds what was erased this time. A step that was killed before this line counts less than it erased. */
export async function recordStep(
  tx: Tx,
  erasureId: Uuid,
  step: string,
  o: { counts: Readonly<Record<string, number>>; isDone: boolean },
): Promise<void> {
  const added = sql`(select coalesce(jsonb_object_agg(name, n), '{}') from (
    select name, sum(value::bigint) as n from (
      select * from jsonb_each_text(${erasureSteps.counts})
      union all select * from jsonb_each_text(${JSON.stringify(o.counts)}::jsonb)) as counted (name, value)
    group by name) summed)`
  await tx
    .update(erasureSteps)
    .set({
      counts: added,
      lastError: null,
      updatedAt: sql`now()`,
      ...(o.isDone && { state: 'done' as const, finishedAt: sql`now()` }),
    })
    .where(and(eq(erasureSteps.erasureId, erasureId), eq(erasureSteps.step, step), eq(erasureSteps.state, 'pending')))
}

export async function recordFailure(tx: Tx, erasureId: Uuid, step: string, message: string): Promise<void> {
  await tx
    .update(erasureSteps)
    .set({ lastError: message.slice(0, 500), updatedAt: sql`now()` })
    .where(and(eq(erasureSteps.erasureId, erasureId), eq(erasureSteps.step, step)))
}

/** False if it was completed before. */
export async function complete(tx: Tx, id: Uuid): Promise<boolean> {
  const { rowCount } = await tx
    .update(erasures)
    .set({
      status: 'completed',
      completedAt: sql`now()`,
      heldSince: null,
      reason: null,
      leaseHolder: null,
      leaseUntil: null,
    })
    .where(and(eq(erasures.id, id), eq(erasures.status, 'processing')))
  await tx.delete(erasureResources).where(eq(erasureResources.erasureId, id))
  return rowCount === 1
}

/** Has the workers go on with these now, anyone who holds them. */
export async function wake(tx: Tx, ids: readonly Uuid[]): Promise<void> {
  await tx
    .update(erasures)
    .set({ leaseUntil: null, leaseHolder: null })
    .where(inArray(erasures.id, [...ids]))
  for (const id of ids) await tx.execute(sql`select pg_notify('erasures', ${id})`)
}

export interface ListedErasure extends ErasureRow {
  open: number
  lastError: string | null
}

export async function listErasures(tx: Tx, o: { unfinished: boolean; limit: number }): Promise<ListedErasure[]> {
  const isOpen = sql`s.erasure_id = ${erasures.id} and s.state = 'pending'`
  return tx
    .select({
      id: erasures.id,
      userId: erasures.userId,
      askedBy: erasures.askedBy,
      administratorId: erasures.administratorId,
      reason: erasures.reason,
      status: erasures.status,
      requestedAt: erasures.requestedAt,
      completedAt: erasures.completedAt,
      soleOwnerOf: erasures.soleOwnerOf,
      leaseUntil: erasures.leaseUntil,
      leaseHolder: erasures.leaseHolder,
      heldSince: erasures.heldSince,
      open: sql<number>`(select count(*)::int from erasure_steps s where ${isOpen})`,
      lastError: sql<string | null>`(select s.step || ': ' || s.last_error from erasure_steps s
        where ${isOpen} and s.last_error is not null order by s.updated_at desc limit 1)`,
    })
    .from(erasures)
    .where(o.unfinished ? eq(erasures.status, 'processing') : undefined)
    .orderBy(desc(erasures.requestedAt))
    .limit(o.limit)
}

const LATE_SECONDS = 3600

/** How many erasures are not completed an hour after the request, without those that wait for the end of a hold. */
export async function countLate(tx: Tx): Promise<number> {
  return tx.$count(
    erasures,
    sql`${erasures.status} = 'processing' and ${erasures.heldSince} is null and ${erasures.requestedAt} < now() - make_interval(secs => ${LATE_SECONDS})`,
  )
}

export async function oldestSeconds(tx: Tx): Promise<number> {
  const [row] = await tx
    .select({ seconds: sql<number>`coalesce(extract(epoch from now() - min(${erasures.requestedAt})), 0)::float8` })
    .from(erasures)
    .where(eq(erasures.status, 'processing'))
  return row?.seconds ?? 0
}

// ---------------------------------------------------------------- the ledger

export async function addToLedger(tx: Tx, names: readonly string[]): Promise<void> {
  if (names.length === 0) return
  await tx.execute(sql`insert into ${erasureLedger} (name) select * from unnest(${sql.param([...names])}::text[])
    on conflict do nothing`)
}

/** Those of these names that the database does not know. */
export async function unknownOf(tx: Tx, names: readonly string[]): Promise<string[]> {
  const { rows } = await tx.execute<{ name: string }>(sql`
    select given.name from unnest(${sql.param([...names])}::text[]) as given (name)
    where not exists (select from ${erasureLedger} known where known.name = given.name)`)
  return rows.map(({ name }) => name)
}

/** The ids of users in order, a page at a time. */
export async function listUsers(tx: Tx, after: Uuid, limit: number): Promise<Uuid[]> {
  const { rows } = await tx.execute<{ id: Uuid }>(
    sql`select id from ${users} where id > ${after} order by id limit ${limit}`,
  )
  return rows.map(({ id }) => id)
}
