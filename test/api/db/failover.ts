import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import t from 'tap'
import { type Database, openDatabase } from '../../../api/db/db.ts'
import { sql } from '../../../api/db/orm.ts'
import { toProblem } from '../../../api/http/problems.ts'
import { databaseShares } from '../../../api/limits/capacity.ts'
import { fairDatabase } from '../../../api/limits/fair-database.ts'
import { isTransient } from '../../../api/worker/consumers/failure.ts'
import { openTurns } from '../../../api/worker/consumers/turns.ts'
import { startEmbeddedPostgres } from '../../../local/postgres.ts'
import { quietLog } from '../../support/quiet-log.ts'

const log = quietLog()
/** A server in recovery, as a standby and as a primary that was demoted. */
const server = await startStandby()
const db = openDatabase({ url: server.url, role: 'keepsake_api', statementTimeoutMs: 10_000, maxConnections: 1, log })
const fair = fairDatabase(db, databaseShares(1, 1), () => {})
const turns = openTurns({ url: server.url, log })
t.teardown(async () => {
  await Promise.all([db.close(), turns.close()])
  await server.stop()
})

async function startStandby() {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-standby-'))
  const dataDir = join(folder, 'data')
  const primary = await startEmbeddedPostgres({ dataDir, log, fast: true })
  await asAdmin(primary.url, 'create role keepsake_api')
  const before = openTurns({ url: primary.url, log })
  const history = (await before.take('one'))?.history
  await before.close()
  await primary.stop()
  await writeFile(join(dataDir, 'standby.signal'), '')
  const { url, stop } = await startEmbeddedPostgres({ dataDir, log, fast: true })
  return { url, history, stop: () => stop().then(() => rm(folder, { recursive: true })) }
}

async function asAdmin(url: string, statement: string) {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(statement).finally(() => client.end())
}

const read = ({ read }: Database) =>
  read({}, (tx) => tx.execute<{ pid: number }>(sql`select pg_backend_pid() as pid`)).then(({ rows }) => rows[0]?.pid)
const failureOf = (work: Promise<unknown>) => work.then(() => undefined).catch((error: unknown) => error)

t.test('a server in recovery is an outage, and the connection to it is not used again', async (t) => {
  const before = await read(db)
  t.equal(await read(db), before, 'the pool lends a connection again')
  const error = await failureOf(db.inTransaction({}, (tx) => tx.execute(sql`select 1`)))
  t.match(error, { name: 'ReadOnlyServer', cause: { code: '0A000' } })
  t.equal(toProblem(error).code, 'SERVICE_UNAVAILABLE')
  t.ok(isTransient(error), 'an event is not parked for it')
  t.not(await read(db), before)
  t.match(await failureOf(db.aside(() => Promise.resolve())), { name: 'ReadOnlyServer' })
})

t.test('a server in recovery is not ready', async (t) => {
  t.match(await failureOf(db.check()), { name: 'ReadOnlyServer' })
  t.equal(db.probe.totalCount, 0, 'the next check asks on a new connection')
  const before = await read(db)
  t.match(await failureOf(fair.check()), { name: 'ReadOnlyServer' }, 'the pool of requests')
  t.not(await read(db), before)
})

t.test('a server in recovery gives no turn', async (t) => {
  t.match(await failureOf(turns.take('one')), { name: 'ReadOnlyServer' })
})

t.test('a server that was promoted takes writes, and gives turns', async (t) => {
  await asAdmin(server.url, 'select pg_promote()')
  await db.check()
  await fair.check()
  t.ok(await db.inTransaction({}, async () => true))
  const turn = await turns.take('one')
  t.match(turn?.history, /^\d+\/0{7}2$/)
  t.equal(server.history, turn?.history.replace(/2$/, '1'), 'its history is another one')
})

t.test('a connection that only reads is not used again', async (t) => {
  const before = await read(db)
  const error = await failureOf(
    db.inTransaction({}, async (tx) => {
      await tx.execute(sql`set transaction read only`)
      await tx.execute(sql`create table one ()`)
    }),
  )
  t.match(error, { cause: { code: '25006' } })
  t.equal(toProblem(error).code, 'SERVICE_UNAVAILABLE')
  t.not(await read(db), before)
})

t.test('any other failure leaves the connection to the pool', async (t) => {
  const before = await read(db)
  t.match(await failureOf(db.inTransaction({}, (tx) => tx.execute(sql`select 1 / 0`))), { cause: { code: '22012' } })
  t.equal(await read(db), before)
})
