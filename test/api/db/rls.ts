import net from 'node:net'
import pg from 'pg'
import t, { type Test } from 'tap'
import { openDatabase } from '../../../api/db/db.ts'
import { sql } from '../../../api/db/orm.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { testDatabase } from '../../support/database.ts'
import { quietLog } from '../../support/quiet-log.ts'

const { db, worker, admin, url } = await testDatabase(t)
const [orgA, orgB, user, mediaA, mediaB] = [newUuid(), newUuid(), newUuid(), newUuid(), newUuid()]
await admin.query(`insert into users (id, issuer, subject) values ('${user}', 'i', 's')`)
await admin.query(`insert into organizations (id, name) values ('${orgA}', 'A'), ('${orgB}', 'B')`)
await admin.query(`insert into memberships (org_id, user_id, role) values ('${orgA}', '${user}', 'member')`)
const insertMedia = (org: string, id: string) => `insert into media
  (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
  values ('${id}', '${org}', '${user}', 'f', 'video/mp4', 'video', 1)`
await admin.query(insertMedia(orgA, mediaA))
await admin.query(insertMedia(orgB, mediaB))
await admin.query(`insert into uploads (id, org_id, uploader_id, media_id, layout, filename, mime_type, file_size_bytes,
  chunk_size_bytes, total_chunks, expires_at, absolute_expires_at)
  values ('${mediaA}', '${orgA}', '${user}', '${newUuid()}', 'staged', 'f', 'video/mp4', 1, 1, 1, now(), now())`)
await admin.query(`insert into upload_chunks (org_id, upload_id, chunk_index, size_bytes, sha256, etag)
  values ('${orgA}', '${mediaA}', 0, 1, '', '')`)
await admin.query(`insert into outbox (id, org_id, area, aggregate_id, aggregate_version, type, payload)
  values ('${newUuid()}', '${orgA}', 'media', '${mediaA}', 1, 'MediaUploaded', '{}')`)

await admin.query(`insert into object_intents (media_id, org_id) values ('${mediaA}', '${orgA}')`)

const [event, comment] = [newUuid(), newUuid()]
await admin.query(`insert into events (id, org_id, owner_id, title, start_at)
  values ('${event}', '${orgA}', '${user}', 'E', now())`)
await admin.query(`insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body)
  values ('${comment}', '${orgA}', '${event}', 'meta', '${event}', 'event', '${user}', 'B')`)
await admin.query(`insert into comment_versions (comment_id, version, org_id, body, media_ids, mentions, written_at)
  values ('${comment}', 1, '${orgA}', 'A', '{}', '{}', now())`)
await admin.query(`insert into comment_media (comment_id, position, org_id, event_id, media_id)
  values ('${comment}', 0, '${orgA}', '${event}', '${mediaA}')`)
await admin.query(`insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji)
  values ('${newUuid()}', '${orgA}', '${event}', 'meta', '${event}', '${user}', '🔥')`)

await admin.query(`insert into notifications (id, org_id, template, event_id, user_id, comment_id)
  values ('${newUuid()}', '${orgA}', 'Mention.v1', '${event}', '${user}', '${comment}')`)

const idsOf = (rows: Record<string, unknown>[]) => rows.map((row) => row['id'])
const tenantTables = [
  'memberships',
  'media',
  'uploads',
  'upload_chunks',
  'object_intents',
  'organizations',
  'comments',
  'comment_versions',
  'comment_media',
  'reactions',
  'notifications',
]

for (const table of tenantTables) {
  t.test(`${table} shows nothing without a scope and nothing to a foreign organization`, async (t) => {
    const count = async (scope: { org?: string }) => {
      const { rows } = await db.read(scope, (tx) => tx.execute(sql.raw(`select count(*)::int as n from ${table}`)))
      return rows[0]?.['n']
    }
    t.equal(await count({}), 0)
    t.equal(await count({ org: newUuid() }), 0)
    t.equal(await count({ org: orgA }), 1)
  })
}

t.test('an organization sees its own media only, and the worker sees all', async (t) => {
  const ask = sql`select id from media order by id`
  t.strictSame(idsOf((await db.read({ org: orgA }, (tx) => tx.execute(ask))).rows), [mediaA])
  t.strictSame(idsOf((await db.read({ org: orgB }, (tx) => tx.execute(ask))).rows), [mediaB])
  t.strictSame(idsOf((await worker.read({}, (tx) => tx.execute(ask))).rows), [mediaA, mediaB].sort())
})

t.test('a person sees their own memberships without naming an organization', async (t) => {
  const { rows } = await db.read({ user }, (tx) => tx.execute(sql`select org_id from memberships`))
  t.strictSame(rows, [{ org_id: orgA }])
})

t.test('a person learns of others only what an organization of both shows', async (t) => {
  const [friend, stranger, shared, foreign] = [newUuid(), newUuid(), newUuid(), newUuid()]
  await admin.query(`insert into users (id, issuer, subject) values ('${friend}', 'i', 'f'), ('${stranger}', 'i', 'x')`)
  await admin.query(`insert into organizations (id, name) values ('${shared}', 'S'), ('${foreign}', 'F')`)
  await admin.query(`insert into memberships (org_id, user_id, role) values ('${shared}', '${user}', 'member'),
    ('${shared}', '${friend}', 'member'), ('${foreign}', '${friend}', 'owner'), ('${foreign}', '${stranger}', 'owner')`)
  const nil = '00000000-0000-0000-0000-000000000000'
  const ask = async (scope: { org?: string; user?: string }) =>
    db.read(scope, async (tx) => [
      (await tx.execute(sql`select user_id, org_id from connected_members(${nil}, 10)`)).rows,
      (await tx.execute(sql`select org_id from shared_organizations(${friend})`)).rows,
      (await tx.execute(sql`select org_id from shared_organizations(${stranger})`)).rows,
      (await tx.execute(sql`select count_connected_members()::int as n`)).rows,
    ])
  t.strictSame(await ask({ user }), [[{ user_id: friend, org_id: shared }], [{ org_id: shared }], [], [{ n: 1 }]])
  const nothing = [[], [], [], [{ n: 0 }]]
  for (const scope of [{}, { org: shared }, { org: foreign }, { user: newUuid() }]) {
    t.strictSame(await ask(scope), nothing, JSON.stringify(scope))
  }
  const rows = await db.read({ user }, (tx) => tx.execute(sql`select user_id from memberships`))
  t.ok(
    rows.rows.every(({ user_id: id }) => id === user),
    'the table itself shows no one else',
  )
  for (const call of ['count_connected_members()', `shared_organizations('${friend}')`]) {
    const attempt = worker.read({}, (tx) => tx.execute(sql.raw(`select * from ${call}`)))
    await t.rejects(attempt, { cause: { code: '42501' } }, 'they are for the API alone')
  }
  await admin.query(`delete from organizations where id in ('${shared}', '${foreign}')`)
})

t.test('rows cannot be put into another organization', async (t) => {
  const insert = db.inTransaction({ org: orgA }, (tx) => tx.execute(sql.raw(insertMedia(orgB, newUuid()))))
  await t.rejects(insert, { cause: { message: /row-level security/ } })
  const move = db.inTransaction({ org: orgA }, (tx) => tx.execute(sql`update media set org_id = ${orgB}`))
  await t.rejects(move, { cause: { message: /row-level security/ } })
  const foreign = await db.inTransaction({ org: orgA }, (tx) =>
    tx.execute(sql`update media set mime_type = 'x/y' where id = ${mediaB}`),
  )
  t.equal(foreign.rowCount, 0)
})

t.test('the scope ends with its transaction, on every connection of the pool', async (t) => {
  const slow = sql`select pg_sleep(0.05), count(*)::int as n from media`
  await Promise.all(Array.from({ length: 30 }, () => db.read({ org: orgA }, (tx) => tx.execute(slow))))
  const failed = Array.from({ length: 30 }, () =>
    db.inTransaction({ org: orgA }, async (tx) => {
      await tx.execute(slow)
      throw new Error('changed my mind')
    }),
  )
  for (const outcome of await Promise.allSettled(failed)) t.match(outcome, { reason: { message: 'changed my mind' } })
  const after = await Promise.all(Array.from({ length: 30 }, () => db.read({}, (tx) => tx.execute(slow))))
  t.ok(after.every(({ rows }) => rows[0]?.['n'] === 0))
  t.ok(db.pool.totalCount <= 30)
})

t.test('queries that leave at once see their scope, and what comes later is refused', async (t) => {
  const ask = sql`select id from media`
  const [one, two] = await db.readAtOnce({ org: orgA }, (tx) =>
    Promise.all([tx.execute(ask).execute(), tx.execute(sql`select count(*)::int as n from memberships`).execute()]),
  )
  t.strictSame(idsOf(one.rows), [mediaA])
  t.strictSame(two.rows, [{ n: 1 }])
  const late = db.readAtOnce({ org: orgA }, async (tx) => {
    await tx.execute(ask).execute()
    return tx.execute(ask).execute()
  })
  await t.rejects(late, { cause: { message: 'the transaction of this query is over' } })
})

t.test('an error in one of the queries that leave at once harms no later request', async (t) => {
  const broken = Array.from({ length: 30 }, () =>
    db.readAtOnce({ org: orgA }, (tx) =>
      Promise.all([tx.execute(sql`select 1/0`).execute(), tx.execute(sql`select id from media`).execute()]),
    ),
  )
  for (const outcome of await Promise.allSettled(broken)) t.match(outcome, { reason: { cause: { code: '22012' } } })
  const thrown = db.readAtOnce({ org: orgA }, () => {
    throw new Error('changed my mind')
  })
  await t.rejects(thrown, { message: 'changed my mind' })
  const count = sql`select count(*)::int as n from media`
  const after = await Promise.all(
    Array.from({ length: 30 }, () => db.inTransaction({ org: orgB }, (tx) => tx.execute(count))),
  )
  t.ok(after.every(({ rows }) => rows[0]?.['n'] === 1))
})

t.test('a query that nobody waited for does not run in the next transaction of its connection', async (t) => {
  const narrow = openDatabase({
    url,
    role: 'keepsake_api',
    statementTimeoutMs: 10_000,
    maxConnections: 1,
    log: quietLog(),
  })
  t.teardown(() => narrow.close())
  for (const kind of ['inTransaction', 'read'] as const) {
    const next = Promise.withResolvers<void>()
    let forgotten: Promise<unknown> | undefined
    await narrow[kind]({ org: orgA }, async (tx) => {
      forgotten = next.promise.then(() => tx.execute(sql`select id from media`))
      forgotten.catch(() => {})
    })
    await narrow[kind]({ org: orgB }, async (tx) => {
      await tx.execute(sql`select 1`)
      next.resolve()
      await t.rejects(forgotten ?? Promise.resolve(), { cause: { message: 'the transaction of this query is over' } })
      t.equal((await tx.execute(sql`select 1`)).rowCount, 1, 'and the next one goes on undisturbed')
    })
  }
})

t.test('a scope that is no uuid never reaches the database', async (t) => {
  await t.rejects(
    db.read({ org: `${orgA}'; drop table media; --` }, (tx) => tx.execute(sql`select 1`)),
    { message: 'scope org is not a uuid' },
  )
})

t.test('the role of the API can neither switch row-level security off nor own a table', async (t) => {
  for (const statement of [
    'alter table media disable row level security',
    'drop policy tenant on media',
    'alter role keepsake_api bypassrls',
    'delete from audit_log',
    'select * from outbox',
    'delete from media',
  ]) {
    const attempt = db.inTransaction({ org: orgA }, (tx) => tx.execute(sql.raw(statement)))
    await t.rejects(attempt, { cause: { code: '42501' } }, statement)
  }
  const hidden = db.read({}, async (tx) => {
    await tx.execute(sql`set local row_security = off`)
    return tx.execute(sql`select * from media`)
  })
  await t.rejects(hidden, { cause: { message: /row-level security/ } })
})

t.test('options in the address take away neither the role nor the timeouts', async (t) => {
  const address = new URL(url)
  address.searchParams.set('options', '-c work_mem=5MB -c role=postgres -c lock_timeout=0')
  for (const name of ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout'])
    address.searchParams.set(name, '0')
  const asked = openDatabase({
    url: address.href,
    role: 'keepsake_api',
    statementTimeoutMs: 9_000,
    maxConnections: 1,
    log: quietLog(),
  })
  t.teardown(() => asked.close())
  const settings = sql`select current_user as role, (select count(*)::int from media) as media,
    current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
    current_setting('idle_in_transaction_session_timeout') as idle, current_setting('work_mem') as work_mem`
  const { rows } = await asked.read({ org: orgA }, (tx) => tx.execute(settings))
  t.strictSame(rows, [{ role: 'keepsake_api', media: 1, statement: '9s', lock: '2s', idle: '15s', work_mem: '5MB' }])
})

t.test('connections of a pooler that ignores the startup parameter options are refused', async (t) => {
  const pooled = openDatabase({
    url: await poolerWithoutOptions(t),
    role: 'keepsake_api',
    statementTimeoutMs: 10_000,
    maxConnections: 1,
    log: quietLog(),
  })
  t.teardown(() => pooled.close())
  const refused = {
    code: '08004',
    message: /has the role \w+ instead of keepsake_api: a pooler .* ignores .*`options`/,
  }
  const ask = sql`select id from media`
  await t.rejects(pooled.check(), refused, 'so no pod becomes ready')
  await t.rejects(
    pooled.read({ org: orgA }, (tx) => tx.execute(ask)),
    refused,
  )
  await t.rejects(
    pooled.readAtOnce({ org: orgA }, (tx) => tx.execute(ask)),
    refused,
  )
  await t.rejects(
    pooled.inTransaction({ org: orgA }, (tx) => tx.execute(ask)),
    refused,
  )
  await t.rejects(
    pooled.aside((tx) => tx.execute(ask)),
    refused,
  )
})

t.test('a read transaction cannot write', async (t) => {
  const attempt = db.read({ org: orgA }, (tx) => tx.execute(sql.raw(insertMedia(orgA, newUuid()))))
  await t.rejects(attempt, { cause: { code: '25006' } })
})

t.test('what was written before an error is not there afterwards', async (t) => {
  const id = newUuid()
  const attempt = db.inTransaction({ org: orgA }, async (tx) => {
    await tx.execute(sql.raw(insertMedia(orgA, id)))
    await tx.execute(sql`select 1/0`)
  })
  await t.rejects(attempt)
  const { rowCount } = await admin.query('select from media where id = $1', [id])
  t.equal(rowCount, 0)
})

t.test('every table with tenants is guarded: a new one cannot be forgotten', async (t) => {
  const { rows } = await admin.query(`select c.relname as name, c.relrowsecurity and c.relforcerowsecurity as guarded
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'public' and c.relkind in ('r', 'p')
      and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'org_id' and not a.attisdropped)`)
  t.ok(rows.length >= 7)
  t.strictSame(
    rows.filter((r) => !r.guarded),
    [],
  )
})

/** The database behind a proxy that does to startup packets what `ignore_startup_parameters = options` does in PgBouncer. */
async function poolerWithoutOptions(t: Test): Promise<string> {
  const { host, port } = new pg.Client({ connectionString: url })
  const server = net.createServer((client) => {
    const database = host.startsWith('/') ? net.connect(`${host}/.s.PGSQL.${port}`) : net.connect(port, host)
    for (const socket of [client, database]) socket.on('error', () => {})
    client.once('data', (packet) => {
      // Length and version, then names and values that each end with a zero byte; one more ends the list.
      const words = packet.toString('utf8', 8).split('\0')
      const option = words.indexOf('options')
      if (option >= 0) words.splice(option, 2)
      const rest = Buffer.from(words.join('\0'))
      const head = Buffer.from(packet.subarray(0, 8))
      head.writeInt32BE(8 + rest.length)
      database.write(Buffer.concat([head, rest]))
      client.pipe(database).pipe(client)
    })
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise((resolve) => void server.close(resolve)))
  const address = new URL(url)
  address.searchParams.delete('host')
  address.host = `127.0.0.1:${(server.address() as net.AddressInfo).port}`
  return address.href
}
