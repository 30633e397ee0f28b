import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { type Answer, aPerson, type Person, type TestApi } from './api.ts'

type Api = Pick<TestApi, 'database' | 'identity'>

export interface TestOrganization {
  id: Uuid
  wireId: string
  name: string
}

export async function anOrganization({ database }: Api, name = 'An organization'): Promise<TestOrganization> {
  const id = newUuid()
  await database.admin.query('insert into organizations (id, name) values ($1, $2)', [id, name])
  return { id, wireId: formatId('organization', id), name }
}

/** `at` is the time at which the user joined. */
export async function join({ database }: Api, orgId: Uuid, userId: Uuid, role = 'member', at?: string): Promise<void> {
  await database.admin.query(
    'insert into memberships (org_id, user_id, role, joined_at) values ($1, $2, $3, coalesce($4::timestamptz, now()))',
    [orgId, userId, role, at],
  )
}

/** A new user with this name who joins the organization. */
export async function aMember(
  api: Api,
  orgId: Uuid,
  o: { role?: string; name?: string | null; at?: string } = {},
): Promise<Person> {
  const person = await aPerson(api)
  if (o.name) await api.database.admin.query('update users set display_name = $2 where id = $1', [person.id, o.name])
  await join(api, orgId, person.id, o.role, o.at)
  return person
}

/** Roles by user. */
export async function rolesIn({ database }: Api, orgId: Uuid): Promise<Record<Uuid, string>> {
  const { rows } = await database.admin.query('select user_id, role from memberships where org_id = $1', [orgId])
  return Object.fromEntries(rows.map((row) => [row.user_id, row.role]))
}

/**
 * Sends the requests while the rows of `lock` are locked, and lets go of them once all requests wait for a lock: none of
 * them can be over before the others have begun. `then` runs in the transaction that holds the locks.
 */
export async function atOnce<T = Answer>(
  { database: { admin } }: Api,
  lock: { text: string; values: unknown[] },
  requests: readonly (() => Promise<T>)[],
  then?: { text: string; values: unknown[] },
): Promise<T[]> {
  const holder = await admin.connect()
  try {
    await holder.query('begin')
    await holder.query(lock)
    let settled = 0
    const answers = requests.map((request) => request().finally(() => settled++))
    for (let waiting = 0; settled + waiting < requests.length; ) {
      const { rows } = await admin.query(
        `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
      waiting = rows[0].n
    }
    if (then) await holder.query(then)
    await holder.query('commit')
    return await Promise.all(answers)
  } finally {
    await holder.query('rollback')
    holder.release()
  }
}
