import pg from 'pg'
import t from 'tap'
import { openDatabase } from '../../../api/db/db.ts'
import { formatId } from '../../../lib/contract/ids.ts'
import { startTestApi } from '../../support/api.ts'
import { auditWorld } from '../../support/audit.ts'
import type { TestDatabase } from '../../support/database.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { databaseBefore } from '../../support/older-database.ts'
import { addOldRows, OLD } from '../../support/older-rows.ts'
import { quietLog } from '../../support/quiet-log.ts'

/**
 * An installation as it was before sessions, the audit log's partitions, erasure, exports and retention, with a row in every
 * table, comes to the newest schema: nothing is lost, and the API answers about all of it.
 */
type Rows = Record<string, unknown>[]

/** Every row of every table, with these columns or all. */
async function contents(admin: pg.Client, wanted?: ReadonlyMap<string, readonly string[]>) {
  const { rows: tables } = await admin.query<{ name: string; columns: string[] }>(
    `select c.relname as name, array_agg(a.attname::text order by a.attnum) as columns
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and c.relname <> 'schema_migrations' group by 1 order by 1`,
  )
  const found = new Map<string, { columns: string[]; rows: Rows }>()
  for (const { name, columns } of tables) {
    const asked = wanted?.get(name) ?? columns
    const present = asked.filter((column) => columns.includes(column))
    const list = present.map((column) => `"${column}"`).join()
    const { rows } = await admin.query(
      `select to_jsonb(r) as row from (select ${list} from ${name}) r order by r::text`,
    )
    found.set(name, { columns: present, rows: rows.map(({ row }) => row) })
  }
  return found
}

const { admin, url, finish } = await databaseBefore(t, '0045_sessions.sql')
await addOldRows(admin)
const before = await contents(admin)

t.test('every table of before has a row', async (t) => {
  t.strictSame(
    [...before].filter(([, { rows }]) => rows.length === 0).map(([name]) => name),
    [],
  )
})

t.test('the migrations since lose and change nothing', async (t) => {
  const { applied } = await finish()
  t.equal(applied[0], '0045_sessions.sql')
  const after = await contents(admin, new Map([...before].map(([name, { columns }]) => [name, columns])))
  for (const [name, { columns, rows }] of before) {
    t.strictSame(after.get(name), { columns, rows }, name)
  }
})

t.test('the migrations since compute what they add', async (t) => {
  const one = async (text: string) => (await admin.query(text)).rows[0]
  t.match(
    await one(`select highlight_bytes::int, media_bytes::int from user_storage where user_id = '${OLD.member}'`),
    { highlight_bytes: 4320 },
    'what the film of before takes',
  )
  t.match(await one('select media_id, used_by from media_pieces'), { media_id: OLD.photo, used_by: OLD.member })
  t.match(await one(`select original_tier from media where id = '${OLD.trashed}'`), { original_tier: 'hot' })
  t.match(await one('select tableoid::regclass::text as table from audit_log'), { table: 'audit_log_before' })
  const { rows } = await admin.query('select conname from pg_constraint where not convalidated')
  t.strictSame(rows, [], 'every constraint holds for the rows of before')
})

t.test('the API answers about the rows of before', async (t) => {
  const open = (role: 'keepsake_api' | 'keepsake_worker') =>
    openDatabase({ url, role, statementTimeoutMs: 20_000, maxConnections: 5, log: quietLog() })
  const pool = new pg.Pool({ connectionString: url, max: 3 })
  const database: TestDatabase = { url, db: open('keepsake_api'), worker: open('keepsake_worker'), admin: pool }
  t.teardown(async () => {
    await Promise.all([database.db.close(), database.worker.close(), pool.end()])
  })
  const api = await startTestApi(t, { database })
  await pool.query('update users set issuer = $1 where subject = any($2)', [
    api.identity.issuer,
    [OLD.owner, OLD.member],
  ])
  const owner = {
    ...{ id: OLD.owner, wireId: formatId('user', OLD.owner) },
    token: await api.identity.token({ sub: OLD.owner, claims: { sid: 'sid-of-old' } }),
  }
  const org = formatId('organization', OLD.org)
  const of = `/api/orgs/${org}`
  const [event, photo] = [formatId('event', OLD.event), formatId('media', OLD.photo)]
  const album = `${of}/albums/${formatId('album', OLD.album)}`
  const film = formatId('highlight', OLD.highlight)

  const asked: [string, Record<string, unknown>][] = [
    ['/api/users/me', { display_name: 'Person 0' }],
    [`/api/organizations/${org}/members`, { members: { length: 2 } }],
    [`${of}/events/${event}`, { title: 'A day out', description: 'By boat' }],
    [`${of}/events/${formatId('event', OLD.archived)}`, { status: 'archived' }],
    [`${of}/events/${event}/participants`, { participants: { length: 1 } }],
    [`${of}/events/${event}/invitations`, { invitations: [{ message: 'Come!' }] }],
    [album, { title: 'Pictures' }],
    [`${album}/media`, { media: [{ caption: 'Us' }] }],
    [`/api/media/${org}`, { media: [{ media_id: photo }] }],
    [`/api/media/${org}/trash`, { media: [{ media_id: formatId('media', OLD.trashed) }] }],
    [`/api/media/${org}/${photo}/metadata`, { media_id: photo }],
    [`/api/media/${org}/highlights/${film}`, { title: 'Best of' }],
    ['/api/users/me/feed', { items: { length: 1 } }],
    ['/api/users/me/notification-preferences', {}],
    ['/api/music-tracks', { tracks: [{ title: 'Song' }] }],
    ['/api/auth/sessions', {}],
  ]
  for (const [path, expected] of asked) {
    const { status, data, body } = await api.call(owner, 'GET', path)
    t.equal(status, 200, `${path} ${status === 200 ? '' : JSON.stringify(body)}`)
    t.match(data, expected, path)
  }
  const changed = await api.call(owner, 'PUT', `${of}/events/${event}`, {
    json: { title: 'Two days out' },
    headers: { 'if-match': (await api.call(owner, 'GET', `${of}/events/${event}`)).headers.get('etag') ?? '' },
  })
  t.equal(changed.status, 200, 'and changes them')

  const world = auditWorld(database, api.store)
  await world.seal()
  matchWhole(t, await world.verify(), { unsealed: 0, findings: [] }, 'the entries of before and of now are sealed')
  const { data } = await api.call(api.people.platformAdmin, 'POST', '/admin/audit/query', {
    json: { actor_id: owner.wireId, from: '2026-01-01T00:00:00Z', to: '2026-04-01T00:00:00Z' },
  })
  t.match(data.logs, [{ action: 'EVENT_CREATE', ip_address: '192.0.2.9', user_agent: 'Firefox', sealed: true }])
})
