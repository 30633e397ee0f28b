import t from 'tap'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { albumWorld } from '../../../support/albums.ts'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { anEvent } from '../../../support/events.ts'

const api = await startTestApi(t)
const { people, org, otherOrg, call } = api
const { owner, admin, member, another, stranger } = people
const world = albumWorld(api)
const { ALBUMS, anAlbum, filled, show, change, setStatus, announced, audited, sql } = world
const orgId = uuidOf('organization', org)
const create = (json: object, who = member) => call(who, 'POST', ALBUMS, { json })
const eventOf = (who = member, status: 'draft' | 'active' | 'archived' = 'active') =>
  anEvent(api, { org, orgId, owner: who, status })

t.test('an album begins as an empty draft of its creator', async (t) => {
  const { status, data } = await create({ title: '  Summer  ', description: 'By the sea' })
  t.equal(status, 201)
  t.match(data, { album_id: /^alb_/, created_at: /Z$/, updated_at: data.created_at })
  const { album_id, created_at: _, updated_at: __, ...rest } = data
  t.strictSame(rest, {
    org_id: org,
    owner_id: member.wireId,
    event_id: null,
    title: 'Summer',
    description: 'By the sea',
    visibility: 'organization',
    status: 'DRAFT',
    media_count: 0,
    cover_media_id: null,
    can: [
      'album.add_media',
      'album.delete',
      'album.read',
      'album.set_status',
      'album.update',
      'highlight.create_in_album',
    ],
  })
  t.strictSame(await show(album_id, member), data)
  t.strictSame(await announced(album_id), ['AlbumCreated'])
  t.strictSame(await audited(album_id), [{ action: 'ALBUM_CREATE' }])
  const [{ payload, area }] = await sql('select payload, area from outbox where aggregate_id = $1', [
    uuidOf('album', album_id),
  ])
  t.strictSame(
    [area, payload],
    [
      'album',
      {
        album_id,
        org_id: org,
        owner_id: member.wireId,
        event_id: null,
        title: 'Summer',
        status: 'DRAFT',
        visibility: 'organization',
      },
    ],
  )
})

t.test('what a creation may not say', async (t) => {
  const { wireId: event } = await eventOf()
  const refused: [object, string][] = [
    [{}, 'body.title'],
    [{ title: '' }, 'body.title'],
    [{ title: 'x'.repeat(201) }, 'body.title'],
    [{ title: 'x', description: 'x'.repeat(5001) }, 'body.description'],
    [{ title: 'x', visibility: 'public' }, 'body.visibility'],
    [{ title: 'x', visibility: 'participants' }, 'body.visibility'],
    [{ title: 'x', visibility: 'participants', event_id: null }, 'body.visibility'],
    [{ title: 'x', event_id: 'nonsense' }, 'body.event_id'],
    [{ title: 'x', event_id: formatId('album', newUuid()) }, 'body.event_id'],
  ]
  for (const [json, field] of refused) {
    const answer = await create(json)
    t.match(answer, { status: 400, code: 'VALIDATION_ERROR', body: { error: { details: [{ field }] } } }, field)
  }
  t.match(await create({ title: 'x', description: null, event_id: null, visibility: null }), { status: 201 })
  t.match(await create({ title: 'x', visibility: 'participants', event_id: event }), {
    status: 201,
    data: { event_id: event, visibility: 'participants' },
  })
})

t.test('an event has one album, and only those who see the event can make it', async (t) => {
  const [active, draft, archived] = [
    await eventOf(),
    await eventOf(another, 'draft'),
    await eventOf(another, 'archived'),
  ]
  const { wireId: event_id } = active
  t.equal((await create({ title: 'x', event_id }, another)).status, 201)
  t.match(await create({ title: 'x', event_id }), {
    status: 409,
    code: 'CONFLICT',
    body: { error: { details: [{ field: 'body.event_id' }] } },
  })
  const foreign = await anEvent(api, { org: otherOrg, orgId: uuidOf('organization', otherOrg), owner: stranger })
  for (const event_id of [draft.wireId, foreign.wireId, formatId('event', newUuid())]) {
    const answer = await create({ title: 'x', event_id })
    t.match(answer, { status: 404, code: 'NOT_FOUND', body: { error: { details: [{ field: 'body.event_id' }] } } })
  }
  t.match(await create({ title: 'x', event_id: archived.wireId }), { status: 422, code: 'EVENT_ARCHIVED' })
  t.equal((await create({ title: 'x', event_id: draft.wireId }, another)).status, 201, 'the owner sees the draft')
  t.equal((await create({ title: 'x', event_id: (await eventOf(another, 'draft')).wireId }, admin)).status, 201)
})

t.test('a change sets what it names', async (t) => {
  const { wireId: eventId } = await eventOf()
  const album = await anAlbum({ owner: member, eventId })
  t.match(await change(album, { title: 'Winter' }), { status: 200, data: { title: 'Winter', description: null } })
  t.match(await change(album, { description: 'Snow' }, admin), { data: { title: 'Winter', description: 'Snow' } })
  t.match(await change(album, { description: null, visibility: 'private' }, owner), {
    data: { description: null, visibility: 'private' },
  })
  t.match(await change(album, { visibility: 'participants' }), { data: { visibility: 'participants' } })
  t.strictSame(await announced(album), ['details', 'details', 'details', 'details'])
  const previous = await sql(
    `select payload ->> 'previous_visibility' as previous from outbox where aggregate_id = $1 order by aggregate_version`,
    [uuidOf('album', album)],
  )
  t.strictSame(
    previous.map((row) => row.previous),
    [null, null, 'organization', 'private'],
  )
  t.match(await audited(album), [{ action: 'ALBUM_ACTION', operation: 'update', fields: 'title' }])
  t.match(await show(album), { title: 'Winter', visibility: 'participants' })

  for (const json of [{}, { other: 1 }, { title: null }, { visibility: null }, { status: 'PUBLIC' }]) {
    t.match(await change(album, json), { status: 400, code: 'VALIDATION_ERROR' }, JSON.stringify(json))
  }
  const alone = await anAlbum({ owner: member })
  const answer = await change(alone, { visibility: 'participants' })
  t.match(answer, { status: 400, body: { error: { details: [{ field: 'body.visibility' }] } } })
  for (const who of [another, stranger]) t.match(await change(alone, { title: 'x' }, who), { status: 404 })
  t.equal((await show(alone)).title, 'Summer')
})

t.test('the cover is the chosen media item, or the first one', async (t) => {
  const { album, media } = await filled(3)
  const [a, b, c] = media as [string, string, string]
  const cover = async () => (await show(album)).cover_media_id
  t.equal(await cover(), a)
  t.match(await change(album, { cover_media_id: b }), { status: 200, data: { cover_media_id: b } })
  t.match(await change(album, { cover_media_id: c }), { status: 200, data: { cover_media_id: c } })
  await world.deleteMedia(c)
  t.equal(await cover(), a, 'the chosen one is deleted')
  const answer = await change(album, { cover_media_id: c })
  t.match(answer, { status: 404, body: { error: { details: [{ field: 'body.cover_media_id' }] } } })
  await world.restoreMedia(c)
  t.equal(await cover(), c, 'and back')
  t.match(await change(album, { cover_media_id: await world.aMedia() }), { status: 404 })
  t.equal(await cover(), c, 'a refused change changes nothing')
  await world.remove(album, c)
  t.equal(await cover(), a)
  await world.add(album, c)
  t.equal(await cover(), a, 'it was chosen for another time in the album')
  await change(album, { cover_media_id: b })
  t.match(await change(album, { cover_media_id: null }), { data: { cover_media_id: a } })
})

t.test('the owner sets the status: any after any, and the same changes nothing', async (t) => {
  const album = await anAlbum({ owner: member })
  const STATUSES = ['DRAFT', 'PUBLIC', 'ARCHIVE'] as const
  for (const from of STATUSES) {
    for (const to of STATUSES) {
      await setStatus(album, from)
      const { version } = (await sql('select version from albums where id = $1', [uuidOf('album', album)]))[0]
      const { status, body } = await setStatus(album, to)
      t.equal(status, 200)
      t.strictSame(Object.keys(body), ['album_id', 'status', 'meta'])
      t.strictSame([body.album_id, body.status], [album, to])
      t.match(body.meta, { request_id: /^req_/, timestamp: /^\d{4}-.*Z$/ })
      const [now] = await sql('select version, status from albums where id = $1', [uuidOf('album', album)])
      t.strictSame(now, { version: version + (from === to ? 0 : 1), status: to }, `${from} ${to}`)
    }
  }
  t.equal(new Set(await announced(album)).size, 1)
  t.match(await audited(album), [{ action: 'ALBUM_ACTION', operation: 'status', from: 'DRAFT', to: 'PUBLIC' }])
})

t.test('the errors of the status are those of its table', async (t) => {
  const album = await anAlbum({ owner: member })
  const PATH = '/api/v1/albums/status'
  const put = (who: typeof member | undefined, json: object) => call(who, 'PUT', PATH, { json })
  const good = { album_id: album, status: 'PUBLIC' }
  for (const json of [
    {},
    { status: 'PUBLIC' },
    { album_id: album },
    { album_id: album, status: 'public' },
    { album_id: album, status: null },
    { album_id: 'nonsense', status: 'PUBLIC' },
    { album_id: 7, status: 'PUBLIC' },
  ]) {
    t.match(await put(member, json), { status: 400, code: 'VALIDATION_ERROR' }, JSON.stringify(json))
  }
  t.match(await put(undefined, good), { status: 401, code: 'UNAUTHORIZED' })
  // Also administrators, and members who cannot see the album.
  for (const who of [owner, admin, another]) t.match(await put(who, good), { status: 403, code: 'FORBIDDEN' })
  t.match(await put(stranger, good), { status: 404, code: 'NOT_FOUND' })
  t.match(await put(people.platformAdmin, good), { status: 404, code: 'NOT_FOUND' })
  t.match(await put(member, { ...good, album_id: formatId('album', newUuid()) }), { status: 404, code: 'NOT_FOUND' })
  t.equal((await show(album)).status, 'DRAFT')
  const { database } = api
  const denied = await database.admin.query(
    `select details from audit_log where action = 'ACCESS_DENIED' and details ->> 'permission' = 'album.set_status'`,
  )
  t.ok(denied.rows.length > 0, 'the audit log has the reasons')

  const root = await fetch(`${api.publicUrl}${PATH}`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${member.token}`, 'content-type': 'application/json' },
    body: JSON.stringify(good),
  })
  t.equal(root.status, 200, 'also without the base path')
  t.match(await root.json(), { album_id: album, status: 'PUBLIC' })
  t.match(await put(member, { ...good, album_id: uuidOf('album', album) }), { status: 200 }, 'a bare UUID')
})

t.test('after the owner has left the organization, its administrators set the status', async (t) => {
  const album = await anAlbum({ owner: another })
  await sql('delete from memberships where user_id = $1', [another.id])
  t.match(await setStatus(album, 'PUBLIC', another), { status: 404 })
  t.match(await setStatus(album, 'PUBLIC', member), { status: 403, code: 'FORBIDDEN' }, 'not every member')
  for (const [who, status] of [
    [admin, 'PUBLIC'],
    [owner, 'ARCHIVE'],
    [admin, 'DRAFT'],
  ] as const) {
    t.match(await setStatus(album, status, who), { status: 200, body: { status } })
  }
  t.match(await call(another, 'GET', `${ALBUMS}/${album}`), { status: 404 })
  t.match(await change(album, { title: 'Kept' }, admin), { status: 200 }, 'administrators look after it')
  t.equal((await show(album)).owner_id, another.wireId, 'it stays theirs')
  await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [orgId, another.id])
  t.match(await setStatus(album, 'PUBLIC', admin), { status: 403, code: 'FORBIDDEN' }, 'the owner is back')
  t.match(await setStatus(album, 'PUBLIC', another), { status: 200 })
})

t.test('an album in ARCHIVE is read-only', async (t) => {
  const { album, media } = await filled(2)
  const [a = '', b = ''] = media
  await setStatus(album, 'ARCHIVE')
  const extra = await world.aMedia()
  const before = [await show(album), await world.list(album)]
  for (const answer of [
    await change(album, { title: 'x' }),
    await change(album, { cover_media_id: b }, owner),
    await world.add(album, extra),
    await world.remove(album, a),
    await world.caption(album, a, 'x'),
    await world.reorder(album, [b, a]),
    await world.reorder(album, [b]),
  ]) {
    t.match(answer, { status: 422, code: 'ALBUM_ARCHIVED' })
  }
  t.match(await change(album, { title: 'x' }, another), { status: 404 }, 'not there for others')
  t.strictSame([await show(album), await world.list(album)], before)
  await setStatus(album, 'DRAFT')
  t.match(await world.add(album, extra), { status: 201 })
})

t.test('the album of an archived event is read-only, but for its status', async (t) => {
  const event = await eventOf()
  const { album, media } = await filled(2, { eventId: event.wireId })
  const [a = '', b = ''] = media
  await call(member, 'POST', `/api/orgs/${org}/events/${event.wireId}/archive`)
  const extra = await world.aMedia()
  for (const answer of [
    await change(album, { title: 'x' }),
    await world.add(album, extra),
    await world.remove(album, a),
    await world.caption(album, a, 'x'),
    await world.reorder(album, [b, a]),
  ]) {
    t.match(answer, { status: 422, code: 'EVENT_ARCHIVED' })
  }
  t.match(await setStatus(album, 'PUBLIC'), { status: 200 })
  t.match(await world.list(album, another), { total: 2 }, 'and is still seen')
})

t.test('an installation may leave albums in ARCHIVE open to changes', async (t) => {
  const api = await startTestApi(t, { settings: { ALBUM_ARCHIVE_READ_ONLY: 'false' } })
  const world = albumWorld(api)
  const album = await world.anAlbum({ owner: api.people.member, status: 'ARCHIVE' })
  t.match(await world.change(album, { title: 'x' }), { status: 200 })
  t.match(await world.add(album, await world.aMedia()), { status: 201 })
  t.match(await world.change(album, { title: 'x' }, api.people.another), { status: 404 })
})
