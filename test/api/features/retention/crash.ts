import t from 'tap'
import { mediaPrefix } from '../../../../lib/contract/object-keys.ts'
import { conversionWorld, testCluster, testStore } from '../../../support/conversion-world.ts'
import { testDatabase } from '../../../support/database.ts'
import { eventually } from '../../../support/eventually.ts'
import { aRun, retentionHere, startRetention } from '../../../support/retention.ts'
import { retentionItems } from '../../../support/retention-items.ts'

/** The program as it runs in a pod, killed between any two steps; its termination message. */
const database = await testDatabase(t)
const place = await testStore(t)
const world = await conversionWorld(database, place, testCluster(t))
const { admin } = database
const start = (t: Parameters<typeof startRetention>[0], run: ReturnType<typeof aRun>, failpoint?: string) =>
  startRetention(t, {
    databaseUrl: database.url,
    storeFolder: place.storeFolder,
    run,
    ...(failpoint !== undefined && { failpoint }),
  })

const here = retentionHere({ database, store: place.store })
const { trashed } = retentionItems({ admin, store: place.store }, world)

// What a purge leaves in the middle of its objects is in test/api/features/media/purge-crash.ts.
for (const failpoint of ['retention.claimed', 'purge.deleted', 'purge.committed']) {
  t.test(`killed at ${failpoint}, the next process purges each once, and counts each once`, async (t) => {
    const ids = await trashed(3)
    const run = aRun('MediaTrash')
    const first = await start(t, run, failpoint)
    t.equal(await first.ended, 'SIGKILL', first.output().slice(-1000))
    t.equal(await first.result(), undefined)
    await admin.query('update media set lease_at = now()')
    t.match(await here(run), { purged: 3, due: 3, failures: 0, ended: 'Finished' })
    for (const id of ids) {
      t.equal(await place.store.deletePrefix(mediaPrefix(world.org, id)), 0)
      t.equal(await world.row(id), undefined)
      t.equal(await world.count(id, 'MediaPurged'), 1)
      const entries = await admin.query(
        `select from audit_log where resource_id = $1 and details ->> 'operation' = 'purge'`,
        [id],
      )
      t.equal(entries.rowCount, 1)
    }
  })
}

t.test('a process that is told to end exits with 143, and one whose run is over with 0', async (t) => {
  const ids = await trashed(6)
  // The second one waits for its turn.
  const run = aRun('MediaTrash', { bytesPerSecond: 1 })
  const first = await start(t, run)
  await eventually(
    'the first purge',
    async () => (await admin.query('select from media where id = any($1)', [ids])).rowCount === 5,
  )
  first.child.kill('SIGTERM')
  t.equal(await first.ended, 143, first.output().slice(-1000))
  t.match(await first.result(), { purged: 1, due: 6, failures: 0, ended: 'Stopped' })
  t.equal((await admin.query('select from media where lease_token is not null')).rowCount, 0, 'it gave back the rest')
  const second = await start(t, { ...run, bytesPerSecond: undefined })
  t.equal(await second.ended, 0, second.output().slice(-1000))
  t.match(await second.result(), { purged: 6, due: 6, ended: 'Finished' })
})

t.test('killed while it writes the report of a dry run, the next process writes it', async (t) => {
  await trashed(2)
  const run = aRun('MediaTrash', { dryRun: true })
  const first = await start(t, run, 'retention.report-written')
  t.equal(await first.ended, 'SIGKILL')
  await admin.query('update retention_runs set lease_at = now()')
  const second = await start(t, run)
  t.equal(await second.ended, 0, second.output().slice(-1000))
  t.match(await second.result(), { purged: 2, ended: 'Finished', report: `retention/reports/${run.run}.jsonl.gz` })
})

t.test('a run that is no run ends with status 1 before it does anything', async (t) => {
  const bad = await start(t, { ...aRun('MediaTrash'), rules: [{ after: '30 days', action: 'purge' }] })
  t.equal(await bad.ended, 1)
  t.match(bad.output(), /RETENTION_RUN/)
})
