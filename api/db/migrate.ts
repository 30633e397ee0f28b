import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { Log } from '../../lib/runtime/log.ts'
import { redactUrlPassword } from './url.ts'

/** Id of the advisory lock that serializes migrations; no other code locks this number. */
const LOCK = 7_305_811_240
const FOLDER = fileURLToPath(new URL('./migrations/', import.meta.url))

/**
 * Checksums of earlier versions of a migration that failed on some data, or kept programs out for long, and could only be
 * corrected in place, or that differs in a comment alone. Where such a version succeeded, its result is the same.
 */
const CORRECTED: Readonly<Record<string, string>> = {
  // Failed on times of capture with an offset from 16:00.
  '0008_pairs.sql': '7338e67730dd1a8f899215efc987521a0daf43c98e79f59a0d6f0412af919249',
  // Kept writers of the audit log out while it made partitions. Migration 0094 makes them.
  '0052_audit_partitions.sql': 'c1484ca7f345905b6914a7a85f0fb90ad6d3a2efde3498f3a78a3dae8a149211',
  // Kept all uploads out while it read the highlights. Migration 0094 does the rest now.
  '0080_pieces_and_storage.sql': 'aa56d986123237770f6b767282bb57a3c2b898099a6e0c152f889c5868d609ce',
  // Kept all readers of media out while it read the table. Migration 0094 validates the constraint.
  '0082_event_archive.sql': '57616477c04d182a9ea74b9c6566b6e2ec2a3114faaa57e534833164fe6211ce',
  // Had another comment.
  '0106_event_exports_under_way.sql': 'a1e916507e36bac697ac3322fac0dccc71d5a4d69601d740c9886e38d0f72a13',
}

export interface Migration {
  name: string
  sql: string
  checksum: string
}

/** The migrations of this build, in the order in which they apply. */
export async function listMigrations(folder = FOLDER): Promise<Migration[]> {
  const names = (await readdir(folder)).filter((name) => /^\d{4}_[a-z0-9_]+\.sql$/.test(name)).sort()
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(`${folder}/${name}`, 'utf8')
      return { name, sql, checksum: createHash('sha256').update(sql).digest('hex') }
    }),
  )
}

/**
 * Migrates the database to this build, each file in its own transaction, or statement by statement (`REPEATABLE`). Safe with several concurrent runs: one
 * migrates, the others wait and then have nothing to do. Refuses a database whose history differs from the files.
 */
export async function migrate(options: { url: string; log: Log; folder?: string }): Promise<{ applied: string[] }> {
  const migrations = await listMigrations(options.folder)
  const client = new pg.Client({ connectionString: options.url, application_name: 'keepsake-migrate' })
  client.on('error', (error) => options.log.error({ err: error }, 'lost the database while migrating'))
  await client.connect()
  try {
    await takeLock(client)
    await createRoles(client)
    await client.query(`create table if not exists schema_migrations (
      name text primary key, checksum text not null, applied_at timestamptz not null default now())`)
    const applied: string[] = []
    const pending = pendingOf(migrations, await readHistory(client))
    if (pending.some(({ sql }) => SETS_ROLE.test(sql))) await assertMayBecomeRoles(client)
    for (const migration of pending) {
      await applyWhenFree(client, migration, options.log)
      options.log.info({ migration: migration.name, database: redactUrlPassword(options.url) }, 'applied')
      applied.push(migration.name)
    }
    return { applied }
  } finally {
    await client.end()
  }
}

async function readHistory(client: pg.Client): Promise<Map<string, string>> {
  const { rows } = await client.query<{ name: string; checksum: string }>(
    'select name, checksum from schema_migrations',
  )
  return new Map(rows.map((r) => [r.name, r.checksum]))
}

/** The database was migrated by a build whose migrations are not those of this one. */
export class OtherHistory extends Error {}

/** The pending migrations. Throws `OtherHistory` if an applied file was changed, or if a new file sorts before an applied one. */
export function pendingOf(migrations: readonly Migration[], history: ReadonlyMap<string, string>): Migration[] {
  const changed = migrations.find(({ name, checksum }) => {
    const applied = history.get(name)
    return applied !== undefined && applied !== checksum && applied !== CORRECTED[name]
  })
  if (changed)
    throw new OtherHistory(`Migration ${changed.name} was changed after it was applied; add a new one instead`)
  const pending = migrations.filter((m) => !history.has(m.name))
  const newest = [...history.keys()].sort().at(-1)
  const late = pending.find((m) => newest !== undefined && m.name < newest)
  if (late)
    throw new OtherHistory(`Migration ${late.name} sorts before ${newest}, which is applied; give it a higher number`)
  // Applied migrations without a file belong to a newer build: an old pod that restarts during an upgrade has no work.
  return pending
}

/**
 * The session holds the lock, so it ends with this process even if the process is killed. It does not wait in the
 * database: `create index concurrently` of the other run would wait for this one, which waits for it.
 */
async function takeLock(client: pg.Client): Promise<void> {
  const take = async () =>
    (await client.query<{ taken: boolean }>('select pg_try_advisory_lock($1) as taken', [LOCK])).rows[0]?.taken
  while (!(await take())) await sleep(100)
}

/**
 * A migration may set lock_timeout, so that nothing queues behind it for long while it waits for a table. Then it is tried
 * again, between the transactions of the running programs.
 */
async function applyWhenFree(client: pg.Client, migration: Migration, log: Log): Promise<void> {
  for (let tried = 1; ; tried++) {
    try {
      return await apply(client, migration)
    } catch (error) {
      if (!BUSY.has(codeOf(error) ?? '') || tried === LOCK_TRIES) throw error
      log.warn({ migration: migration.name, tried }, 'a table is in use; the migration is tried again')
      await sleep(LOCK_PAUSE_MS)
    }
  }
}

const codeOf = (error: unknown) => ((error as Error).cause as { code?: string } | undefined)?.code
/** No lock within the time, or a deadlock with a program that runs. */
const BUSY = new Set(['55P03', '40P01'])
const LOCK_TRIES = 30
const LOCK_PAUSE_MS = 1000

/**
 * The first line of a file whose statements each commit on their own, as `create index concurrently` demands. An empty
 * line ends a statement. After an interruption the file starts from its beginning, so every statement must tolerate that.
 */
const REPEATABLE = '-- migrate: statement by statement\n'

async function apply(client: pg.Client, migration: Migration): Promise<void> {
  try {
    if (!migration.sql.startsWith(REPEATABLE)) {
      await client.query('begin')
      await client.query(migration.sql)
    } else {
      for (const statement of migration.sql.split(/;\n\n/)) await client.query(statement)
      await client.query('begin')
    }
    await client.query('insert into schema_migrations (name, checksum) values ($1, $2)', [
      migration.name,
      migration.checksum,
    ])
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw new Error(`Migration ${migration.name} failed: ${(error as Error).message}`, { cause: error })
  } finally {
    await client.query('reset lock_timeout')
  }
}

export const DATABASE_ROLES = ['keepsake_api', 'keepsake_worker'] as const

/**
 * Roles belong to the whole server, and the lock to one database: if two databases are migrated at the same time, the
 * second run must accept that a role exists already. The migrating user may become each of the roles.
 */
async function createRoles(client: pg.Client): Promise<void> {
  for (const role of DATABASE_ROLES) {
    await client.query(`do $$ begin
      if not exists (select from pg_roles where rolname = '${role}') then
        create role ${role} nologin nosuperuser nobypassrls nocreatedb nocreaterole;
        -- Since version 16 the creator of a role may become it only if that is granted.
        if not (select rolsuper from pg_roles where rolname = current_user) then
          execute format('grant ${role} to %I', current_user);
        end if;
      end if;
    exception when duplicate_object or unique_violation then null;
    end $$`)
    const { rows } = await client.query<{ mighty: boolean }>(
      'select rolsuper or rolbypassrls as mighty from pg_roles where rolname = $1',
      [role],
    )
    if (rows[0]?.mighty) throw new Error(`Role ${role} can bypass row-level security; remove that right first`)
  }
}

/** Of a migration that changes rows which only the worker sees. */
const SETS_ROLE = /^ *(set (local )?role |(perform|select) set_config\('role')/m

/**
 * Where another installation, or an administrator, created the roles on this server, this user may be a member of neither.
 * It then grants them to itself if it may. Otherwise no migration applies: one of them would fail in the middle.
 */
async function assertMayBecomeRoles(client: pg.Client): Promise<void> {
  const ask = async () => {
    // Before version 16 every member of a role may become it.
    const { rows } = await client.query<{ me: string; missing: string[] }>(
      `select quote_ident(current_user) as me, array(select role from unnest($1::text[]) as role
         where not pg_has_role(current_user, role, case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end)
       ) as missing`,
      [DATABASE_ROLES],
    )
    return rows[0] ?? { me: '', missing: [] }
  }
  const { me, missing } = await ask()
  if (missing.length === 0) return
  const grant = `GRANT ${missing.join(', ')} TO ${me}`
  const refusal = await client.query(grant).catch((error: unknown) => error)
  // Asked again, because another run may have granted them at the same time.
  if ((await ask()).missing.length === 0) return
  const message = `${me} migrates, and may not become ${missing.join(' and ')}, which exist on this server already. A superuser must run: ${grant}`
  throw new Error(message, { cause: refusal })
}
