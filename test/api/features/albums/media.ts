import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { purgeDue } from '../../../../api/features/media/deletion/purge.ts'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { albumWorld } from '../../../support/albums.ts'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { NAMESPACE, testCluster } from '../../../support/conversion-world.ts'
import { quietLog } from '../../../support/quiet-log.ts'

/** The media items of albums: their order, captions, Live Photos, and what deletion does to them. */
const api = await startTestApi(t)
const { people, org, otherOrg, call } = api
const { owner, admin, member, another, stranger } = people
const world = albumWorld(api)
const { anAlbum, aMedia, add, filled, list, idsOf, show, reorder, remove, caption, upload, sql } = world

t.test('a media item is added at the end, with who added it', async (t) => {
  const album = await anAlbum({ owner: member })
  const [a, b] = [await aMedia({ by: another }), await aMedia({ status: 'processing', kind: 'video' })]
  t.match(await add(album, a, member, ' Us '), {
    status: 201,
    data: { media_id: a, caption: 'Us', uploader_id: another.wireId, added_by: member.wireId, added_at: /Z$/ },
  })
  t.match(await add(album, b, admin), {
    status: 201,
    data: { media_id: b, caption: null, upload_status: 'processing' },
  })
  t.match(await add(album, await aMedia({ status: 'failed' })), { status: 201 })
  const { media, total, next_cursor, has_more } = await list(album)
  t.strictSame([media.length, total, next_cursor, has_more], [3, 3, null, false])
  t.match(media, [
    { media_id: a, caption: 'Us', mime_type: 'image/jpeg', variants: { image_url: null } },
    { media_id: b, added_by: admin.wireId },
  ])
  t.match(await show(album), { media_count: 3, cover_media_id: a })
  t.strictSame(await world.announced(album), ['media_added', 'media_added', 'media_added'])
  t.match(await world.audited(album), [{ action: 'ALBUM_ACTION', operation: 'add_media', media_id: a }])
  t.match((await sql('select payload from outbox where aggregate_id = $1', [uuidOf('album', album)]))[0].payload, {
    album_id: album,
    actor_id: member.wireId,
    change: 'media_added',
    media_id: a,
  })
})

t.test('what cannot be added', async (t) => {
  const { album, media } = await filled(1)
  const [a = ''] = media
  t.match(await add(album, a), {
    status: 409,
    code: 'CONFLICT',
    body: { error: { details: [{ field: 'body.media_id' }] } },
  })
  const deleted = await aMedia()
  await world.deleteMedia(deleted)
  const foreign = await aMedia({ orgId: uuidOf('organization', otherOrg), by: stranger })
  for (const id of [deleted, foreign, formatId('media', newUuid())]) {
    const answer = await add(album, id)
    t.match(answer, { status: 404, code: 'NOT_FOUND', body: { error: { details: [{ field: 'body.media_id' }] } } })
  }
  t.match(await add(album, a, member, 'x'.repeat(1001)), { status: 400 })
  t.match(await add(album, 'nonsense'), { status: 400 })
  t.match(await add(album, await aMedia(), another), { status: 404 })
  t.match(await add(formatId('album', newUuid()), a), { status: 404 })
  t.strictSame(await idsOf(album), [a])
  t.equal((await world.announced(album)).length, 1)
})

t.test('a removed media item is in no list of the album, and can be added again, at the end', async (t) => {
  const { album, media } = await filled(3)
  const [a = '', b = '', c = ''] = media
  t.equal((await remove(album, a)).status, 204)
  t.match(await remove(album, a), { status: 404 })
  t.strictSame(await idsOf(album), [b, c])
  t.match(await show(album), { media_count: 2, cover_media_id: b })
  t.match(await call(member, 'GET', `/api/media/${org}/${a}`), { status: 200 }, 'the media item itself stays')
  await add(album, a)
  t.strictSame(await idsOf(album), [b, c, a])
  t.match(await remove(album, await aMedia()), { status: 404 })
  t.match(await remove(album, b, another), { status: 404 })
  t.strictSame((await world.announced(album)).slice(3), ['media_removed', 'media_added'])
})

t.test('a caption can be changed and removed', async (t) => {
  const { album, media } = await filled(1)
  const [a = ''] = media
  t.match(await caption(album, a, '  Ça va  '), { status: 200, data: { media_id: a, caption: 'Ça va' } })
  t.match(await list(album), { media: [{ caption: 'Ça va' }] })
  t.match(await caption(album, a, null), { status: 200, data: { caption: null } })
  t.match(await caption(album, a, 'x'.repeat(1001)), { status: 400 })
  t.match(await caption(album, await aMedia(), 'x'), { status: 404 })
  t.match(await caption(album, a, 'x', another), { status: 404 })
  const { status } = await call(member, 'PATCH', `${world.ALBUMS}/${album}/media/${a}`, { json: { other: 1 } })
  t.equal(status, 400)
})

t.test('another order is taken whole, or not at all', async (t) => {
  const { album, media } = await filled(4)
  const [a = '', b = '', c = '', d = ''] = media
  t.match(await reorder(album, [d, a, c, b]), { status: 200, data: { media_ids: [d, a, c, b] } })
  t.strictSame(await idsOf(album), [d, a, c, b])
  t.equal((await world.announced(album)).at(-1), 'media_reordered')
  const { length } = await world.announced(album)
  t.match(
    await reorder(
      album,
      [d, a, c, b].map((id) => uuidOf('media', id)),
    ),
    { status: 200 },
    'bare UUIDs, the same',
  )
  t.equal((await world.announced(album)).length, length, 'the same order changes nothing')
  const other = await aMedia()
  for (const wrong of [[], [a], [a, b, c], [a, b, c, c], [a, b, c, other], [a, b, c, d, other], [a, b, c, d, d]]) {
    t.match(await reorder(album, wrong), { status: 422, code: 'REORDER_MISMATCH' }, String(wrong.length))
  }
  for (const json of [{}, { media_ids: a }, { media_ids: [1] }, { media_ids: ['x'] }]) {
    const { status } = await call(member, 'POST', `${world.ALBUMS}/${album}/media/reorder`, { json })
    t.equal(status, 400)
  }
  t.match(await reorder(album, [a, b, c, d], another), { status: 404 })
  t.strictSame(await idsOf(album), [d, a, c, b])
  await add(album, other)
  t.strictSame(await idsOf(album), [d, a, c, b, other], 'the end is still the end')
  t.match(await reorder(await anAlbum({ owner: member }), []), { status: 200, data: { media_ids: [] } })
})

t.test('pages go on at their place, whatever changes before it', async (t) => {
  const { album, media } = await filled(9)
  const pageAt = (cursor: string) => list(album, owner, `?limit=3&cursor=${cursor}`)
  const ids = (page: { media: { media_id: string }[] }) => page.media.map(({ media_id }) => media_id)
  const first = await list(album, owner, '?limit=3')
  t.strictSame([ids(first), first.total, first.has_more], [media.slice(0, 3), 9, true])
  await remove(album, media[2] as string)
  t.strictSame(ids(await pageAt(first.next_cursor)), media.slice(3, 6), 'the last one that was seen is gone')
  const now = await idsOf(album)
  await reorder(album, [...now.slice(0, 2).toReversed(), ...now.slice(2)])
  t.strictSame(ids(await pageAt(first.next_cursor)), media.slice(3, 6), 'what was seen has another order')
  await reorder(album, [now.at(-1) as string, ...now.slice(0, -1)])
  t.strictSame(ids(await pageAt(first.next_cursor)), media.slice(3, 6), 'one that was to come moved to the start')
  const moved = media[3] as string
  await reorder(album, [...(await idsOf(album)).filter((id) => id !== moved), moved])
  t.strictSame(ids(await pageAt(first.next_cursor)), media.slice(4, 7), 'the next one moved to the end')
})

t.test('a deleted media item has its place again when it is restored', async (t) => {
  const { album, media } = await filled(4)
  const [a = '', b = '', c = '', d = ''] = media
  const other = await anAlbum({ owner: member })
  await add(other, b)
  await caption(album, b, 'Kept')
  await world.deleteMedia(b)
  t.strictSame(await idsOf(album), [a, c, d])
  t.strictSame(await idsOf(other), [])
  t.match(await show(album), { media_count: 3 })
  t.match(await show(other), { media_count: 0, cover_media_id: null })
  for (const answer of [await caption(album, b, 'x'), await remove(album, b)]) t.match(answer, { status: 404 })
  t.match(await add(album, b), { status: 404 })
  t.match(await reorder(album, [a, b, c, d]), { code: 'REORDER_MISMATCH' })
  await world.restoreMedia(b)
  t.strictSame(await idsOf(album), [a, b, c, d])
  t.strictSame(await idsOf(other), [b])
  t.equal((await list(album)).media[1].caption, 'Kept')

  await world.deleteMedia(b)
  t.match(await reorder(album, [d, c, a]), { status: 200 })
  await world.restoreMedia(b)
  t.strictSame(await idsOf(album), [d, c, a, b], 'behind the one that it followed')
})

t.test('what is purged is in no album', async (t) => {
  const { album, media } = await filled(3)
  const [a = '', b = '', c = ''] = media
  const [other, image] = [await anAlbum({ owner: member }), await upload('image')]
  await add(other, b)
  await add(other, image)
  await world.change(album, { cover_media_id: b })
  for (const id of [b, image]) await world.deleteMedia(id)
  await sql(`update media set deleted_at = deleted_at - interval '31 days' where deleted_at is not null`)
  const { store, database } = api
  const deps = { db: database.worker, store, cluster: testCluster(t), namespace: NAMESPACE, log: quietLog() }
  t.ok((await purgeDue(deps)) >= 2)
  t.strictSame(await idsOf(album), [a, c])
  const left = await sql('select count(*)::int as n from album_media where album_id = any($1)', [
    [uuidOf('album', album), uuidOf('album', other)],
  ])
  t.strictSame(left, [{ n: 2 }])
  t.match(await reorder(album, [c, a]), { status: 200 })
  t.match(await show(album), { media_count: 2, cover_media_id: c })
})

const videoOf = (item: { variants: object }) => item.variants
/** One item, the image, whichever half is named. */
async function isOneItem(t: Test, album: string, image: string, video: string) {
  t.strictSame(await idsOf(album), [image])
  t.match(await show(album), { media_count: 1, cover_media_id: image })
  t.match(await add(album, video), { status: 409 })
  t.match(await add(album, image), { status: 409 })
  t.match(await caption(album, video, 'Both'), { status: 200, data: { media_id: image, caption: 'Both' } })
  t.match(await world.change(album, { cover_media_id: video }), { status: 200, data: { cover_media_id: image } })
  await world.deleteMedia(video)
  t.strictSame(await idsOf(album), [])
  await world.restoreMedia(image)
  t.strictSame(await idsOf(album), [image])
  t.ok(videoOf((await list(album)).media[0]))
  t.match(await remove(album, video), { status: 204 })
  t.strictSame(await idsOf(album), [])
}

for (const half of ['image', 'video'] as const) {
  t.test(`a Live Photo is one item, added as its ${half}`, async (t) => {
    const pair = randomUUID()
    const halves = { image: await upload('image', pair), video: await upload('video', pair) }
    const album = await anAlbum({ owner: member })
    t.match(await add(album, halves[half]), { status: 201, data: { media_id: halves.image } })
    await isOneItem(t, album, halves.image, halves.video)
  })

  t.test(`a Live Photo is one item, when its other half comes after its ${half} was added`, async (t) => {
    const pair = randomUUID()
    const { album, media } = await filled(1)
    const added = await upload(half, pair)
    await add(album, added, member, 'Us')
    await world.change(album, { cover_media_id: added })
    const last = await aMedia()
    await add(album, last)
    const other = await upload(half === 'image' ? 'video' : 'image', pair)
    const [image, video] = half === 'image' ? [added, other] : [other, added]
    t.strictSame(await idsOf(album), [media[0], image, last], 'at the place of what was added')
    t.match(await list(album), { media: [{}, { caption: 'Us' }, {}], total: 3 })
    t.match(await show(album), { media_count: 3, cover_media_id: image })
    for (const id of [media[0] as string, last]) await remove(album, id)
    await isOneItem(t, album, image, video)
  })

  t.test(`halves that were both in the album become one item, the ${half} first`, async (t) => {
    // A half that was deleted finds its counterpart when it is restored.
    const pair = randomUUID()
    const album = await anAlbum({ owner: member })
    const image = await upload('image', pair)
    if (half === 'image') await add(album, image, member, undefined)
    await world.deleteMedia(image)
    const video = await upload('video', pair)
    await add(album, video, member, 'Moving')
    await world.change(album, { cover_media_id: video })
    const between = await aMedia()
    await add(album, between)
    if (half === 'video') {
      const held = await sql(`select coalesce(max(position), 0) + 1 as n from album_media where album_id = $1`, [
        uuidOf('album', album),
      ])
      await sql(
        `insert into album_media (album_id, media_id, org_id, position, listed, added_by) values ($1, $2, $3, $4, false, $5)`,
        [uuidOf('album', album), uuidOf('media', image), world.orgId, held[0].n, member.id],
      )
    }
    await world.restoreMedia(image)
    t.strictSame(
      await idsOf(album),
      half === 'image' ? [image, between] : [between, image],
      'the image keeps its place',
    )
    t.match(
      (await list(album)).media.find((one: { media_id: string }) => one.media_id === image),
      {
        caption: 'Moving',
      },
    )
    t.match(await show(album), { media_count: 2, cover_media_id: image })
    await remove(album, between)
    await isOneItem(t, album, image, video)
  })
}

t.test('an album has at most 5,000 media items, the deleted ones included', async (t) => {
  const { album, media } = await filled(1)
  await sql(
    `with made as (
      insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
        select gen_random_uuid(), $2, $3, 'a', 'image/jpeg', 'image', 1 from generate_series(1, 4998) returning id
    )
    insert into album_media (album_id, media_id, org_id, position, listed, added_by)
      select $1, id, $2, row_number() over (), true, $3 from made`,
    [uuidOf('album', album), world.orgId, member.id],
  )
  await sql('update albums set next_position = 5000 where id = $1', [uuidOf('album', album)])
  const last = await aMedia()
  t.match(await add(album, last), { status: 201 })
  t.match(await show(album), { media_count: 5000 })
  t.match(await add(album, await aMedia()), { status: 422, code: 'QUOTA_EXCEEDED' })
  t.match(await add(album, last), { status: 409 }, 'a repeat says what it is')
  await world.deleteMedia(last)
  t.match(await add(album, await aMedia()), { status: 422, code: 'QUOTA_EXCEEDED' })

  const pages: string[] = []
  for (let cursor = ''; ; ) {
    const { media, total, next_cursor } = await list(album, owner, cursor && `?cursor=${cursor}`)
    t.equal(total, 4999)
    pages.push(...media.map(({ media_id }: { media_id: string }) => media_id))
    if (next_cursor === null) break
    cursor = next_cursor
  }
  t.strictSame([pages.length, new Set(pages).size, pages[0]], [4999, 4999, media[0]])
  const reversed = pages.toReversed()
  t.match(await reorder(album, reversed), { status: 200 })
  t.match(await list(album, owner, '?limit=3'), { media: reversed.slice(0, 3).map((media_id) => ({ media_id })) })
  await remove(album, reversed[1] as string)
  t.match(await add(album, await aMedia()), { status: 201 }, 'a place is free')
})
