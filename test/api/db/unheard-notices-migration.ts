import t from 'tap'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { databaseBefore } from '../../support/older-database.ts'

/** Last notices that were given before the database said whether the consumer of notifications has handled them. */
const { admin, finish } = await databaseBefore(t, '0127_unheard_notices_of_before.sql')
const [org, user] = [newUuid(), newUuid()]
await admin.query(`insert into organizations (id, name) values ($1, 'One')`, [org])
await admin.query(`insert into users (id, issuer, subject) values ($1, 'i', 's')`, [user])
const AT = '2026-12-05T02:13:45.550Z'
async function event(o: { notice?: number; named?: string; begun?: boolean } = {}): Promise<Uuid> {
  const { notice = 2, named, begun = false } = o
  const id = newUuid()
  await admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status, archived_at, purge_notice, purge_notice_for,
        purge_begun_at, purge_look_at)
      values ($1, $2, $3, 'A', now(), 'archived', now(), $4, $5, $6, now() + interval '5 days')`,
    [id, org, user, notice, AT, begun ? AT : null],
  )
  if (named)
    await admin.query(
      `insert into notifications (id, org_id, template, event_id, user_id, purge_notice, purge_at)
       values (gen_random_uuid(), $1, 'EventPurgeSoon.v1', $2, $3, 2, $4)`,
      [org, id, user, named],
    )
  return id
}
const told = await event({ named: AT })
const untold = await event()
const toldBefore = await event({ named: '2026-11-05T02:13:45.550Z' })
const half = await event({ begun: true })
const first = await event({ notice: 1 })

t.test('a last notice of which no one was told is given again', async (t) => {
  await finish()
  const { rows } = await admin.query(
    `select id, purge_notice as notice, purge_notice_for is null as forgotten, purge_look_at = '-infinity' as now from events`,
  )
  const of = (id: Uuid) => rows.find((row) => row.id === id)
  for (const id of [untold, toldBefore]) t.match(of(id), { notice: 0, forgotten: true, now: true })
  for (const id of [told, half]) t.match(of(id), { notice: 2, forgotten: false, now: false })
  t.match(of(first), { notice: 1, forgotten: false, now: false })
})
