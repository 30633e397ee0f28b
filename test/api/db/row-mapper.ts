import t from 'tap'
import { eq, sql } from '../../../api/db/orm.ts'
import { prepared } from '../../../api/db/prepared.ts'
import { memberships, organizations } from '../../../api/db/schema/organizations.ts'
import { users } from '../../../api/db/schema/users.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { testDatabase } from '../../support/database.ts'

/** A prepared query returns what the same query returns when drizzle maps its rows. */
const database = await testDatabase(t)
const { admin, worker } = database
const [orgId, member, stranger] = [newUuid(), newUuid(), newUuid()]
await admin.query(`insert into organizations (id, name) values ($1, 'Friends')`, [orgId])
for (const [id, name] of [
  [member, 'Mira'],
  [stranger, null],
] as const) {
  await admin.query(
    `insert into users (id, issuer, subject, display_name, tokens_not_before) values ($1, 'test', $2, $3, '-infinity')`,
    [id, id, name],
  )
}
await admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'owner')`, [orgId, member])

t.test('columns, expressions, aliases and joins', async (t) => {
  await worker.inTransaction({}, async (tx) => {
    const counted = tx
      .select({ orgId: memberships.orgId, count: sql<number>`count(*)::int`.as('count') })
      .from(memberships)
      .groupBy(memberships.orgId)
      .as('counted')
    const queries = {
      all: () => tx.select().from(users).orderBy(users.id),
      flat: () =>
        tx
          .select({
            id: users.id,
            at: users.createdAt,
            name: users.displayName,
            upper: sql<string | null>`upper(${users.displayName})`,
            decoded: sql<Date>`${users.createdAt}`.mapWith(users.createdAt),
            json: sql`jsonb_build_object('a', 1)`,
          })
          .from(users)
          .orderBy(users.id),
      nested: () =>
        tx
          .select({ user: { id: users.id, name: users.displayName }, more: sql<number>`1` })
          .from(users)
          .orderBy(users.id),
      'left join': () =>
        tx.select().from(users).leftJoin(memberships, eq(memberships.userId, users.id)).orderBy(users.id),
      'left join, chosen columns': () =>
        tx
          .select({ id: users.id, membership: { role: memberships.role, since: memberships.joinedAt } })
          .from(users)
          .leftJoin(memberships, eq(memberships.userId, users.id))
          .orderBy(users.id),
      'a null first column of a row that is there': () =>
        tx
          .select({ id: memberships.userId, user: { name: users.displayName, id: users.id } })
          .from(memberships)
          .rightJoin(users, eq(memberships.userId, users.id))
          .orderBy(users.id),
      'columns of two tables in one object': () =>
        tx
          .select({ both: { role: memberships.role, name: users.displayName, id: users.id } })
          .from(users)
          .leftJoin(memberships, eq(memberships.userId, users.id))
          .orderBy(users.id),
      'inner join and a subquery': () =>
        tx
          .select({ organization: organizations, counted: { count: counted.count } })
          .from(organizations)
          .innerJoin(counted, eq(counted.orgId, organizations.id)),
      'no row': () => tx.select().from(users).where(sql`false`),
    }
    for (const [name, build] of Object.entries(queries)) {
      const mapped: unknown = await prepared(tx, name, {}, build as never)
      t.strictSame(mapped, await build(), name)
    }
    const rename = () => tx.update(organizations).set({ name: 'Old friends' }).where(eq(organizations.id, orgId))
    t.match(await prepared(tx, 'update', {}, rename), { rowCount: 1 }, 'no rows to map')
    const { id, name } = organizations
    t.strictSame(await prepared(tx, 'returning', {}, () => rename().returning({ id, name })), [
      { id: orgId, name: 'Old friends' },
    ])
  })
})
