import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import type { Role } from '../../../lib/contract/roles.ts'
import type { Tx } from '../../db/db.ts'
import { and, asc, desc, eq, inArray, isNull, or, sql } from '../../db/orm.ts'
import { memberNames, memberships, organizations } from '../../db/schema/organizations.ts'
import { users } from '../../db/schema/users.ts'
import type { Member } from '../../permissions/queries.ts'
import type { PageWanted } from '../../requests/page.ts'
import { APP_NOW } from '../../retention/clock.ts'
import { purgeAfter } from '../../retention/policies-queries.ts'
import { boundsOfYear, containing } from './policy.ts'

export async function insertOrganization(tx: Tx, name: string): Promise<Uuid> {
  const id = newUuid()
  await tx.insert(organizations).values({ id, name })
  return id
}

/**
 * Locks the organization until the transaction ends, so that changes of its members by administrators are serialized. Not
 * `for update`: rows that refer to the organization are inserted by transactions that hold memberships, for which this one
 * may wait.
 */
export async function lockOrganization(tx: Tx, id: Uuid): Promise<{ name: string } | undefined> {
  const [row] = await tx
    .select({ name: organizations.name })
    .from(organizations)
    .where(eq(organizations.id, id))
    .for('no key update')
  return row
}

export async function findOrganization(tx: Tx, id: Uuid) {
  const [row] = await tx
    .select({ id: organizations.id, name: organizations.name, eventRetentionYears: organizations.eventRetentionYears })
    .from(organizations)
    .where(eq(organizations.id, id))
  return row
}
export type OrganizationRow = NonNullable<Awaited<ReturnType<typeof findOrganization>>>

/**
 * Whether so many years are longer than the policy in force keeps archived events. True where no policy purges any, so that the
 * setting can be made before there is one.
 */
export async function isLongerThanPolicy(tx: Tx, years: number): Promise<boolean> {
  const policy = purgeAfter('EventArchive', null)
  const { rows } = await tx.execute<{ longer: boolean }>(sql`
    select coalesce(${APP_NOW} + make_interval(years => ${years}::integer) > ${APP_NOW} + ${policy}, true) as longer`)
  return rows[0]?.longer ?? false
}

/**
 * Sets how long archived events are kept. A purge that is in its last transaction shares a lock of the row: this waits for it,
 * and later ones see the change. Returns what it was before.
 */
export async function setEventRetention(tx: Tx, id: Uuid, years: number | null): Promise<number | null> {
  const { rows } = await tx.execute<{ before: number | null }>(sql`
    update organizations o set event_retention_years = ${years}::smallint
    from (select id, event_retention_years from organizations where id = ${id} for update) was
    where o.id = was.id returning was.event_retention_years as before`)
  return rows[0]?.before ?? null
}

/**
 * Locks the memberships of these users and of all owners, in order of id, so that no two transactions wait for each
 * other. Every change of a role and every end of a membership calls it first: a transaction that removes the second of two
 * owners waits for the first change, and sees it. Rows that the organization lacks are left out.
 */
export async function lockMembers(tx: Tx, orgId: Uuid, userIds: readonly Uuid[]): Promise<Member[]> {
  return tx
    .select({ orgId: memberships.orgId, userId: memberships.userId, role: memberships.role })
    .from(memberships)
    .where(and(eq(memberships.orgId, orgId), or(eq(memberships.role, 'owner'), inArray(memberships.userId, userIds))))
    .orderBy(asc(memberships.userId))
    .for('update')
}

/** Makes the membership, or locks the one that there is: who accepts an invitation does not lock the organization. */
export async function insertMembership(
  tx: Tx,
  member: Member,
): Promise<{ isNew: boolean; role: Role; joinedAt: Date }> {
  const { orgId, userId, role, joinedAt } = memberships
  const [row] = await tx
    .insert(memberships)
    .values(member)
    .onConflictDoUpdate({ target: [orgId, userId], set: { role: sql`${role}` } })
    .returning({ isNew: sql<boolean>`xmax = 0`, role, joinedAt })
  if (!row) throw new Error('a membership was not inserted')
  return row
}

export async function updateRole(tx: Tx, { orgId, userId, role }: Member): Promise<void> {
  await tx
    .update(memberships)
    .set({ role })
    .where(and(eq(memberships.orgId, orgId), eq(memberships.userId, userId)))
}

export async function deleteMembership(tx: Tx, { orgId, userId }: Omit<Member, 'role'>): Promise<void> {
  await tx.delete(memberships).where(and(eq(memberships.orgId, orgId), eq(memberships.userId, userId)))
}

export async function findOrganizationName(tx: Tx, orgId: Uuid): Promise<string | undefined> {
  const [row] = await tx.select({ name: organizations.name }).from(organizations).where(eq(organizations.id, orgId))
  return row?.name
}

export interface ListedMember {
  id: Uuid
  displayName: string | null
  role: Role
  isLastOwner: boolean
  /** When the user joined. */
  createdAt: string
}

/** For a row of `page`. Only for owners, this looks into the index of owners. */
const isLastOwner = sql<boolean>`(page.role = 'owner' and not exists (select from memberships o
  where o.org_id = page.org_id and o.role = 'owner' and o.user_id <> page.user_id))`

export interface MemberFilter {
  orgId: Uuid
  userId?: Uuid
  joinedYear?: number | undefined
}

function matching({ orgId, userId, joinedYear }: MemberFilter, of: typeof memberships | typeof memberNames) {
  const year = joinedYear === undefined ? undefined : boundsOfYear(joinedYear)
  return and(
    eq(of.orgId, orgId),
    userId === undefined ? undefined : eq(of.userId, userId),
    year && sql`${of.joinedAt} >= ${year.from}::timestamptz and ${of.joinedAt} < ${year.to}::timestamptz`,
  )
}

/** The latest to join first. */
export async function listMembers(
  tx: Tx,
  { after, limit, ...filter }: MemberFilter & PageWanted,
): Promise<ListedMember[]> {
  const behind =
    after && sql`(${memberships.joinedAt}, ${memberships.userId}) < (${after.at}::timestamptz, ${after.id}::uuid)`
  const { orgId, userId, role, joinedAt } = memberships
  // Row-level security makes the planner expect few members: without the subquery it reads the names of all of them.
  const page = tx
    .select({ orgId, userId, role, joinedAt })
    .from(memberships)
    .where(and(matching(filter, memberships), behind))
    .orderBy(desc(joinedAt), desc(userId))
    .limit(limit)
    .as('page')
  return tx
    .select({
      id: page.userId,
      displayName: users.displayName,
      role: page.role,
      isLastOwner,
      // With all digits, for cursors.
      createdAt: sql<string>`to_char(${page.joinedAt} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
    })
    .from(page)
    .innerJoin(users, eq(users.id, page.userId))
    .orderBy(desc(page.joinedAt), desc(page.userId))
}

export const countMembers = (tx: Tx, filter: MemberFilter): Promise<number> =>
  tx.$count(memberships, matching(filter, memberships))

/** Nothing but the total where the page is empty. */
type Found = Record<string, unknown> & { total: number } & (ListedMember | { id: null })

/** A page of those whose name contains `query`, and how many match on all pages: one query, which compares each name once. */
export async function searchMembers(
  tx: Tx,
  { after, limit, query, ...filter }: MemberFilter & { query: string } & PageWanted,
): Promise<{ members: ListedMember[]; total: number }> {
  const behind = after ? sql`(joined_at, user_id) < (${after.at}::timestamptz, ${after.id}::uuid)` : sql`true`
  const { orgId, userId, joinedAt, name } = memberNames
  // Only of the page are the memberships and the users read: of all that match they would be most of the work.
  const { rows } = await tx.execute<Found>(sql`
    with matching as materialized (
      select ${orgId}, ${userId}, ${joinedAt} from ${memberNames}
        where ${matching(filter, memberNames)} and ${name} like searchable(${containing(query)})
    ), page as (
      select first.*, m.role, u.display_name
        from (select * from matching where ${behind} order by joined_at desc, user_id desc limit ${limit}) first
          join memberships m on m.org_id = first.org_id and m.user_id = first.user_id
          join users u on u.id = first.user_id
    )
    select counted.total, page.user_id as id, page.role, page.display_name as "displayName",
        ${isLastOwner} as "isLastOwner",
        to_char(page.joined_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "createdAt"
      from (select count(*)::int as total from matching) counted left join page on true
      order by page.joined_at desc, page.user_id desc`)
  return {
    members: rows.flatMap(({ total: _, ...row }) => (row.id === null ? [] : [row])),
    total: rows[0]?.total ?? 0,
  }
}

export async function findListedMember(tx: Tx, orgId: Uuid, userId: Uuid): Promise<ListedMember | undefined> {
  const [row] = await listMembers(tx, { orgId, userId, after: undefined, limit: 1 })
  return row
}

/** Undefined for an account that was closed: its row stays, and the database refuses what would refer to the person. */
export async function findUserById(tx: Tx, id: Uuid): Promise<Uuid | undefined> {
  const [row] = await tx
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.id, id), isNull(users.closedAt)))
  return row?.id
}

/** Of accounts that are open. E-mail addresses are not unique: two identity providers may have the same one. */
export async function findUsersByEmail(tx: Tx, email: string): Promise<Uuid[]> {
  const rows = await tx
    .select({ id: users.id })
    .from(users)
    .where(and(eq(sql`lower(${users.email})`, email.toLowerCase()), isNull(users.closedAt)))
    .limit(2)
  return rows.map((r) => r.id)
}

/** Inserts the row that the first sign-in of the user will find; no effect if it exists. */
export async function ensureUser(tx: Tx, user: { id: Uuid; issuer: string; subject: string }): Promise<void> {
  await tx
    .insert(users)
    .values({ ...user, tokensNotBefore: '-infinity' })
    .onConflictDoNothing()
}
