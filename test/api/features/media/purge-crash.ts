import t from 'tap'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { mediaPrefix } from '../../../../lib/contract/object-keys.ts'
import { conversionWorld, testStore } from '../../../support/conversion-world.ts'
import { testDatabase } from '../../../support/database.ts'
import { dyingWorkers, patiently } from '../../../support/worker-process.ts'

// The worker as it runs in a pod, killed in the middle of a purge.
const database = await testDatabase(t)
const place = await testStore(t)
const { cluster, start, startHere, died } = await dyingWorkers(t, database, place, 'media')
const world = await conversionWorld(database, place, cluster)
const { admin } = database

const keysBelow = async (id: Uuid) => {
  const keys: string[] = []
  for await (const { key } of place.store.list(mediaPrefix(world.org, id))) keys.push(key)
  return keys
}
const entries = async (id: Uuid) =>
  (await admin.query(`select from audit_log where resource_id = $1 and details ->> 'operation' = 'purge'`, [id]))
    .rowCount

for (const [place, gone, emptied, begun] of [
  ['purge.claimed', false, 0, false],
  ['purge.begun', false, 0, true],
  ['purge.objects-deleted', false, 1, true],
  ['purge.deleted', false, 2, true],
  ['purge.committed', true, 2, true],
] as const) {
  t.test(`killed at ${place}, the next worker purges both halves of a Live Photo once`, async (t) => {
    const [image, video] = [await world.upload('image/jpeg'), await world.upload()]
    const both = [image, video]
    for (const id of both) await world.writeOutput(id)
    await admin.query(
      `update media set upload_status = 'completed', deleted_at = now() - interval '31 days', deleted_by = uploader_id,
        paired_media_id = case when id = $1::uuid then $2::uuid else $1::uuid end where id in ($1::uuid, $2::uuid)`,
      both,
    )
    const first = start(t, { KEEPSAKE_FAILPOINT: place })
    await died(t, first)
    const left = await Promise.all(both.map(keysBelow))
    t.equal(left.filter((keys) => keys.length === 0).length, emptied)
    for (const id of both) t.equal((await world.row(id)) === undefined, gone, 'both rows or none')
    if (!gone) {
      const { rowCount } = await admin.query('update media set lease_at = now() where (purging_at is not null) = $1', [
        begun,
      ])
      t.equal(rowCount, 2, 'both can be restored, or neither')
    }

    const second = await startHere(t)
    await patiently('no row', async () => !(await world.row(image)) && !(await world.row(video)))
    await second.close()
    for (const id of both) {
      t.strictSame(await keysBelow(id), [])
      t.equal(await world.count(id, 'MediaPurged'), 1)
      t.equal(await entries(id), 1)
    }
    const { rows } = await admin.query('select media_bytes::int from user_storage where user_id = $1', [world.user])
    t.strictSame(rows, [{ media_bytes: 0 }])
  })
}

t.test('killed while it looks at the prefix of a purged media item again, the next worker looks', async (t) => {
  const id = await world.upload()
  await world.writeOutput(id)
  await admin.query('delete from media where id = $1', [id])
  await admin.query('insert into purged_media (media_id, org_id, next_look_at) values ($1, $2, now())', [id, world.org])
  const first = start(t, { KEEPSAKE_FAILPOINT: 'purge.looked' })
  await died(t, first)
  await admin.query('update purged_media set next_look_at = now() where media_id = $1', [id])
  await startHere(t)
  const looks = async () =>
    (await admin.query('select looks from purged_media where media_id = $1', [id])).rows[0]?.looks
  await patiently('a look that found nothing', async () => (await looks()) === 1)
  t.strictSame(await keysBelow(id), [])
})
