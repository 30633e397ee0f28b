import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { type Database, openDatabase } from '../../api/db/db.ts'
import { listMigrations, migrate } from '../../api/db/migrate.ts'
import { openLog } from '../../lib/runtime/log.ts'
import { startEmbeddedPostgres } from '../../local/postgres.ts'

const log = openLog({ program: 'test', level: 'error', fd: 2 })

export interface TestDatabase {
  /** As superuser: for programs under test, which take on their own role. */
  url: string
  /** As the API sees it. */
  db: Database
  /** As the worker sees it. */
  worker: Database
  /** Sees and does everything: to prepare and to check. */
  admin: pg.Pool
}

interface Teardown {
  teardown(done: () => Promise<void>): void
}

/**
 * A migrated database of the test file's own, dropped when it ends. The server is that of KEEPSAKE_TEST_DATABASE_URL;
 * without one, an embedded server is started and stopped.
 */
export async function testDatabase(t: Teardown): Promise<TestDatabase> {
  const server = await testServer()
  const template = await templateOn(server.url)
  const name = `test_${randomBytes(8).toString('hex')}`
  // The usual strategy writes each page to the log, too: twice the CPU.
  await asAdmin(server.url, (client) => client.query(`create database ${name} template ${template} strategy file_copy`))
  const url = withDatabase(server.url, name)
  const options = { url, statementTimeoutMs: 10_000, maxConnections: 30, log }
  const db = openDatabase({ ...options, role: 'keepsake_api' })
  const worker = openDatabase({ ...options, role: 'keepsake_worker' })
  const admin = new pg.Pool({ connectionString: url, max: 5 })
  admin.on('error', () => {})
  t.teardown(async () => {
    await Promise.all([db.close(), worker.close(), admin.end()])
    await asAdmin(server.url, (client) => client.query(`drop database ${name} with (force)`))
    await server.release()
  })
  return { url, db, worker, admin }
}

/** An empty, unmigrated database on the same server. */
export async function emptyDatabase(t: Teardown, serverUrl?: string): Promise<string> {
  const server = serverUrl ? { url: serverUrl, release: async () => {} } : await testServer()
  const name = `test_${randomBytes(8).toString('hex')}`
  await asAdmin(server.url, (client) => client.query(`create database ${name}`))
  t.teardown(async () => {
    await asAdmin(server.url, (client) => client.query(`drop database ${name} with (force)`))
    await server.release()
  })
  return withDatabase(server.url, name)
}

let own: Promise<{ url: string; stop(): Promise<void> }> | undefined
let users = 0

async function testServer(): Promise<{ url: string; release(): Promise<void> }> {
  const given = process.env['KEEPSAKE_TEST_DATABASE_URL']
  if (given) return { url: given, release: async () => {} }
  users += 1
  own ??= startOwn()
  const { url, stop } = await own
  const release = async () => {
    users -= 1
    if (users > 0) return
    own = undefined
    await stop()
  }
  return { url, release }
}

async function startOwn() {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-pg-'))
  const server = await startEmbeddedPostgres({ dataDir: join(folder, 'data'), log, fast: true })
  const stop = async () => {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
  return { url: server.socketUrl, stop }
}

/** The migrated database that others are copies of; made by whoever needs it first. */
async function templateOn(serverUrl: string): Promise<string> {
  const migrations = await listMigrations()
  const hash = createHash('sha256').update(migrations.map((m) => m.checksum).join())
  const name = `template_${hash.digest('hex').slice(0, 16)}`
  await asAdmin(serverUrl, async (client) => {
    await client.query('select pg_advisory_lock(4711)')
    const { rowCount } = await client.query('select from pg_database where datname = $1', [name])
    if (rowCount) return
    await client.query(`drop database if exists ${name}_new`)
    await client.query(`create database ${name}_new`)
    await migrate({ url: withDatabase(serverUrl, `${name}_new`), log })
    await client.query(`alter database ${name}_new rename to ${name}`)
  })
  return name
}

async function asAdmin<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

export function withDatabase(url: string, name: string): string {
  const parsed = new URL(url)
  parsed.pathname = `/${name}`
  return parsed.href
}

/** The address of a test database for a proxy to stand before. Tests talk to their server over its Unix socket. */
export function overTcp(url: string): URL {
  const parsed = new URL(url)
  parsed.hostname = '127.0.0.1'
  return parsed
}
