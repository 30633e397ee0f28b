import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { recordMedia } from '../../../../api/features/media/commands.ts'
import { lockPairing } from '../../../../api/features/media/pairing-queries.ts'
import { changesOf } from '../../../../api/requests/change.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { fakeMp4, formOf, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { eventually } from '../../../support/eventually.ts'

/** Halves of Live Photos that come out of the trash. */
const api = await startTestApi(t)
const { people, org, call, database } = api
const { member, admin } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)

type Kind = 'image' | 'video'
interface Keys {
  pair?: string
  asset?: string
}
const fakeJpeg = () => Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), Buffer.from(randomUUID())])
const send = (kind: Kind, { pair, asset }: Keys, who: Person = member) => {
  const fields = { ...(pair && { live_photo_pair_id: pair }), ...(asset && { asset_identifier: asset }) }
  const form = formOf(kind === 'image' ? fakeJpeg() : fakeMp4(64), 'a', fields)
  return call(who, 'POST', `/api/media/${org}/single`, { form })
}
async function upload(kind: Kind, keys: Keys): Promise<string> {
  const { status, data } = await send(kind, keys)
  if (status !== 201) throw new Error(`upload: ${status}`)
  return data.media_id
}
const del = (id: string, who = member) => call(who, 'DELETE', `/api/media/${org}/${id}`)
const restore = (id: string, who = member) => call(who, 'POST', `/api/media/${org}/${id}/restore`)
const rowOf = async (id: string) => (await sql('select * from media where id = $1', [uuidOf('media', id)]))[0]
const announced = (...ids: string[]) =>
  sql(`select payload, aggregate_version from outbox where type = 'LivePhotoPaired' and aggregate_id = any($1)`, [
    ids.map((id) => uuidOf('media', id)),
  ])

/** One visible Live Photo, announced once. */
async function isLivePhoto(t: Test, a: string, b: string) {
  const rows = [await rowOf(a), await rowOf(b)]
  t.strictSame(
    rows.map((row) => [row.paired_media_id, row.deleted_at, row.listed]),
    rows.map((row, i) => [rows[1 - i].id, null, row.kind === 'image']),
  )
  const image = rows.find((row) => row.kind === 'image')
  const [event, ...more] = await announced(a, b)
  t.match(event, { payload: { media_id: formatId('media', image.id) } })
  t.strictSame(more, [])
}
async function isAlone(t: Test, id: string, pairId: string | null) {
  t.match(await rowOf(id), { paired_media_id: null, deleted_at: null, listed: true, live_photo_pair_id: pairId })
}

const other = (kind: Kind): Kind => (kind === 'image' ? 'video' : 'image')
const KINDS: Kind[] = ['image', 'video']
const KEYS: [name: string, of: () => Keys][] = [
  ['pair id', () => ({ pair: randomUUID() })],
  ['asset identifier', () => ({ asset: randomUUID() })],
  ['both', () => ({ pair: randomUUID(), asset: randomUUID() })],
]

for (const kind of KINDS) {
  for (const [name, keysOf] of KEYS) {
    t.test(`a restored ${kind} is paired with what arrived meanwhile, known by ${name}`, async (t) => {
      const keys = keysOf()
      const half = await upload(kind, keys)
      await del(half)
      const counterpart = await upload(other(kind), keys)
      t.equal((await rowOf(counterpart)).paired_media_id, null)
      t.match(await restore(half), { status: 200, data: { media_id: half } })
      await isLivePhoto(t, half, counterpart)
      const image = await rowOf(kind === 'image' ? half : counterpart)
      t.match(await announced(half, counterpart), [{ aggregate_version: image.version }])

      await del(counterpart, admin)
      for (const id of [half, counterpart]) t.not((await rowOf(id)).deleted_at, null)
      await restore(half, admin)
      await isLivePhoto(t, half, counterpart)
    })
  }

  t.test(`a restored ${kind} whose place was taken comes back alone`, async (t) => {
    const keys = { pair: randomUUID(), asset: randomUUID() }
    const old = await upload(kind, keys)
    await del(old)
    const fresh = await upload(kind, keys)
    t.equal((await restore(old)).status, 200)
    await isAlone(t, old, null)
    await isAlone(t, fresh, keys.pair)
    const counterpart = await upload(other(kind), keys)
    await isLivePhoto(t, fresh, counterpart)
    await isAlone(t, old, null)
  })

  t.test(`a restored ${kind} whose place is in another Live Photo now comes back alone`, async (t) => {
    const keys = { pair: randomUUID(), asset: randomUUID() }
    const old = await upload(kind, keys)
    await del(old)
    const [fresh, counterpart] = [await upload(kind, keys), await upload(other(kind), keys)]
    t.equal((await restore(old)).status, 200)
    await isAlone(t, old, null)
    await isLivePhoto(t, fresh, counterpart)
  })

  t.test(`what gives up its pair id does not take a half of another Live Photo: ${kind}`, async (t) => {
    const keys = { pair: randomUUID(), asset: randomUUID() }
    const old = await upload(kind, keys)
    await del(old)
    await upload(kind, keys)
    const theirs = { pair: randomUUID(), asset: keys.asset }
    const foreign = await upload(other(kind), theirs)
    t.equal((await restore(old)).status, 200)
    await isAlone(t, old, null)
    await isAlone(t, foreign, theirs.pair)
  })

  t.test(`a restored Live Photo stays one beside a new ${kind} with its pair id`, async (t) => {
    const keys = { pair: randomUUID() }
    const old = [await upload('image', keys), await upload('video', keys)] as const
    await del(old[0])
    const fresh = await upload(kind, keys)
    t.equal((await restore(old[1])).status, 200)
    await isLivePhoto(t, ...old)
    for (const id of old) t.equal((await rowOf(id)).live_photo_pair_id, null, 'neither half is in the way of a new one')
    await isLivePhoto(t, fresh, await upload(other(kind), keys))
    t.equal((await send(kind, keys)).status, 409)
  })
}

t.test('halves of two people do not pair by a restore', async (t) => {
  const keys = { pair: randomUUID(), asset: randomUUID() }
  const mine = await upload('image', keys)
  await del(mine, admin)
  const theirs = (await send('video', keys, people.another)).data.media_id
  t.equal((await restore(mine, admin)).status, 200)
  await isAlone(t, mine, keys.pair)
  await isAlone(t, theirs, keys.pair)
})

t.test('nothing is paired with a half that stays in the trash', async (t) => {
  const keys = { pair: randomUUID() }
  const image = await upload('image', keys)
  await del(image)
  const video = await upload('video', keys)
  await del(video)
  await restore(image)
  await isAlone(t, image, keys.pair)
  await restore(video)
  await isLivePhoto(t, image, video)
})

/** That no half of a Live Photo is deleted alone, and that halves which can be seen have found each other. */
async function isWhole(t: Test, keys: Keys) {
  const rows = await sql('select * from media where live_photo_pair_id = $1 or asset_identifier = $2', [
    keys.pair ?? null,
    keys.asset ?? null,
  ])
  for (const row of rows.filter((row) => row.paired_media_id !== null)) {
    const counterpart = rows.find(({ id }) => id === row.paired_media_id)
    t.equal(counterpart?.paired_media_id, row.id)
    t.strictSame(counterpart?.deleted_at, row.deleted_at, 'both or neither is deleted')
  }
  const alone = new Set(rows.filter((r) => r.paired_media_id === null && r.deleted_at === null).map(({ kind }) => kind))
  t.ok(alone.size < 2, 'an image and a video do not miss each other')
  const pairs = rows.filter((row) => row.paired_media_id !== null).length / 2
  t.equal((await announced(...rows.map(({ id }) => formatId('media', id)))).length, pairs)
}

t.test('two halves that are restored at the same instant find each other', async (t) => {
  for (let round = 0; round < 10; round++) {
    const keys = KEYS[round % 3]?.[1]() as Keys
    const image = await upload('image', keys)
    await del(image)
    const video = await upload('video', keys)
    await del(video)
    const answers = await Promise.all([restore(image), restore(video), restore(image, admin), restore(video, admin)])
    t.strictSame(
      answers.map(({ status }) => status),
      [200, 200, 200, 200],
    )
    await isLivePhoto(t, image, video)
  }
})

t.test('restore, upload of the counterpart and deletion at the same instant', async (t) => {
  for (let round = 0; round < 20; round++) {
    const keys = KEYS[round % 3]?.[1]() as Keys
    const kind = KINDS[round % 2] as Kind
    const half = await upload(kind, keys)
    await del(half)
    const [restored, sent, deleted] = await Promise.all([restore(half), send(other(kind), keys), del(half)])
    t.strictSame([restored.status, sent.status, deleted.status], [200, 201, 204])
    await isWhole(t, keys)
    const again = await Promise.all([del(sent.data.media_id), restore(half), restore(sent.data.media_id), del(half)])
    for (const { status } of again) t.ok(status === 200 || status === 204, String(status))
    await isWhole(t, keys)
    await Promise.all([restore(half), restore(sent.data.media_id)])
    await isLivePhoto(t, half, sent.data.media_id)
  }
})

t.test('a restore and uploads that want its place at the same instant', async (t) => {
  for (let round = 0; round < 10; round++) {
    const keys = { pair: randomUUID(), asset: randomUUID() }
    const old = [await upload('image', keys), await upload('video', keys)] as const
    await del(old[0])
    const [restored, ...sent] = await Promise.all([restore(old[1]), send('image', keys), send('video', keys)])
    t.equal(restored.status, 200)
    for (const { status } of sent) t.ok(status === 201 || status === 409, String(status))
    await isWhole(t, keys)
  }
})

t.test('a restore that waits for an upload with the same key holds nothing that the upload needs', async (t) => {
  const keys = { pair: randomUUID() }
  const half = await upload('image', keys)
  await del(half)
  const file = { originalFilename: 'v', mimeType: 'video/mp4', kind: 'video' as const, fileSizeBytes: 1, sha256: null }
  const ours = { livePhotoPairId: keys.pair as Uuid, assetIdentifier: null }
  const row = { id: newUuid(), orgId, uploaderId: member.id, ...file, ...ours }
  const waiting = () =>
    sql(`select from pg_locks where locktype = 'advisory' and not granted and database =
      (select oid from pg_database where datname = current_database())`)
  let restoring: ReturnType<typeof restore> | undefined
  await database.db.inTransaction({ org: orgId }, async (tx) => {
    await lockPairing(tx, row)
    restoring = restore(half)
    await eventually('the restore to wait', async () => (await waiting()).length === 1)
    await tx.execute(`select from media where id = '${uuidOf('media', half)}' for update nowait`)
    await recordMedia(changesOf(tx, { orgId, actorId: member.id, context: null }), row)
  })
  t.equal((await restoring)?.status, 200)
  await isLivePhoto(t, half, formatId('media', row.id))
})
