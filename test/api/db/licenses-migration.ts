import t from 'tap'
import { newUuid } from '../../../lib/contract/ids.ts'
import { databaseBefore } from '../../support/older-database.ts'

t.test('an earlier and a later version read the same license of a track, whichever of them wrote it', async (t) => {
  const { admin, finish } = await databaseBefore(t, '0023_licenses_and_deletions.sql')
  const add = async (column: 'licence' | 'license', value: string) => {
    const id = newUuid()
    await admin.query(
      `insert into music_tracks (id, title, ${column}, attribution, duration_sec, mime_type, file_size_bytes)
        values ($1, 'Waves', $2, 'Ann', 30, 'audio/mpeg', 1)`,
      [id, value],
    )
    return id
  }
  const read = async (id: string) => {
    const { rows } = await admin.query('select licence, license from music_tracks where id = $1', [id])
    return rows[0]
  }
  const before = await add('licence', 'CC0')
  await finish()
  t.strictSame(await read(before), { licence: 'CC0', license: 'CC0' })
  // The version before runs beside this one, and may be rolled back to.
  const [early, late] = [await add('licence', 'CC BY'), await add('license', 'CC BY-SA')]
  t.strictSame(await read(early), { licence: 'CC BY', license: 'CC BY' })
  t.strictSame(await read(late), { licence: 'CC BY-SA', license: 'CC BY-SA' })
  for (const [column, value] of [
    ['licence', 'one'],
    ['license', 'other'],
  ]) {
    await admin.query(`update music_tracks set ${column} = $2 where id = $1`, [early, value])
    t.strictSame(await read(early), { licence: value, license: value })
  }
  await admin.query('update music_tracks set retired_at = now() where id = $1', [late])
  t.strictSame(await read(late), { licence: 'CC BY-SA', license: 'CC BY-SA' })
  await t.rejects(
    admin.query(
      `insert into music_tracks (id, title, attribution, duration_sec, mime_type, file_size_bytes)
        values ($1, 'Waves', 'Ann', 30, 'audio/mpeg', 1)`,
      [newUuid()],
    ),
    { code: '23502' },
  )
})
