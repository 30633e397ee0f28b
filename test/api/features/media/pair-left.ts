import t from 'tap'
import { pairLeftHalves } from '../../../../api/features/media/pair-left.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { conversionWorld, testCluster, testStore } from '../../../support/conversion-world.ts'
import { testDatabase } from '../../../support/database.ts'

const database = await testDatabase(t)
const { worker: db, admin } = database
const world = await conversionWorld(database, await testStore(t), testCluster(t))

interface Keys {
  pair?: Uuid
  asset?: string
  by?: Uuid
}

/** As an API of an earlier version did. */
async function stored(kind: 'image' | 'video', { pair, asset, by = world.user }: Keys): Promise<Uuid> {
  const id = newUuid()
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes,
       live_photo_pair_id, asset_identifier) values ($1, $2, $3, 'f', $4, $5, 1, $6, $7)`,
    [id, world.org, by, `${kind}/x`, kind, pair, asset],
  )
  return id
}
const counterpartOf = async (id: Uuid) => (await world.row(id))['paired_media_id']

t.test('halves that an earlier version stored are paired, once, by however many workers', async (t) => {
  const pairs: [Uuid, Uuid][] = []
  for (let i = 0; i < 220; i++) {
    const keys = i % 2 === 0 ? { pair: newUuid() } : { asset: `asset ${i}` }
    pairs.push([await stored('image', keys), await stored('video', keys)])
  }
  const made = await Promise.all([pairLeftHalves(db), pairLeftHalves(db), pairLeftHalves(db)])
  t.equal(
    made.reduce((sum, n) => sum + n, 0),
    pairs.length,
  )
  for (const [image, video] of pairs) {
    t.strictSame([await counterpartOf(image), await counterpartOf(video)], [video, image])
    t.equal(await world.count(image, 'LivePhotoPaired'), 1)
  }
  t.equal(await pairLeftHalves(db), 0)
})

t.test('what is no Live Photo stays as it is', async (t) => {
  const other = newUuid()
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [other, 'test', other])
  const [pair, asset] = [newUuid(), 'asset of several']
  const ids = [
    await stored('image', { pair }),
    await stored('video', { pair, by: other }),
    await stored('image', { asset, pair: newUuid() }),
    await stored('video', { asset, pair: newUuid() }),
    await stored('video', {}),
    await stored('image', {}),
  ]
  const deleted = await stored('image', { asset: 'asset of a deleted one' })
  await admin.query('update media set deleted_at = now() where id = $1', [deleted])
  ids.push(deleted, await stored('video', { asset: 'asset of a deleted one' }))
  t.equal(await pairLeftHalves(db), 0)
  for (const id of ids) t.equal(await counterpartOf(id), null)
})
