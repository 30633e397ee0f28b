import t from 'tap'
import { type Answer, startTestApi, uuidOf } from '../../../support/api.ts'
import { anEvent } from '../../../support/events.ts'
import { highlightWorld } from '../../../support/highlights.ts'
import { inTurn } from '../../../support/in-turn.ts'

const api = await startTestApi(t)
const { people, org, call, database } = api
const { owner, admin, member, another, stranger } = people
const world = highlightWorld(api)
const { ALBUMS, anAlbum, aMedia, add, filled, change, setStatus, caption, reorder, deleteMedia } = world
const { createInAlbum, sql, orgId, removeFromAlbum } = world
const remove = (album: string, who = member) => call(who, 'DELETE', `${ALBUMS}/${album}`)
const get = (album: string, who = member) => call(who, 'GET', `${ALBUMS}/${album}`)
const code = ({ status, code }: Answer) => code ?? status

t.test('an album goes, and its media items and highlights stay', async (t) => {
  const { album, media } = await filled(2, { status: 'PUBLIC' })
  const elsewhere = await anAlbum({ owner: member })
  await add(elsewhere, media[0] ?? '')
  const { highlight_id: highlight } = (await createInAlbum(album, { media_ids: media }, another)).data
  t.equal((await world.get(highlight, owner)).data.album_id, album)
  t.match(await world.list(member), [highlight])
  const version = (await sql('select version from albums where id = $1', [uuidOf('album', album)]))[0]?.version
  const versionOfHighlight = async () =>
    (await sql('select version from highlights where id = $1', [uuidOf('highlight', highlight)]))[0]?.version
  const shown = await versionOfHighlight()
  const removed = await remove(album)
  t.strictSame([removed.status, removed.body.length], [204, 0])
  for (const answer of [await get(album), await remove(album), await call(member, 'GET', `${ALBUMS}/${album}/media`)]) {
    t.equal(code(answer), 'NOT_FOUND')
  }
  for (const id of media) t.equal((await call(another, 'GET', `/api/media/${org}/${id}`)).status, 200)
  t.strictSame(await world.idsOf(elsewhere), [media[0]])
  for (const who of [another, admin])
    t.match((await world.get(highlight, who)).data, { album_id: null, media_ids: media })
  t.equal(await versionOfHighlight(), shown + 1, 'the highlight has changed')
  t.equal(code(await world.get(highlight, member)), 'NOT_FOUND', 'who saw it by the album')
  t.strictSame([await world.list(another), await world.list(member)], [[highlight], []])
  const [told, ...others] = await sql(
    `select payload, aggregate_version as version from outbox where aggregate_id = $1 and type = 'AlbumDeleted'`,
    [uuidOf('album', album)],
  )
  const payload = { album_id: album, org_id: org, event_id: null, actor_id: member.wireId }
  t.strictSame([told, others], [{ payload, version: version + 1 }, []])
  t.match((await world.audited(album)).at(-1), { action: 'ALBUM_ACTION', operation: 'delete' })
})

t.test('its owner and the administrators delete an album, in every status but ARCHIVE', async (t) => {
  for (const who of [member, owner, admin]) {
    for (const status of ['DRAFT', 'PUBLIC'] as const) {
      const album = await anAlbum({ owner: member, status })
      for (const other of [another, stranger, people.platformAdmin])
        t.equal(code(await remove(album, other)), 'NOT_FOUND')
      t.equal((await remove(album, who)).status, 204)
    }
    const archived = await anAlbum({ owner: member, status: 'ARCHIVE' })
    t.equal(code(await remove(archived, who)), 'ALBUM_ARCHIVED')
    t.equal((await get(archived)).status, 200)
  }
})

t.test('the album of an event stays', async (t) => {
  for (const status of ['draft', 'active', 'archived'] as const) {
    const event = await anEvent(api, { org, orgId, owner: member, status })
    const album = await anAlbum({ owner: member, eventId: event.wireId })
    t.equal(code(await remove(album)), 'CONFLICT', status)
    t.equal((await get(album)).status, 200, status)
  }
})

const rowOf = (album: string) => ({
  text: 'select from albums where id = $1 for update',
  values: [uuidOf('album', album)],
})
const CHANGES: [what: string, status: number, act: (album: string, media: string[]) => Promise<Answer>][] = [
  ['an addition', 201, async (album) => add(album, await aMedia())],
  ['a removal', 204, (album, [id = '']) => removeFromAlbum(album, id)],
  ['an order', 200, (album, media) => reorder(album, media.toReversed())],
  ['a caption', 200, (album, [id = '']) => caption(album, id, 'Late')],
  ['another title', 200, (album) => change(album, { title: 'Late' })],
  ['another cover', 200, (album, [id = '']) => change(album, { cover_media_id: id })],
  ['a status', 200, (album) => setStatus(album, 'PUBLIC')],
  ['a highlight', 201, (album, media_ids) => createInAlbum(album, { media_ids })],
  ['a deletion', 204, (album) => remove(album, admin)],
]
for (const [what, status, act] of CHANGES) {
  t.test(`${what} that waits for the deletion finds no album`, async (t) => {
    const { album, media } = await filled(2)
    const answers = await inTurn(
      database,
      rowOf(album),
      () => remove(album),
      () => act(album, media),
    )
    t.strictSame(answers.map(code), [204, 'NOT_FOUND'])
    const lasting = await filled(2)
    const [first, last] = await inTurn(
      database,
      rowOf(lasting.album),
      () => act(lasting.album, lasting.media),
      () => remove(lasting.album),
    )
    t.strictSame([first?.status, last?.status], [status, what === 'a deletion' ? 404 : 204])
    t.equal((await get(lasting.album)).status, 404)
    for (const id of lasting.media) t.equal((await call(member, 'GET', `/api/media/${org}/${id}`)).status, 200)
  })
}

t.test('an album that is archived first stays', async (t) => {
  const album = await anAlbum({ owner: member })
  const answers = await inTurn(
    database,
    rowOf(album),
    () => setStatus(album, 'ARCHIVE'),
    () => remove(album),
  )
  t.strictSame(answers.map(code), [200, 'ALBUM_ARCHIVED'])
})

t.test('albums and what is in them are deleted at once: none waits for another in turn', async (t) => {
  const media = await Promise.all(Array.from({ length: 6 }, () => aMedia()))
  const albums: string[] = []
  for (let n = 0; n < 4; n++) {
    const album = await anAlbum({ owner: member })
    for (const id of n % 2 ? media : media.toReversed()) await add(album, id)
    await createInAlbum(album, { media_ids: media })
    albums.push(album)
  }
  const answers = await Promise.all([
    ...media.map((id) => deleteMedia(id)),
    ...albums.flatMap((album) => [remove(album), createInAlbum(album, { media_ids: media }), remove(album, admin)]),
    ...media.map((id) => world.restoreMedia(id)),
  ])
  for (const { status } of answers) t.ok(status < 500, `${status}`)
  for (const album of albums) t.equal((await get(album)).status, 404)
  const left = await sql('select count(*)::int as n from album_media where album_id = any($1)', [
    albums.map((album) => uuidOf('album', album)),
  ])
  t.strictSame(left, [{ n: 0 }])
})
