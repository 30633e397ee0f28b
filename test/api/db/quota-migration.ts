import t from 'tap'
import { newUuid } from '../../../lib/contract/ids.ts'
import { databaseBefore } from '../../support/older-database.ts'

const MIGRATION = '0004_quota.sql'

// Row-level security is forced on these tables: an owner who is no superuser sees no rows of them.
t.test('what an older version left is counted and admitted, also by an owner who is no superuser', async (t) => {
  const { admin, finish } = await databaseBefore(t, MIGRATION)
  const [org, user] = [newUuid(), newUuid()]
  await admin.query('insert into organizations (id, name) values ($1, $2)', [org, 'One'])
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'i', 's'])
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status)
     select gen_random_uuid(), $1, $2, 'f', 'video/mp4', 'video', 10, status
     from unnest(array['processing', 'completed', 'failed']) status`,
    [org, user],
  )
  await admin.query(
    `insert into uploads (id, org_id, uploader_id, media_id, layout, filename, mime_type, file_size_bytes,
       chunk_size_bytes, total_chunks, expires_at, absolute_expires_at, state)
     select gen_random_uuid(), $1, $2, gen_random_uuid(), 'staged', 'f', 'video/mp4', 100, 1, 1, now(), now(), state
     from unnest(array['open', 'merging', 'completed', 'aborted', 'expired']) state`,
    [org, user],
  )
  t.ok((await finish()).applied.includes(MIGRATION))
  t.match((await admin.query('select * from user_storage')).rows, [
    { user_id: user, media_bytes: '30', upload_bytes: '200', open_uploads: 2 },
  ])
  t.strictSame((await admin.query('select upload_status from media where conversion_admitted_at is not null')).rows, [
    { upload_status: 'processing' },
  ])
  const forced = await admin.query(
    `select relname from pg_class where relforcerowsecurity and relname in ('media', 'uploads')`,
  )
  t.equal(forced.rowCount, 2, 'row-level security is forced again')
})

t.test('what users stored before is split by organization', async (t) => {
  const { admin, finish } = await databaseBefore(t, '0113_storage_in_organizations.sql')
  const [org, left, user] = [newUuid(), newUuid(), newUuid()]
  await admin.query(`insert into organizations (id, name) values ($1, 'One'), ($2, 'Two')`, [org, left])
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'i', 's'])
  await admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [org, user])
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
     select gen_random_uuid(), of, $3, 'f', 'video/mp4', 'video', bytes
     from (values ($1::uuid, 10), ($1, 20), ($2, 400)) stored (of, bytes)`,
    [org, left, user],
  )
  await admin.query(
    `insert into uploads (id, org_id, uploader_id, media_id, layout, filename, mime_type, file_size_bytes,
       chunk_size_bytes, total_chunks, expires_at, absolute_expires_at, state)
     select gen_random_uuid(), $1, $2, gen_random_uuid(), 'staged', 'f', 'video/mp4', 100, 1, 1, now(), now(), state
     from unnest(array['open', 'merging', 'completed']) state`,
    [org, user],
  )
  await finish()
  const { rows } = await admin.query(
    'select org_id, bytes::int, open_uploads from storage_in_organizations where user_id = $1 order by bytes',
    [user],
  )
  t.strictSame(rows, [
    { org_id: org, bytes: 230, open_uploads: 2 },
    { org_id: left, bytes: 400, open_uploads: 0 },
  ])
  t.strictSame((await admin.query('select stored_bytes::int, open_uploads from storage_of($1)', [user])).rows, [
    { stored_bytes: 230, open_uploads: 2 },
  ])
})
