import { execFile } from 'node:child_process'
import { access, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import t, { type Test } from 'tap'
import { insertAudit } from '../../../api/audit/queries.ts'
import { startSealer } from '../../../api/audit/sealer.ts'
import { openDatabase } from '../../../api/db/db.ts'
import { migrate } from '../../../api/db/migrate.ts'
import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { startEmbeddedPostgres } from '../../../local/postgres.ts'
import { auditWorld } from '../../support/audit.ts'
import { commandLine } from '../../support/command-line.ts'
import { testStore } from '../../support/conversion-world.ts'
import { testDatabase, withDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { matchWhole } from '../../support/match-whole.ts'
import { AUDIT_KEYS } from '../../support/personal-data.ts'
import { quietLog } from '../../support/quiet-log.ts'

/** The seal of a log that was restored: to an earlier time, and into another cluster. */
const log = quietLog()
const PG15 = '/usr/lib/postgresql/15/bin'
const has15 = await access(`${PG15}/pg_dump`).then(
  () => true,
  () => false,
)

function open(t: Test, url: string) {
  const worker = openDatabase({ url, role: 'keepsake_worker', statementTimeoutMs: 20_000, maxConnections: 3, log })
  const admin = new pg.Pool({ connectionString: url, max: 2 })
  admin.on('error', () => {})
  t.teardown(async () => {
    await Promise.all([worker.close(), admin.end()])
  })
  return { url, worker, admin }
}

const entry = () => ({
  orgId: null,
  actorId: newUuid(),
  action: 'LOGIN' as const,
  resourceId: null,
  result: 'success' as const,
  context: null,
})

t.test('a log that was restored to an earlier time goes on, and says so', async (t) => {
  const database = await testDatabase(t)
  const { store, storeFolder } = await testStore(t)
  const before = auditWorld(database, store)
  await before.entries(5)
  await before.seal()
  await before.anchor()
  // The backup.
  const name = new URL(database.url).pathname.slice(1)
  await Promise.all([database.db.pool, database.worker.pool].map((pool) => pool.query('select 1')))
  const server = new pg.Client({ connectionString: withDatabase(database.url, 'postgres') })
  await server.connect()
  t.teardown(async () => {
    await server.query(`drop database if exists ${name}_earlier with (force)`)
    await server.end()
  })
  await server.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, [name])
  await server.query(`create database ${name}_earlier template ${name}`)
  // What is lost.
  await before.entries(3)
  await before.seal()
  await before.anchorAgain()
  t.strictSame(await before.findings(), [])

  const restored = open(t, withDatabase(database.url, `${name}_earlier`))
  const after = auditWorld(restored, store)
  // Enough to make up for what was lost, if the sealer sealed before it looked.
  await after.entries(4)
  t.match(await after.findings(), [{ what: 'anchor ahead of the log', since: /^20\d\d-/ }])
  const sealer = startSealer({ ...after, log }, { pollMs: 10 })
  t.teardown(() => sealer.stop())
  await eventually('the sealer to begin a timeline', async () => {
    const [{ sealed, timeline }] = await after.sql('select sealed::int, timeline from audit_cursor')
    return sealed === 10 && timeline === 1
  })
  await sealer.stop()
  await after.anchorAgain()
  const [restore] = await after.sql(`select entry_id, details from audit_log join audit_restores on entry_id = id`)
  t.match(restore, { details: { operation: 'restored to an earlier time', sealed: 5, anchored: 8 } })
  const expected = { entries: 10, ended: 1, restores: [{ entry: /^aud_/ }] }
  t.match(await after.verify(), { ...expected, findings: [{ what: 'restore not accepted', sealed: 5, anchored: 8 }] })
  const env = { DATABASE_URL: restored.url, STORE_KIND: 'folder', STORE_FOLDER: storeFolder, AUDIT_KEYS }
  const accept = (id: Uuid) => commandLine(['audit', 'accept-restore', formatId('audit', id)], env)
  t.match(await accept(newUuid()), { code: 3, err: /No restore has this entry/ })
  const entryId = formatId('audit', restore.entry_id)
  t.match(await accept(restore.entry_id), { code: 0, out: { entry: entryId, timeline: 1, sealed: 5, anchored: 8 } })
  await after.seal()
  matchWhole(t, await after.verify(), { ...expected, entries: 11, findings: [] })
  await after.notice()
  t.equal((await after.sql('select timeline from audit_cursor'))[0].timeline, 1, 'once')

  // In the new timeline its own anchors hold.
  await after.entries(1)
  await after.seal()
  await after.anchorAgain()
  await restored.admin.query(`delete from audit_links where (day, org_id, seq) in (select day, org_id, count from audit_heads);
    update audit_heads set count = count - 1, hash = (select hash from audit_links l where l.day = audit_heads.day
      and l.org_id = audit_heads.org_id and seq = count - 1)`)
  matchWhole(t, await after.findings(), [{ what: 'entry without link' }, { what: 'removed since anchor' }])
})

t.test('a dump goes on in another cluster', { skip: has15 ? false : `no pg_dump in ${PG15}` }, async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-pg-'))
  const binaries = { initdb: `${PG15}/initdb`, postgres: `${PG15}/postgres` }
  const start = (name: string) => startEmbeddedPostgres({ dataDir: join(folder, name), log, fast: true, binaries })
  const servers = await Promise.all([start('one'), start('two')])
  const [one, two] = servers.map(({ url }) => url) as [string, string]
  t.teardown(async () => {
    await Promise.all(servers.map((server) => server.stop()))
    await rm(folder, { recursive: true, force: true })
  })
  await migrate({ url: one, log })
  const { store } = await testStore(t)
  const first = open(t, one)
  const before = auditWorld(first, store)
  // Transaction ids of the new cluster are far below those of the dump.
  await first.admin.query(`do $$ begin for i in 1..20000 loop perform pg_current_xact_id(); commit; end loop; end $$`)
  await before.entries(6)
  await before.seal()
  await before.anchor()
  await before.entries(3)

  const run = promisify(execFile)
  const dump = join(folder, 'dump')
  await run(`${PG15}/pg_dump`, ['-Fc', '-f', dump, one])
  const target = new pg.Client({ connectionString: two })
  await target.connect()
  await target.query('create role keepsake_api; create role keepsake_worker')
  await target.end()
  await run(`${PG15}/pg_restore`, ['--exit-on-error', '-d', two, dump])
  const second = open(t, two)
  const after = auditWorld(second, store)

  // A transaction that has its id before the sealer comes writes its entry after it.
  const [begun, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const late = second.worker.inTransaction({}, async (tx) => {
    await tx.execute('select pg_current_xact_id()')
    begun.resolve()
    await end.promise
    await insertAudit(tx, entry())
  })
  await begun.promise
  await after.entries(2)
  // Its serial is used up: only the sequence knows of it.
  const undone = second.worker.inTransaction({}, async (tx) => {
    await insertAudit(tx, entry())
    throw new Error('undone')
  })
  await t.rejects(undone, { message: 'undone' })
  await after.sealNow()
  t.equal(await after.unsealed(), 0, 'those that the dump had not sealed, and those that were written here')
  end.resolve()
  await late
  await after.entries(2)
  await after.seal()
  t.equal(await after.unsealed(), 0, 'the late one, too')
  matchWhole(t, await after.verify(), { entries: 14, unsealed: 0, findings: [] })
  matchWhole(t, await after.sql(`select floor::int, sealed::int, timeline from audit_cursor`), [
    { floor: 12, sealed: 14, timeline: 0 },
  ])
  await after.seal()
  matchWhole(t, await after.sql('select count(*)::int as n from audit_links'), [{ n: 14 }], 'and nothing twice')
})
