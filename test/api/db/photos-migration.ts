import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import t from 'tap'
import { migrate } from '../../../api/db/migrate.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import { openLog } from '../../../lib/runtime/log.ts'
import { emptyDatabase } from '../../support/database.ts'

const log = openLog({ program: 'test', level: 'error', fd: 2 })
const FOLDER = fileURLToPath(new URL('../../../api/db/migrations/', import.meta.url))
const MIGRATION = '0006_photos.sql'

t.test('the times of capture that an older version accepted are taken over', async (t) => {
  const url = await emptyDatabase(t)
  const admin = new pg.Client({ connectionString: url })
  const older = await mkdtemp(join(tmpdir(), 'keepsake-migrations-'))
  t.teardown(async () => {
    await admin.end()
    await rm(older, { recursive: true })
  })
  await cp(FOLDER, older, { recursive: true, filter: (path) => path === FOLDER || path < join(FOLDER, MIGRATION) })
  await migrate({ url, log, folder: older })
  await admin.connect()
  const [org, user] = [newUuid(), newUuid()]
  await admin.query('insert into organizations (id, name) values ($1, $2)', [org, 'One'])
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'i', 's'])
  // RFC 3339 permits offsets up to 23:59, and Postgres refuses those from 16:00.
  const times = ['02T18:00:00+02:00', '03T18:00:00.5Z', '04T18:00:00+23:00', '05T18:00:00-23:59', '06T00:00-00:30']
  for (const capturedAt of [...times.map((time) => `2023-07-${time}`), '9999-12-31T23:59:59-01:00', null]) {
    await admin.query(
      `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, manifest)
       values (gen_random_uuid(), $1, $2, 'f', 'video/mp4', 'video', 10, $3)`,
      [org, user, JSON.stringify({ source: { capturedAt } })],
    )
  }
  await migrate({ url, log })
  const { rows } = await admin.query('select captured_at from media where captured_at is not null order by 1')
  t.strictSame(
    rows.map((row) => row.captured_at.toISOString()),
    ['02T16:00:00.000Z', '03T18:00:00.500Z', '03T19:00:00.000Z', '06T00:30:00.000Z', '06T17:59:00.000Z'].map(
      (time) => `2023-07-${time}`,
    ),
  )
  const months = await admin.query('select sum(media_count)::int as n from media_months')
  t.strictSame(months.rows, [{ n: 7 }], 'all are counted')
})
