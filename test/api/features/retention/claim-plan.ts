import t from 'tap'
import type { Tx } from '../../../../api/db/db.ts'
import { sql } from '../../../../api/db/orm.ts'
import { claimDueOf, countDueMedia, listDueMedia } from '../../../../api/features/media/deletion/purge-queries.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { testDatabase } from '../../../support/database.ts'
import { insertMany, type Plan, vacuum } from '../../../support/explain.ts'

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
const buffersOfClaim = (at = due) =>
  buffersOf((tx) => claimDueOf(tx, at, { limit: 100, seconds: 60, token: newUuid() }))

/** The shared buffers that the one query of `ask` touches, and what it found. */
async function buffersOf(ask: (tx: Tx) => Promise<unknown>) {
  const plan = await explained(ask)
  return { buffers: (plan['Shared Hit Blocks'] ?? 0) + (plan['Shared Read Blocks'] ?? 0), found: plan['Actual Rows'] }
}

type Explained = Plan & { 'Shared Hit Blocks'?: number; 'Shared Read Blocks'?: number }

async function explained(ask: (tx: Tx) => Promise<unknown>): Promise<Explained> {
  return worker.inTransaction({}, async (tx) => {
    let plan: Explained | undefined
    const explaining = Object.create(tx, {
      execute: {
        value: async (query: Parameters<typeof tx.execute>[0]) => {
          const { rows } = await tx.execute<{ 'QUERY PLAN': [{ Plan: Explained }] }>(
            sql`explain (analyze, buffers, format json) ${query as never}`,
          )
          plan = rows[0]?.['QUERY PLAN'][0].Plan
          return { rows: [] }
        },
      },
    }) as typeof tx
    await ask(explaining)
    if (!plan) throw new Error('it asked nothing')
    return plan
  })
}

const nodesOf = (plan: Plan): Plan[] => [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]

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

t.test('what edits of comments have removed from a held event is looked up once, not for each item', async (t) => {
  const [event, hold] = [newUuid(), newUuid()]
  const COMMENTS = 200
  await insertMany(
    database,
    `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body)
      select gen_random_uuid(), $1, $2, 'meta', $2, 'event', $3, 'c' from generate_series(1, $4::int)`,
    [org, event, user, COMMENTS],
  )
  await insertMany(
    database,
    `insert into comment_versions (comment_id, version, org_id, body, media_ids, mentions, written_at)
      select id, 1, org_id, 'b', '{}', '{}', now() from comments where event_id = $1`,
    [event],
  )
  await vacuum(database, 'comments', 'comment_versions')
  const { rows } = await admin.query('select id from media order by deleted_at limit 1')
  await admin.query(
    'update comment_versions set media_ids = array[$1::uuid] where comment_id = (select id from comments limit 1)',
    [rows[0].id],
  )
  await admin.query(
    `insert into legal_holds (id, kind, subject, reason, placed_by) values ($1, 'event', $2, 'r', 'b')`,
    [hold, event],
  )
  const ITEMS = 500
  const plan = await explained((tx) => listDueMedia(tx, due, { after: undefined, limit: ITEMS }))
  t.equal(plan['Actual Rows'], ITEMS)
  const looks = nodesOf(plan).filter((node) => node['Relation Name'] === 'comment_versions')
  t.ok(looks.length > 0 && looks.every((node) => node['Actual Loops'] <= COMMENTS), JSON.stringify(looks))
  t.equal((await worker.read({}, (tx) => countDueMedia(tx, due))).held, 1)
  await admin.query('delete from legal_holds where id = $1', [hold])
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
