import t from 'tap'
import { findBelonging, findFates, findOriginals } from '../../../../api/features/event-archive/belonging-queries.ts'
import { ADDED_WITHIN } from '../../../../api/features/event-archive/plan.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { archiveWorld } from '../../../support/archived-events.ts'
import { startConversionTest } from '../../../support/conversion-world.ts'

/** What belongs to an archived event, what may become cold with it, and what goes with it, as tables over small worlds. */
const { database, place: storage, world } = await startConversionTest(t)
const { worker: db, admin } = database
const made = archiveWorld({ admin, store: storage.store, ...world })
const { sql, anEvent, anAlbum, aMedia, place, aComment, aHighlight } = made

interface Scene {
  event: Uuid
  album: Uuid
  media: Uuid
  /** Another one, which belongs to the event as well. */
  other: Uuid
}
const TABLE: readonly [what: string, cools: boolean, goes: boolean, and: (s: Scene) => unknown][] = [
  ['in the album of the event alone', true, true, () => {}],
  ['in another album, PUBLIC', false, false, async ({ media }) => place(await anAlbum(null), media)],
  ['in another album, DRAFT', false, false, async ({ media }) => place(await anAlbum(null, 'DRAFT'), media)],
  ['in another album, ARCHIVE', true, false, async ({ media }) => place(await anAlbum(null, 'ARCHIVE'), media)],
  [
    'in the PUBLIC album of another archived event',
    false,
    false,
    async ({ media }) => place(await anAlbum(await anEvent()), media),
  ],
  [
    'in the album of another archived event, ARCHIVE',
    true,
    false,
    async ({ media }) => place(await anAlbum(await anEvent(), 'ARCHIVE'), media),
  ],
  [
    'in the album of an active event, ARCHIVE',
    false,
    false,
    async ({ media }) => place(await anAlbum(await anEvent({ status: 'active' }), 'ARCHIVE'), media),
  ],
  ['in a comment of the same event, too', true, true, ({ event, media }) => aComment(event, [media])],
  ['in a comment of another archived event', true, false, async ({ media }) => aComment(await anEvent(), [media])],
  [
    'in a comment of an active event',
    false,
    false,
    async ({ media }) => aComment(await anEvent({ status: 'active' }), [media]),
  ],
  [
    'in a deleted comment of an active event',
    true,
    true,
    async ({ media }) => aComment(await anEvent({ status: 'active' }), [media], { deleted: true }),
  ],
  ["in a highlight of the event's album, of nothing else", true, true, (s) => aHighlight(s.album, [s.media, s.other])],
  [
    "in a highlight of the event's album, with something of someone's library",
    true,
    false,
    async (s) => aHighlight(s.album, [s.media, await aMedia()]),
  ],
  ['in a highlight of no album', true, false, (s) => aHighlight(null, [s.media])],
  ['in a deleted highlight of no album', true, true, (s) => aHighlight(null, [s.media], { deleted: true })],
  [
    'in a highlight that is being rendered',
    false,
    false,
    (s) => aHighlight(s.album, [s.media], { status: 'processing' }),
  ],
  [
    "in a highlight of the event's album, with something that is purged",
    true,
    true,
    async (s) => {
      const gone = await aMedia()
      await aHighlight(s.album, [s.media, gone])
      await sql('delete from media where id = $1', [gone])
    },
  ],
  [
    'uploaded a month before it was added',
    true,
    false,
    ({ media }) => sql(`update media set created_at = created_at - interval '1 month' where id = $1`, [media]),
  ],
  [
    'uploaded before there was the event',
    true,
    false,
    async ({ event, media }) =>
      sql(
        `update events set created_at = m.created_at + interval '1 minute' from media m where m.id = $2 and events.id = $1`,
        [event, media],
      ),
  ],
  [
    'added by someone else than the uploader',
    true,
    false,
    async ({ media }) => sql('update album_media set added_by = $2 where media_id = $1', [media, await made.aPerson()]),
  ],
  ['in the trash', false, true, ({ media }) => sql('update media set deleted_at = now() where id = $1', [media])],
  [
    'a conversion that goes on',
    false,
    true,
    ({ media }) => sql(`update media set upload_status = 'processing' where id = $1`, [media]),
  ],
]

const outcomeOf = async (event: Uuid, group: readonly Uuid[]) =>
  db.inTransaction({}, async (tx) => {
    const rows = await findOriginals(tx, event, group, { lock: true })
    const [fate] = await findFates(tx, event, [group], { addedWithin: ADDED_WITHIN, token: newUuid() })
    return [rows.every(({ mayCool }) => mayCool), fate?.fate === 'goes']
  })

for (const [what, cools, goes, and] of TABLE) {
  t.test(`a media item: ${what}: ${cools ? 'cools' : 'stays hot'}, ${goes ? 'goes' : 'stays'}`, async (t) => {
    const event = await anEvent()
    const album = await anAlbum(event)
    const [media, other] = [await aMedia(), await aMedia()]
    for (const one of [media, other]) await place(album, one)
    await and({ event, album, media, other })
    t.ok((await db.read({}, (tx) => findBelonging(tx, event))).some(([id]) => id === media))
    t.strictSame(await outcomeOf(event, [media]), [cools, goes])
  })
}

t.test('both halves of a Live Photo belong to the event, whichever is named', async (t) => {
  const event = await anEvent()
  const album = await anAlbum(event)
  const [inAlbum, inComment] = [await made.aLivePhoto(), await made.aLivePhoto()]
  await place(album, inAlbum[0])
  await aComment(event, [inComment[1], inAlbum[1]])
  const belonging = await db.read({}, (tx) => findBelonging(tx, event))
  t.strictSame(new Set(belonging.map(String)), new Set([String(inAlbum), String(inComment)]))
  for (const pair of [inAlbum, inComment]) t.strictSame(await outcomeOf(event, pair), [true, true])
  await place(await anAlbum(null), inComment[0])
  t.strictSame(await outcomeOf(event, inComment), [false, false], 'another album has its image')
})

t.test('what is attached to a deleted comment alone does not belong to the event', async (t) => {
  const event = await anEvent()
  await aComment(event, [await aMedia()], { deleted: true })
  t.strictSame(await db.read({}, (tx) => findBelonging(tx, event)), [])
})

t.test('worlds at random agree with a model that looks at each fact alone', async (t) => {
  await made.clear()
  const pick = <T>(of: readonly T[]): T => of[Math.floor(Math.random() * of.length)] as T
  const events = await Promise.all(
    ['archived', 'archived', 'active'].map(async (status) => ({ id: await anEvent({ status }), status })),
  )
  const albums: { id: Uuid; event: Uuid | null; status: string }[] = []
  for (const event of [...events.map(({ id }) => id), null, null]) {
    const status = pick(['PUBLIC', 'ARCHIVE', 'DRAFT'])
    albums.push({ id: await anAlbum(event, status), event, status })
  }
  const media = await Promise.all(Array.from({ length: 30 }, () => aMedia()))
  const placed = new Map(media.map((id) => [id, new Set<(typeof albums)[number]>()]))
  const attached = new Map(media.map((id) => [id, new Set<Uuid>()]))
  for (let n = 0; n < 60; n++) {
    const [id, album] = [pick(media), pick(albums)]
    if (placed.get(id)?.has(album)) continue
    placed.get(id)?.add(album)
    await place(album.id, id)
  }
  for (let n = 0; n < 15; n++) {
    const [id, event] = [pick(media), pick(events)]
    attached.get(id)?.add(event.id)
    await aComment(event.id, [id])
  }
  const isArchived = (id: Uuid | null) => id === null || events.find((e) => e.id === id)?.status === 'archived'
  for (const { id: event } of events.slice(0, 2)) {
    const [places, comments] = [(id: Uuid) => [...(placed.get(id) ?? [])], (id: Uuid) => [...(attached.get(id) ?? [])]]
    const expected = media.filter((id) => places(id).some((a) => a.event === event) || comments(id).includes(event))
    const belonging = await db.read({}, (tx) => findBelonging(tx, event))
    t.strictSame(belonging.flat(), expected.sort())
    for (const id of expected) {
      const others = places(id).filter((a) => a.event !== event)
      const cools = others.every((a) => a.status === 'ARCHIVE' && isArchived(a.event)) && comments(id).every(isArchived)
      const goes = others.length === 0 && comments(id).every((e) => e === event)
      t.strictSame(await outcomeOf(event, [id]), [cools, goes])
    }
  }
})
