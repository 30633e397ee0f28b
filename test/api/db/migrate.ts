import { access, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CasingCache } from 'drizzle-orm/casing'
import pg from 'pg'
import t, { type Test } from 'tap'
import { listMigrations, migrate, pendingOf } from '../../../api/db/migrate.ts'
import { getTableColumns, getTableName, is, PgTable } from '../../../api/db/orm.ts'
import * as schema from '../../../api/db/schema/index.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { openLog } from '../../../lib/runtime/log.ts'
import { startEmbeddedPostgres } from '../../../local/postgres.ts'
import { emptyDatabase, withDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { readableLog } from '../../support/readable-log.ts'

const log = openLog({ program: 'test', level: 'error', fd: 2 })
const PG15 = '/usr/lib/postgresql/15/bin'
const has15 = await access(`${PG15}/postgres`).then(
  () => true,
  () => false,
)

async function aFolder(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-migrations-'))
  t.teardown(() => rm(folder, { recursive: true }))
  return folder
}

async function query<R extends pg.QueryResultRow>(url: string, text: string): Promise<R[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<R>(text)).rows
  } finally {
    await client.end()
  }
}

const columnsOf = (url: string) =>
  query<{ column: string }>(
    url,
    `select table_name || '.' || column_name || ' ' || udt_name || case is_nullable when 'YES' then ' null' else '' end as column
     from information_schema.columns where table_schema = 'public' and table_name <> 'schema_migrations'
       -- A partition has the columns of its table.
       and not (select relispartition from pg_class where oid = format('%I.%I', table_schema, table_name)::regclass)
     order by 1`,
  ).then((rows) => rows.map((r) => r.column))

const TYPES: Record<string, string> = {
  'timestamp with time zone': 'timestamptz',
  'double precision': 'float8',
  bigint: 'int8',
  integer: 'int4',
  boolean: 'bool',
  'uuid[]': '_uuid',
  'text[]': '_text',
}

function columnsOfSchema(): string[] {
  const casing = new CasingCache('snake_case')
  const tables = Object.values(schema).filter((value) => is(value, PgTable))
  const columns = tables
    .flatMap((table) =>
      Object.values(getTableColumns(table)).map((column) => {
        const type = column.getSQLType().replace(/ ?\(\d\)/, '')
        const name = `${getTableName(table)}.${casing.getColumnCasing(column)}`
        return `${name} ${TYPES[type] ?? type}${column.notNull ? '' : ' null'}`
      }),
    )
    .sort()
  // The columns of the audit log that programs write are described on their own.
  return [...new Set(columns)]
}

const collate = (list: string[]) => [...list].sort((a, b) => (a < b ? -1 : 1))

/** A version before this one may still read and write them; a later migration drops them. */
const OF_EARLIER_VERSIONS = ['music_tracks.licence text']

/** What the database of this owner has after a first run that applied these. */
async function matches(t: Test, url: string, applied: string[]): Promise<void> {
  const all = (await listMigrations()).map((m) => m.name)
  t.strictSame(applied, all)
  t.strictSame((await migrate({ url, log })).applied, [], 'another run finds nothing to do')
  t.strictSame(
    collate(await columnsOf(url)),
    collate([...columnsOfSchema(), ...OF_EARLIER_VERSIONS]),
    'the drizzle schema says what the tables are',
  )
  const [folded] = await query(
    url,
    `select searchable('İBRAHİM') as i, searchable('IŞIK') as j, searchable('ΓΙΏΡΓΟΣ') as s`,
  )
  t.strictSame(folded, { i: 'ibrahim', j: 'işik', s: 'γιώργοσ' }, 'every version of Postgres folds names in one way')
}

t.test('six that start at once apply each migration once, and the schema in code equals the tables', async (t) => {
  const url = await emptyDatabase(t)
  const results = await Promise.all(Array.from({ length: 6 }, () => migrate({ url, log })))
  await matches(
    t,
    url,
    results.flatMap(({ applied }) => applied),
  )
  const [version] = await query<{ v: string }>(url, `select current_setting('server_version_num') as v`)
  t.comment(`server ${version?.v}`)
})

t.test('works on PostgreSQL 15', { skip: has15 ? false : `PostgreSQL 15 is not installed (in ${PG15})` }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-pg15-'))
  const binaries = { initdb: `${PG15}/initdb`, postgres: `${PG15}/postgres` }
  const server = await startEmbeddedPostgres({ dataDir: join(folder, 'data'), log, fast: true, binaries })
  t.teardown(async () => {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  })
  await migratesAsPlainOwner(t, server.url)
})

t.test('works for an owner who is no superuser, who can then take on both roles', async (t) => {
  await migratesAsPlainOwner(t, await emptyDatabase(t))
})

t.test('works for a role that may not make extensions: names are searched without an index', async (t) => {
  const url = await emptyDatabase(t)
  const owned = await plainOwner(t, url, async (role, database) => {
    await query(url, `create database ${database}`)
    await query(withDatabase(url, database), `grant create, usage on schema public to ${role}`)
  })
  t.ok((await migrate({ url: owned.href, log })).applied.length > 0)
  t.strictSame(await query(owned.href, `select from pg_extension where extname = 'pg_trgm'`), [])
  t.match(await query(owned.href, `select searchable(E'ZOE\\u0308') as name`), [{ name: 'zoë' }])
})

t.test(
  'an owner who may not become the roles of another installation is told so before the first migration',
  async (t) => {
    const url = await emptyDatabase(t)
    const name = `late owner_${process.pid}`
    const database = `late_${process.pid}`
    for (const role of ['keepsake_api', 'keepsake_worker'])
      await query(url, `do $$ begin create role ${role} nologin; exception when duplicate_object then null; end $$`)
    await query(url, `create role "${name}" login createrole password 'p'`)
    await query(url, `create database ${database} owner "${name}"`)
    t.teardown(async () => {
      await query(url, `drop database ${database} with (force)`)
      await query(url, `drop role "${name}"`)
    })
    const owned = new URL(withDatabase(url, database))
    owned.username = name
    owned.password = 'p'
    const folder = await aFolder(t)
    await writeFile(join(folder, '0001_one.sql'), 'create table one (id int);')
    const run = () => migrate({ url: owned.href, log, folder })
    t.strictSame((await run()).applied, ['0001_one.sql'], 'which matters only to a migration that becomes one')

    await writeFile(join(folder, '0002_two.sql'), 'create table two (id int);')
    await writeFile(
      join(folder, '0003_three.sql'),
      'create table three (id int);\nset local role keepsake_worker;\nreset role;',
    )
    const said = (await run().catch((error: unknown) => error)) as Error
    const statement = `GRANT keepsake_api, keepsake_worker TO "${name}"`
    t.equal(said.message.split('A superuser must run: ')[1], statement)
    t.match(said.cause, { code: '42501' })
    t.strictSame(await query(owned.href, `select from pg_class where relname in ('two', 'three')`), [])

    // A member who may not become the role, but may grant it, as one who created it without being granted it.
    await query(url, `grant keepsake_api to "${name}"`)
    await query(url, `grant keepsake_worker to "${name}" with admin true, set false`)
    t.strictSame((await run()).applied, ['0002_two.sql', '0003_three.sql'], 'and grants itself what it may')
  },
)

/** Names of roles are the server's, so this takes a role of its own and gives back what it made. */
async function plainOwner(t: Test, url: string, make: (role: string, database: string) => Promise<void>): Promise<URL> {
  const name = `owner_${process.pid}`
  const database = `owned_${process.pid}`
  await query(url, `create role ${name} login createrole password 'p'`)
  await make(name, database)
  t.teardown(async () => {
    await query(url, `drop database ${database} with (force)`)
    await query(url, `drop owned by ${name}`)
    await query(url, `drop role ${name}`)
  })
  // The roles exist already on a shared server; then an administrator grants them, as the message would say.
  for (const role of ['keepsake_api', 'keepsake_worker']) {
    await query(url, `do $$ begin create role ${role} nologin; exception when duplicate_object then null; end $$`)
    await query(url, `grant ${role} to ${name}`)
  }
  const owned = new URL(withDatabase(url, database))
  owned.username = name
  owned.password = 'p'
  return owned
}

async function migratesAsPlainOwner(t: Test, url: string): Promise<void> {
  const owned = await plainOwner(t, url, async (role, database) => {
    await query(url, `create database ${database} owner ${role}`)
  })
  await matches(t, owned.href, (await migrate({ url: owned.href, log })).applied)
  for (const role of ['keepsake_api', 'keepsake_worker']) {
    owned.searchParams.set('options', `-c role=${role}`)
    t.match(await query(owned.href, 'select current_user as name'), [{ name: role }])
  }
  await movesFeedsOfMembers(t, url, owned)
}

/** The triggers run as this owner, whom row-level security concerns. The scope of a sign-in has no organization. */
async function movesFeedsOfMembers(t: Test, url: string, owned: URL): Promise<void> {
  const [org, user] = [newUuid(), newUuid()]
  const asServer = withDatabase(url, owned.pathname.slice(1))
  await query(
    asServer,
    `insert into organizations (id, name) values ('${org}', 'One');
     insert into users (id, issuer, subject, display_name) values ('${user}', 'i', 's', 'Ann');
     insert into memberships (org_id, user_id, role) values ('${org}', '${user}', 'member');
     insert into feed_versions (org_id, n) values ('${org}', 1)`,
  )
  const version = async () => Number((await query<{ n: string }>(asServer, 'select n from feed_versions'))[0]?.n)
  owned.searchParams.set('options', '-c role=keepsake_api')
  await query(owned.href, `update users set display_name = 'Anna' where id = '${user}'`)
  t.equal(await version(), 2, 'a name')
  owned.searchParams.set('options', `-c role=keepsake_api -c app.org=${org}`)
  await query(owned.href, `delete from memberships where user_id = '${user}'`)
  t.equal(await version(), 3, 'a member who left')
}

t.test('several databases of one new server can be migrated at once', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-pg-'))
  const server = await startEmbeddedPostgres({ dataDir: join(folder, 'data'), log, fast: true })
  t.teardown(async () => {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  })
  const few = await aFolder(t)
  await writeFile(join(few, '0001_one.sql'), 'create table one (id int);')
  const urls = await Promise.all(Array.from({ length: 7 }, () => emptyDatabase(t, server.url)))
  // The roles are of the server: the first of five makes them. All migrations then run in two of them.
  const first = await Promise.all(urls.slice(2).map((url) => migrate({ url, log, folder: few })))
  const results = await Promise.all(urls.slice(0, 2).map((url) => migrate({ url, log })))
  for (const { applied } of [...first, ...results]) t.ok(applied.length > 0)
})

t.test('refuses a migration that was changed after it had been applied', async (t) => {
  const url = await emptyDatabase(t)
  const folder = await aFolder(t)
  await writeFile(join(folder, '0001_one.sql'), 'create table one (id int);')
  await migrate({ url, log, folder })
  await writeFile(join(folder, '0001_one.sql'), '-- another past')
  await t.rejects(migrate({ url, log, folder }), /0001_one.sql was changed after it was applied/)
})

t.test('accepts the earlier version of a migration that failed on some data, or had another comment', async (t) => {
  const migrations = await listMigrations()
  for (const [name, earlier] of [
    ['0008_pairs.sql', '7338e67730dd1a8f899215efc987521a0daf43c98e79f59a0d6f0412af919249'],
    ['0106_event_exports_under_way.sql', 'a1e916507e36bac697ac3322fac0dccc71d5a4d69601d740c9886e38d0f72a13'],
  ] as const) {
    const corrected = migrations.find((m) => m.name === name)
    t.not(corrected?.checksum, earlier)
    const history = new Map(migrations.map((m) => [m.name, m === corrected ? earlier : m.checksum]))
    t.strictSame(pendingOf(migrations, history), [])
    history.set('0009_batches.sql', earlier)
    t.throws(() => pendingOf(migrations, history), /0009_batches.sql was changed/)
  }
})

t.test('a migration that fails leaves nothing behind and can be repaired', async (t) => {
  const url = await emptyDatabase(t)
  const folder = await aFolder(t)
  await writeFile(join(folder, '0001_one.sql'), 'create table one (id int);')
  await writeFile(join(folder, '0002_two.sql'), 'create table two (id int); select 1/0;')
  await t.rejects(migrate({ url, log, folder }), /0002_two.sql failed: division by zero/)
  t.strictSame(await query(url, `select to_regclass('one')::text as one, to_regclass('two')::text as two`), [
    { one: 'one', two: null },
  ])
  await writeFile(join(folder, '0002_two.sql'), 'create table two (id int);')
  t.strictSame((await migrate({ url, log, folder })).applied, ['0002_two.sql'])
})

t.test('a file of single statements goes on after an interruption, and waits for a table in use', async (t) => {
  const url = await emptyDatabase(t)
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-migrations-'))
  t.teardown(() => rm(folder, { recursive: true }))
  const marker = '-- migrate: statement by statement\n'
  const file = join(folder, '0001_one.sql')
  const first = `create table if not exists one (id int);\n\ncreate index concurrently if not exists one_by_id on one (id);\n\n`
  await writeFile(file, `${marker}${first}select 1/0;\n`)
  await t.rejects(migrate({ url, log, folder }), /0001_one.sql failed: division by zero/)
  t.match(
    await query(url, `select to_regclass('one_by_id')::text as built, count(*)::int as n from schema_migrations`),
    [{ built: 'one_by_id', n: 0 }],
  )

  await writeFile(
    file,
    `${marker}set lock_timeout = '50ms';\n\n${first}alter table one add column if not exists more int;\n`,
  )
  const holder = new pg.Client({ connectionString: url })
  await holder.connect()
  await holder.query('begin; insert into one values (1)')
  const { log: heard, logged } = readableLog()
  const migrating = migrate({ url, log: heard, folder })
  await eventually('a try', () => logged.some(({ tried }) => tried === 1))
  await holder.query('commit')
  await holder.end()
  t.strictSame((await migrating).applied, ['0001_one.sql'])
})

t.test('what is pending depends on files and history alone', async (t) => {
  const m = (name: string, checksum = 'c') => ({ name, sql: '', checksum })
  const cases: [string, string[], [string, string][], string[] | RegExp][] = [
    ['everything on an empty database', ['a', 'b'], [], ['a', 'b']],
    ['the rest', ['a', 'b'], [['a', 'c']], ['b']],
    [
      'nothing for an older build on a newer database',
      ['a'],
      [
        ['a', 'c'],
        ['b', 'c'],
      ],
      [],
    ],
    ['an error for a changed file', ['a'], [['a', 'x']], /changed/],
    ['an error for a file that comes too late', ['a', 'b'], [['b', 'c']], /give it a higher number/],
  ]
  for (const [name, files, history, expected] of cases) {
    const run = () =>
      pendingOf(
        files.map((f) => m(f)),
        new Map(history),
      ).map((p) => p.name)
    if (expected instanceof RegExp) t.throws(run, { message: expected }, name)
    else t.strictSame(run(), expected, name)
  }
})
