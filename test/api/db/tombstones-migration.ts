import t from 'tap'
import { newUuid } from '../../../lib/contract/ids.ts'
import { databaseBefore } from '../../support/older-database.ts'

t.test('of the comments that an earlier version deleted, those with replies are listed', async (t) => {
  const { admin, finish } = await databaseBefore(t, '0015_tombstones.sql')
  const [org, user, event] = [newUuid(), newUuid(), newUuid()]
  await admin.query('insert into organizations (id, name) values ($1, $2)', [org, 'One'])
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'i', 's'])
  await admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status) values ($1, $2, $3, 'Reunion', now(), 'active')`,
    [event, org, user],
  )
  const post = async (body: string, o: { isDeleted?: boolean; replyTo?: string } = {}) => {
    const id = newUuid()
    await admin.query(
      `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body, deleted_at, deleted_by)
        select $1, $2, $3, $4, $5, 'event', $6, $7, case when $8 then now() end, case when $8 then $6::uuid end`,
      [id, org, event, o.replyTo ? 'comment' : 'meta', o.replyTo ?? event, user, body, o.isDeleted ?? false],
    )
    return id
  }
  await post('live')
  await post('deleted', { isDeleted: true })
  const replied = await post('deleted, with a reply', { isDeleted: true })
  await post('reply', { replyTo: replied })
  await post('deleted reply', { replyTo: replied, isDeleted: true })
  const left = await post('deleted, as its reply', { isDeleted: true })
  await post('deleted reply', { replyTo: left, isDeleted: true })
  await finish()
  const { rows } = await admin.query('select body from comments where listed order by body')
  t.strictSame(
    rows.map(({ body }) => body),
    ['deleted, with a reply', 'live', 'reply'],
  )
  const { rows: forced } = await admin.query(
    `select relforcerowsecurity as is from pg_class where relname = 'comments'`,
  )
  t.strictSame(forced, [{ is: true }], 'the owner is subject to the policies again')
})
