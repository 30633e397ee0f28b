import t from 'tap'
import { newUuid } from '../../../lib/contract/ids.ts'
import { databaseBefore } from '../../support/older-database.ts'

t.test('films that an earlier version was rendering have a slot; what is over or deleted needs none', async (t) => {
  const { admin, finish } = await databaseBefore(t, '0017_film_slots.sql')
  const [org, user] = [newUuid(), newUuid()]
  await admin.query('insert into organizations (id, name) values ($1, $2)', [org, 'One'])
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'i', 's'])
  const film = (title: string, status: string, isDeleted = false) =>
    admin.query(
      `insert into highlights (id, org_id, created_by, title, transition, orientation, fill, ken_burns, show_title,
        captions, skip_broken, estimated_duration_sec, status, deleted_at)
        values ($1, $2, $3, $4, 'cut', 'auto', 'blur', true, true, 'none', false, 4, $5, case when $6 then now() end)`,
      [newUuid(), org, user, title, status, isDeleted],
    )
  await film('rendering', 'processing')
  await film('deleted', 'processing', true)
  await film('finished', 'completed')
  await film('failed', 'failed')
  await finish()
  const { rows } = await admin.query('select title from highlights where render_admitted_at is not null')
  t.strictSame(rows, [{ title: 'rendering' }])
  const { rows: forced } = await admin.query(
    `select relforcerowsecurity as is from pg_class where relname = 'highlights'`,
  )
  t.strictSame(forced, [{ is: true }], 'the owner is subject to the policies again')
})
