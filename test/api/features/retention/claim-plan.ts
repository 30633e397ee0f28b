import t from 'tap'
import { sql } from '../../../../api/db/orm.ts'
import { claimDueOf, countDueMedia } from '../../../../api/features/media/deletion/purge-queries.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { testDatabase } from '../../../support/database.ts'
import { insertMany, vacuum } from '../../../support/explain.ts'

/** How many pages of Postgres a claim touches, in a large trash of which the oldest items are leased. */
const database = await testDatabase(t)
const { admin, worker } = database
const [org, user] = [newUuid(), newUuid()]
await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'test', user])
await admin.query('insert into organizations (id, name) values ($1, $2)', [org, 'Friends'])
const LEASED = 20_000
const FREE = 5000

/** So many media items in the trash for that many days, one second apart. */
const insertTrash = (count: number, days: number, lease: string) =>
  insertMany(
    database,
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, deleted_at, deleted_by, lease_at)
      select gen_random_uuid(), $1, $2, 'f', 'video/mp4', 'video', 7,
        now() - make_interval(days => $4, secs => n), $2::uuid, $5
      from generate_series(1, $3::int) n`,
    [org, user, count, days, lease],
  )
const dueAt = (at: Date) => ({ at: at.toISOString(), rules: [{ after: 'P30D', action: 'purge' as const }] })
const due = dueAt(new Date())

/** The shared buffers that finding a hundred free items takes: the same query, without its lock, explained. */
async function buffersOfClaim(at = due): Promise<{ buffers: number; found: number }> {
  return worker.inTransaction({}, async (tx) => {
    const found: { buffers: number; found: number } = { buffers: 0, found: 0 }
    const explaining = Object.create(tx, {
      execute: {
        value: async (query: Parameters<typeof tx.execute>[0]) => {
          const { rows } = await tx.execute<{ 'QUERY PLAN': { Plan: Record<string, number> }[] }>(
            sql`explain (analyze, buffers, format json) ${query as never}`,
          )
          const plan = rows[0]?.['QUERY PLAN'][0]?.Plan ?? {}
          found.buffers = (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0)
          found.found = plan['Actual Rows'] ?? 0
          return { rows: [] }
        },
      },
    }) as typeof tx
    await claimDueOf(explaining, at, { limit: 100, seconds: 60, token: newUuid() })
    return found
  })
}

t.test('20,000 leased items that are older make a claim hardly more expensive', async (t) => {
  await insertTrash(FREE, 40, '-infinity')
  await vacuum(database, 'media')
  const before = await buffersOfClaim()
  await insertTrash(LEASED, 80, '9999-01-01')
  await vacuum(database, 'media')
  const after = await buffersOfClaim()
  t.strictSame([before.found, after.found], [100, 100])
  t.comment(`${before.buffers} buffers with nothing leased, ${after.buffers} with ${LEASED} leased`)
  // Reading the leased rows themselves would touch each: 40,609 where it was measured.
  t.ok(after.buffers < LEASED / 20, `${after.buffers} buffers`)
})

t.test('a look that finds nothing free reads no row', async (t) => {
  const idle = await buffersOfClaim(dueAt(new Date(Date.now() - 30 * 86_400_000)))
  t.equal(idle.found, 0)
  t.ok(idle.buffers < LEASED / 50, `${idle.buffers} buffers`)
})

t.test('what is due is counted with and without holds', async (t) => {
  const count = () => worker.read({}, (tx) => countDueMedia(tx, due))
  const { due: all, held: none } = await count()
  t.equal(all, LEASED + FREE)
  t.equal(none, 0)
  await admin.query(
    `insert into legal_holds (id, kind, subject, reason, placed_by) values ($1, 'organization', $2, 'r', 'b')`,
    [newUuid(), org],
  )
  t.strictSame(await count(), { due: 0, held: all })
})
