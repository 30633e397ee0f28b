import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { Log } from '../../lib/runtime/log.ts'
import { redactUrlPassword } from './url.ts'

/** Any number that nothing else locks: everybody who migrates waits for the same one. */
const LOCK = 7_305_811_240
const FOLDER = fileURLToPath(new URL('./migrations/', import.meta.url))

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
 * Brings the database up to this build, each file in its own transaction. Safe when several start at once: one works,
 * the others wait and find it done. Refuses a database whose history differs from the files.
 */
export async function migrate(options: { url: string; log: Log; folder?: string }): Promise<{ applied: string[] }> {
  const migrations = await listMigrations(options.folder)
  const client = new pg.Client({ connectionString: options.url, application_name: 'keepsake-migrate' })
  client.on('error', (error) => options.log.error({ err: error }, 'lost the database while migrating'))
  await client.connect()
  try {
    // Held by the session, so it ends with us even when we are killed.
    await client.query('select pg_advisory_lock($1)', [LOCK])
    await createRoles(client)
    await client.query(`create table if not exists schema_migrations (
      name text primary key, checksum text not null, applied_at timestamptz not null default now())`)
    const applied: string[] = []
    const history = await readHistory(client)
    for (const migration of pendingOf(migrations, history)) {
      await apply(client, migration)
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

/** What is still to do. Throws when the past was changed, or when a file now lies before one that has been applied. */
export function pendingOf(migrations: readonly Migration[], history: ReadonlyMap<string, string>): Migration[] {
  const changed = migrations.find((m) => history.has(m.name) && history.get(m.name) !== m.checksum)
  if (changed) throw new Error(`Migration ${changed.name} was changed after it had been applied; add a new one instead`)
  const pending = migrations.filter((m) => !history.has(m.name))
  const newest = [...history.keys()].sort().at(-1)
  const late = pending.find((m) => newest !== undefined && m.name < newest)
  if (late) throw new Error(`Migration ${late.name} comes before ${newest}, which has been applied; number it higher`)
  // Files that are unknown to us are a newer build's: an old pod that restarts meanwhile finds nothing to do.
  return pending
}

async function apply(client: pg.Client, migration: Migration): Promise<void> {
  await client.query('begin')
  try {
    await client.query(migration.sql)
    await client.query('insert into schema_migrations (name, checksum) values ($1, $2)', [
      migration.name,
      migration.checksum,
    ])
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw new Error(`Migration ${migration.name} failed: ${(error as Error).message}`, { cause: error })
  }
}

export const DATABASE_ROLES = ['keepsake_api', 'keepsake_worker'] as const

/**
 * Roles belong to the whole server, and the lock only to one database: two databases may be migrated at once, so the
 * one that comes second must take "exists already" for an answer. Whoever migrates may become each of them.
 */
async function createRoles(client: pg.Client): Promise<void> {
  for (const role of DATABASE_ROLES) {
    await client.query(`do $$ begin
      if not exists (select from pg_roles where rolname = '${role}') then
        create role ${role} nologin nosuperuser nobypassrls nocreatedb nocreaterole;
        -- Since version 16 the maker of a role may not become it unless that is granted as well.
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
    if (rows[0]?.mighty) throw new Error(`Role ${role} could bypass row-level security; take that right away first`)
  }
}
