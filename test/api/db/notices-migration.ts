import t from 'tap'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { databaseBefore } from '../../support/older-database.ts'

/** Notices of purges that were given before the database said to whom. */
const { admin, finish } = await databaseBefore(t, '0123_notices_of_before.sql')
const [org, user] = [newUuid(), newUuid()]
await admin.query(`insert into organizations (id, name) values ($1, 'One')`, [org])
await admin.query(`insert into users (id, issuer, subject) values ($1, 'i', 's')`, [user])
async function event(notice: number): Promise<Uuid> {
  const id = newUuid()
  await admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status, archived_at, purge_notice, purge_notice_for, purge_look_at)
      values ($1, $2, $3, 'A', now(), 'archived', now(), $4, case when $4 > 0 then now() end, now() + interval '5 days')`,
    [id, org, user, notice],
  )
  return id
}
const [half, told, untold] = [await event(2), await event(2), await event(0)]
await admin.query(
  `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
    conversion_state, leaving_with) values ($1, $2, $3, 'a', 'image/jpeg', 'image', 1, 'completed', 'succeeded', $4)`,
  [newUuid(), org, user, half],
)

t.test('a purge that has begun goes on, and other notices are given again at once', async (t) => {
  await finish()
  const { rows } = await admin.query(
    `select id, purge_begun_at is not null as begun, purge_look_at = '-infinity' as now from events`,
  )
  const of = (id: Uuid) => rows.find((row) => row.id === id)
  t.match(of(half), { begun: true, now: false })
  t.match(of(told), { begun: false, now: true })
  t.match(of(untold), { begun: false, now: false })
})
