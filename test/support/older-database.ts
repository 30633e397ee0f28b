import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { Test } from 'tap'
import { migrate } from '../../api/db/migrate.ts'
import { openLog } from '../../lib/runtime/log.ts'
import { emptyDatabase, withDatabase } from './database.ts'

const log = openLog({ program: 'test', level: 'error', fd: 2 })
const FOLDER = fileURLToPath(new URL('../../api/db/migrations/', import.meta.url))

/**
 * A database as it was before `migration`, whose owner is no superuser: subject to row-level security where it is forced.
 * `finish` applies the migrations from that one on; `admin` is connected as a superuser, and `url` is.
 */
export async function databaseBefore(
  t: Pick<Test, 'teardown'>,
  migration: string,
): Promise<{ admin: pg.Client; url: string; finish: () => ReturnType<typeof migrate> }> {
  const url = await emptyDatabase(t)
  const server = new pg.Client({ connectionString: url })
  await server.connect()
  const name = `older_${process.pid}`
  await server.query(`create role ${name} login createrole password 'p'`)
  for (const role of ['keepsake_api', 'keepsake_worker']) {
    await server.query(`do $$ begin create role ${role} nologin; exception when duplicate_object then null; end $$`)
    await server.query(`grant ${role} to ${name}`)
  }
  await server.query(`create database ${name} owner ${name}`)
  const older = await mkdtemp(join(tmpdir(), 'keepsake-migrations-'))
  const owned = new URL(withDatabase(url, name))
  const asServer = owned.href
  const admin = new pg.Client({ connectionString: asServer })
  owned.username = name
  owned.password = 'p'
  t.teardown(async () => {
    await admin.end()
    await server.query(`drop database ${name} with (force)`)
    await server.query(`drop owned by ${name}`)
    await server.query(`drop role ${name}`)
    await server.end()
    await rm(older, { recursive: true })
  })
  await cp(FOLDER, older, { recursive: true, filter: (path) => path === FOLDER || path < join(FOLDER, migration) })
  await migrate({ url: owned.href, log, folder: older })

  await admin.connect()
  return { admin, url: asServer, finish: () => migrate({ url: owned.href, log }) }
}
