import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { purgeDue } from '../../../../api/features/media/deletion/purge.ts'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { albumWorld } from '../../../support/albums.ts'
import { type Answer, startTestApi, uuidOf } from '../../../support/api.ts'
import { NAMESPACE, testCluster } from '../../../support/conversion-world.ts'
import { anEvent } from '../../../support/events.ts'
import { eventually } from '../../../support/eventually.ts'
import { quietLog } from '../../../support/quiet-log.ts'

/** Several requests on one album at once. */
const api = await startTestApi(t)
const { people, org, call, database, store } = api
const { admin, member, another } = people
const world = albumWorld(api)
const { ALBUMS, anAlbum, aMedia, add, filled, idsOf, reorder, remove, caption, upload, sql, orgId } = world
const cluster = testCluster(t)
const purge = () => purgeDue({ db: database.worker, store, cluster, namespace: NAMESPACE, log: quietLog() })

const waiting = async (): Promise<number> => {
  const [row] = await sql(
    `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return row?.n
}

const TABLES = { alb: 'albums', med: 'media', evt: 'events' } as const
const KINDS = { alb: 'album', med: 'media', evt: 'event' } as const

/** Sends the requests one after another while the row of this id is locked, so that they get it in this order. */
async function inTurn(id: string, ...requests: (() => Promise<Answer>)[]): Promise<Answer[]> {
  const prefix = id.slice(0, 3) as keyof typeof TABLES
  const holder = await database.admin.connect()
  try {
    await holder.query('begin')
    await holder.query(`select from ${TABLES[prefix]} where id = $1 for update`, [uuidOf(KINDS[prefix], id)])
    const answers: Promise<Answer>[] = []
    for (const request of requests) {
      answers.push(request())
      await eventually('it to wait', async () => (await waiting()) === answers.length)
    }
    await holder.query('commit')
    return await Promise.all(answers)
  } finally {
    holder.release()
  }
}
const codes = (answers: Answer[]) => answers.map(({ status, code }) => code ?? status)

t.test('of two orders the later one counts, whole', async (t) => {
  const { album, media } = await filled(4)
  const [a = '', b = '', c = '', d = ''] = media
  const answers = await inTurn(
    album,
    () => reorder(album, [d, c, b, a]),
    () => reorder(album, [b, a, d, c], admin),
  )
  t.strictSame(codes(answers), [200, 200])
  t.strictSame(await idsOf(album), [b, a, d, c])
})

t.test('an order that waits for another change of the list is refused', async (t) => {
  const { album, media } = await filled(3)
  const [a = '', b = '', c = ''] = media
  const extra = await aMedia()
  const added = await inTurn(
    album,
    () => add(album, extra),
    () => reorder(album, [c, b, a]),
  )
  t.strictSame(codes(added), [201, 'REORDER_MISMATCH'])
  const removed = await inTurn(
    album,
    () => remove(album, b),
    () => reorder(album, [extra, c, b, a]),
  )
  t.strictSame(codes(removed), [204, 'REORDER_MISMATCH'])
  t.strictSame(await idsOf(album), [a, c, extra])
})

t.test('what waits for another order is added after it, and removed from it', async (t) => {
  const { album, media } = await filled(3)
  const [a = '', b = '', c = ''] = media
  const extra = await aMedia()
  const answers = await inTurn(
    album,
    () => reorder(album, [c, b, a]),
    () => add(album, extra),
    () => remove(album, b),
  )
  t.strictSame(codes(answers), [200, 201, 204])
  t.strictSame(await idsOf(album), [c, a, extra])
})

t.test('the same media item is added once, and removed once', async (t) => {
  const album = await anAlbum({ owner: member })
  const media = await aMedia()
  const added = await Promise.all([1, 2, 3, 4, 5, 6].map(() => add(album, media)))
  t.strictSame(codes(added).sort(), [201, ...Array(5).fill('CONFLICT')])
  const removed = await Promise.all([1, 2, 3, 4].map(() => remove(album, media)))
  t.strictSame(codes(removed).sort(), [204, ...Array(3).fill('NOT_FOUND')])
  t.strictSame(await world.announced(album), ['media_added', 'media_removed'])
})

t.test('many add at once: each at a place of its own', async (t) => {
  const { album } = await filled(0, { status: 'PUBLIC' })
  const media = await Promise.all(Array.from({ length: 30 }, () => aMedia()))
  const answers = await Promise.all(media.map((id) => add(album, id)))
  t.strictSame(new Set(codes(answers)), new Set([201]))
  t.strictSame((await idsOf(album)).toSorted(), media.toSorted())
  await isSound(t, album)
})

t.test('an event gets one album', async (t) => {
  const { wireId: event_id } = await anEvent(api, { org, orgId, owner: member })
  const create = () => call(member, 'POST', ALBUMS, { json: { title: 'x', event_id } })
  t.strictSame(codes(await Promise.all([create(), create(), create()])).sort(), [201, 'CONFLICT', 'CONFLICT'])
})

t.test('a media item that is deleted meanwhile is not added; one that was added is hidden', async (t) => {
  const album = await anAlbum({ owner: member })
  const [first, second] = [await aMedia(), await aMedia()]
  const late = await inTurn(
    first,
    () => world.deleteMedia(first),
    () => add(album, first),
  )
  t.strictSame(codes(late), [204, 'NOT_FOUND'])
  const early = await inTurn(
    second,
    () => add(album, second),
    () => world.deleteMedia(second),
  )
  t.strictSame(codes(early), [201, 204])
  t.strictSame(await idsOf(album), [])
  for (const id of [first, second]) await world.restoreMedia(id)
  t.strictSame(await idsOf(album), [second])
})

t.test('nothing is added to what has been archived meanwhile', async (t) => {
  const { wireId: eventId } = await anEvent(api, { org, orgId, owner: member })
  const album = await anAlbum({ owner: member, eventId })
  const archive = () => call(member, 'POST', `/api/orgs/${org}/events/${eventId}/archive`)
  const status = (to: string) => () => world.setStatus(album, to)
  const media = await Promise.all([1, 2, 3].map(() => aMedia()))
  const [a = '', b = '', c = ''] = media
  t.strictSame(codes(await inTurn(album, status('ARCHIVE'), () => add(album, a))), [200, 'ALBUM_ARCHIVED'])
  t.strictSame(codes(await inTurn(album, status('DRAFT'), () => add(album, a))), [200, 201])
  t.strictSame(codes(await inTurn(eventId, () => add(album, b), archive)), [201, 200])
  t.strictSame(codes(await inTurn(eventId, archive, () => add(album, c))), [200, 'EVENT_ARCHIVED'])
  t.strictSame(await idsOf(album), [a, b])
})

t.test('a participant adds nothing to an album that is a draft again', async (t) => {
  const { id, wireId: eventId } = await anEvent(api, { org, orgId, owner: member })
  await sql(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
    [id, another.id, orgId],
  )
  const album = await anAlbum({ owner: member, eventId, status: 'PUBLIC' })
  const [a, b] = [await aMedia(), await aMedia()]
  const draft = () => world.setStatus(album, 'DRAFT')
  // In pairs: of two that wait for a row that a third changes, either may be next.
  t.strictSame(codes(await inTurn(album, () => add(album, a, another), draft)), [201, 200])
  await world.setStatus(album, 'PUBLIC')
  t.strictSame(codes(await inTurn(album, draft, () => add(album, b, another))), [200, 'NOT_FOUND'])
})

t.test('a half that is paired while it is added becomes the item of the Live Photo', async (t) => {
  for (const first of ['add', 'pair'] as const) {
    const pair = randomUUID()
    const [album, video] = [await anAlbum({ owner: member }), await upload('video', pair)]
    const sent: { image?: string } = {}
    const arrive = async () => {
      sent.image = await upload('image', pair)
      return { status: 201 } as Answer
    }
    const steps = [() => add(album, video), arrive]
    const answers = await inTurn(video, ...(first === 'add' ? steps : steps.toReversed()))
    t.strictSame(codes(answers), [201, 201], first)
    t.strictSame(await idsOf(album), [sent.image], first)
    t.strictSame(
      await sql('select count(*)::int as n from album_media where album_id = $1', [uuidOf('album', album)]),
      [{ n: 1 }],
    )
  }
})

t.test('a restore that pairs locks rows of albums in the order in which others do', async (t) => {
  const [pair, album] = [randomUUID(), await anAlbum({ owner: member })]
  const albumId = uuidOf('album', album)
  const image = await upload('image', pair)
  await add(album, image)
  await world.deleteMedia(image)
  // An upload in chunks has its id from its start, so that the later half can have the lower id.
  const lowest = newUuid(0)
  await sql(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, live_photo_pair_id)
      values ($1, $2, $3, 'a', 'video/mp4', 'video', 1, $4)`,
    [lowest, orgId, member.id, pair],
  )
  await add(album, formatId('media', lowest))
  const holder = await database.admin.connect()
  try {
    const lock = (media: string) =>
      holder.query('select from album_media where album_id = $1 and media_id = $2 for update', [albumId, media])
    await holder.query('begin')
    await lock(lowest)
    const restored = world.restoreMedia(image)
    await eventually('the restore to wait', async () => (await waiting()) === 1)
    t.equal((await lock(uuidOf('media', image))).rowCount, 1, 'it holds none that comes later')
    await holder.query('commit')
    t.match(await restored, { status: 200 })
  } finally {
    holder.release()
  }
  t.strictSame(await idsOf(album), [image])
})

/** A busy machine may let a request wait too long for a lock, which is 503 and changes nothing. A deadlock is a bug. */
function noneFailed(t: Test, answers: readonly Answer[]) {
  const failed = answers.filter(({ status }) => status >= 500 && status !== 503)
  t.strictSame(
    failed.map(({ body }) => body),
    [],
  )
  t.notMatch(JSON.stringify(api.logged), /40P01|deadlock/)
}

/** Positions are unique, and the list, the count and the detail say the same. */
async function isSound(t: Test, album: string) {
  const rows = await sql(
    `select i.media_id, i.position, i.listed, m.deleted_at, m.kind, m.paired_media_id, a.next_position
      from album_media i join media m on m.id = i.media_id join albums a on a.id = i.album_id where a.id = $1
      order by i.position`,
    [uuidOf('album', album)],
  )
  t.equal(new Set(rows.map(({ position }) => position)).size, rows.length, 'no place twice')
  for (const row of rows) {
    t.equal(row.listed, row.deleted_at === null, 'hidden only while deleted')
    t.notOk(row.kind === 'video' && row.paired_media_id, 'a Live Photo is its image')
    t.ok(Number(row.position) < Number(row.next_position), 'the end is behind all')
  }
  const listed = rows.filter((row) => row.listed)
  const { media, total } = await world.list(album)
  t.strictSame(
    media.map(({ media_id }: { media_id: string }) => uuidOf('media', media_id)),
    listed.map((row) => row.media_id),
  )
  t.strictSame([total, (await world.show(album)).media_count], [listed.length, listed.length])
}

t.test('everything at once, on two albums with the same media items: none is lost, none is there twice', async (t) => {
  const shared = await Promise.all(Array.from({ length: 12 }, () => aMedia()))
  const pairs = await Promise.all(
    Array.from({ length: 3 }, async () => {
      const pair = randomUUID()
      return { pair, video: await upload('video', pair) }
    }),
  )
  const doomed = await Promise.all(Array.from({ length: 3 }, () => aMedia()))
  const extras = await Promise.all(Array.from({ length: 12 }, () => aMedia()))
  const albums = [await anAlbum({ owner: member }), await anAlbum({ owner: member })]
  const [first = '', second = ''] = albums
  const all = [...shared, ...pairs.map(({ video }) => video), ...doomed]
  for (const id of all) await add(first, id)
  for (const id of all.toReversed()) await add(second, id)
  for (const id of doomed) await world.deleteMedia(id)
  await sql(`update media set deleted_at = deleted_at - interval '31 days' where deleted_at is not null`)

  const balance = new Map<string, number>()
  const counted = async (album: string, media: string, step: number, request: Promise<Answer>) => {
    const answer = await request
    if (answer.status < 300) balance.set(album + media, (balance.get(album + media) ?? 0) + step)
    return answer
  }
  const shuffled = async (album: string, turn: number) => {
    const ids = await idsOf(album)
    return reorder(album, turn % 2 ? ids.toReversed() : [...ids.slice(turn), ...ids.slice(0, turn)])
  }
  const one = (of: string[], turn: number) => of[turn % of.length] as string
  const storm = Array.from({ length: 12 }, (_, turn) =>
    albums.flatMap((album) => [
      () => shuffled(album, turn),
      () => counted(album, one(extras, turn), 1, add(album, one(extras, turn))),
      () => counted(album, one(extras, turn + 3), -1, remove(album, one(extras, turn + 3))),
      () => caption(album, one(shared, turn), `Turn ${turn}`),
      () => world.change(album, { cover_media_id: one(shared, turn) }),
      () => counted(album, one(shared, turn), -1, remove(album, one(shared, turn))),
      () => world.deleteMedia(one(shared, turn + 5)),
      () => world.restoreMedia(one(shared, turn + 5)),
    ]),
  ).flat()
  const arrivals = pairs.map(
    ({ pair }) =>
      () =>
        upload('image', pair).then(() => ({ status: 201 }) as Answer),
  )
  const purges = [1, 2].map(() => () => purge().then(() => ({ status: 200 }) as Answer))
  const answers = await Promise.all([...storm, ...arrivals, ...purges].map((request) => request()))
  noneFailed(t, answers)

  for (const id of shared) await world.restoreMedia(id)
  await purge()
  for (const album of albums) {
    const ids = await idsOf(album)
    await isSound(t, album)
    for (const id of shared) t.equal(ids.includes(id), 1 + (balance.get(album + id) ?? 0) === 1, 'shared')
    for (const id of extras) t.equal(ids.includes(id), balance.get(album + id) === 1, 'extra')
    for (const id of doomed) t.notOk(ids.includes(id), 'purged')
    t.equal(ids.filter((id) => ![...shared, ...extras].includes(id)).length, pairs.length, 'Live Photos')
  }
})

const SIZE = 500

t.test(`orders of ${SIZE} while their media items are deleted, restored and purged: no deadlock`, async (t) => {
  const albums = await Promise.all([1, 2, 3].map(() => anAlbum({ owner: member })))
  await sql(
    `with made as (
      insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
        select gen_random_uuid(), $2, $3, 'a', 'image/jpeg', 'image', 1 from generate_series(1, $4) returning id
    ), numbered as (select id, row_number() over () as n from made)
    insert into album_media (album_id, media_id, org_id, position, listed, added_by)
      select album, numbered.id, $2, numbered.n, true, $3 from numbered, unnest($1::uuid[]) album`,
    [albums.map((id) => uuidOf('album', id)), orgId, member.id, SIZE],
  )
  await sql('update albums set next_position = $2 where id = any($1)', [
    albums.map((id) => uuidOf('album', id)),
    SIZE + 1,
  ])
  const ids = await idsOf(albums[0] as string)
  const answers = await Promise.all(
    albums.flatMap((album, i) =>
      Array.from({ length: 4 }, async (_, turn) => {
        const now = await idsOf(album)
        const order = await reorder(
          album,
          turn % 2 ? now.toReversed() : [...now.slice(turn + 1), ...now.slice(0, turn + 1)],
        )
        const media = ids[(i * 131 + turn * 17) % SIZE] as string
        const deleted = await world.deleteMedia(media)
        const back = turn % 2 ? await world.restoreMedia(media) : deleted
        return [order, deleted, back]
      }),
    ),
  )
  noneFailed(t, answers.flat())
  await sql(`update media set deleted_at = deleted_at - interval '31 days' where deleted_at is not null`)
  await Promise.all([purge(), ...albums.map(async (album) => reorder(album, (await idsOf(album)).toReversed()))])
  for (const album of albums) await isSound(t, album)
})
