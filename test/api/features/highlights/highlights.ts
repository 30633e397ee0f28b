import { randomUUID } from 'node:crypto'
import t from 'tap'
import document from '../../../../api/openapi.json' with { type: 'json' }
import { pathOf, startTestApi, uuidOf } from '../../../support/api.ts'
import { anEvent } from '../../../support/events.ts'
import { highlightWorld } from '../../../support/highlights.ts'

const api = await startTestApi(t)
const { people, org, otherOrg, call, database } = api
const { owner, admin, member, another, stranger } = people
const world = highlightWorld(api)
const { create, createInAlbum, createInEvent, get, remove, list, aHighlight, converted, aTrack, itemsOf } = world
const { sql, orgId, anAlbum, aMedia, filled, code } = world
const uuid = (id: string) => uuidOf('media', id)

t.test('a highlight is made of media items in the order that was chosen', async (t) => {
  const media_ids = [await aMedia({ kind: 'video' }), await aMedia(), await aMedia({ by: another })]
  const made = await create({ media_ids, title: '  Summer  ' })
  t.match(made, { status: 201, data: { highlight_id: /^hlt_/, album_id: null, status: 'processing' } })
  t.equal(made.data.estimated_duration_sec, 6 + 3 + 3)
  const { highlight_id: id } = made.data
  t.strictSame((await get(id)).data, {
    highlight_id: id,
    org_id: org,
    album_id: null,
    title: 'Summer',
    status: 'processing',
    media_ids,
    transition: 'cut',
    music_track_id: null,
    orientation: 'auto',
    fill: 'blur',
    ken_burns: true,
    show_title: true,
    captions: 'none',
    skip_broken: false,
    estimated_duration_sec: 12,
    duration_sec: null,
    variants: { hls_master_url: null, image_webp_url: null, image_thumb_url: null },
    placeholder: null,
    expires_in: 3600,
    progress: null,
    items: media_ids.map((media_id, i) => ({
      media_id,
      type: i === 0 ? 'video' : 'image',
      start_sec: null,
      duration_sec: null,
      skipped: null,
    })),
    created_by: member.wireId,
    created_at: (await get(id)).data.created_at,
    error: null,
    can: ['highlight.delete', 'highlight.read'],
  })
  t.strictSame(await world.announced(id), ['HighlightRequested'])
  const [event] = await sql('select payload, area from outbox where aggregate_id = $1', [uuidOf('highlight', id)])
  t.strictSame(event, { area: 'highlight', payload: { highlight_id: id, org_id: org, generation: 1 } })
  t.strictSame(
    await sql('select action, resource_type, details from audit_log where resource_id = $1', [uuidOf('highlight', id)]),
    [{ action: 'MEDIA_UPLOAD', resource_type: 'highlight', details: { operation: 'highlight', highlight_id: id } }],
  )
})

t.test('every option is kept', async (t) => {
  const track = await aTrack()
  const given = {
    ...{ transition: 'fade', orientation: 'square', fill: 'black', captions: 'date', music_track_id: track },
    ...{ ken_burns: false, show_title: false, skip_broken: true },
  }
  t.match((await get(await aHighlight({ json: given }))).data, given)
})

t.test('the estimate is that of the highlight where durations are known', async (t) => {
  const media_ids = [await converted({ durationSec: 3.2 }), await converted({ durationSec: 20 }), await aMedia()]
  t.equal((await create({ media_ids })).data.estimated_duration_sec, Math.ceil(3.2 + 15 + 3))
  t.equal(
    (await create({ media_ids, transition: 'crossfade' })).data.estimated_duration_sec,
    Math.ceil(3.2 + 15 + 3 - 1),
  )
})

t.test('the estimate is a whole number in the document, and the duration is not', async (t) => {
  const { CreatedHighlight, Highlight } = document.components.schemas
  t.equal(CreatedHighlight.properties.estimated_duration_sec.type, 'integer')
  t.equal(Highlight.properties.estimated_duration_sec.type, 'integer')
  t.match(Highlight.properties.duration_sec.anyOf, [{ type: 'number' }, { type: 'null' }])
})

t.test('a Live Photo is shown by its moving part, if that can be decoded', async (t) => {
  const pair = randomUUID()
  const [image, video] = [await world.upload('image', pair), await world.upload('video', pair)]
  const moving = await aHighlight({ media: [image] })
  t.match((await get(moving)).data, { media_ids: [image], items: [{ media_id: image, type: 'motion' }] })
  t.match(await itemsOf(moving), [{ media_id: uuid(image), source_id: uuid(video), type: 'motion', seconds: 15 }])
  await sql(`update media set upload_status = 'failed' where id = $1`, [uuid(video)])
  t.match(await itemsOf(await aHighlight({ media: [image] })), [{ source_id: uuid(image), type: 'image', seconds: 3 }])
})

t.test('captions and dates are those of the moment of the creation', async (t) => {
  const { album, media } = await filled(2)
  const [first = '', second = ''] = media
  await world.caption(album, first, 'At the\nlake')
  const late = await converted({ kind: 'image', capturedAt: '2026-07-01T23:30:00-05:00' })
  await world.add(album, late)
  const made = async (captions: string) => {
    const { data } = await createInAlbum(album, { media_ids: [second, first, late], captions })
    return (await itemsOf(data.highlight_id)).map(({ caption }) => caption)
  }
  t.strictSame(await made('caption'), ['', 'At the lake', ''])
  t.strictSame(await made('date'), ['', '', '2026-07-01'], 'by the clock of the camera')
  t.strictSame(await made('none'), ['', '', ''])
  for (const [kind, capturedAt, day] of [
    ['video', '2026-11-22T01:30:00.000000Z', ''],
    ['video', '2026-11-21T20:30:00-05:00', '2026-11-21'],
    ['video', '2026-11-21T20:30:00+00:00', '2026-11-21'],
    ['image', '2026-11-21T20:30:00Z', '2026-11-21'],
  ] as const) {
    const { data } = await create({ media_ids: [await converted({ kind, capturedAt })], captions: 'date' })
    t.match(await itemsOf(data.highlight_id), [{ caption: day }], `${kind} of ${capturedAt}`)
  }
})

t.test('bad input is refused with its field', async (t) => {
  const id = await aMedia()
  const bad: [string, object, string][] = [
    ['no title', { title: undefined, media_ids: [id] }, 'body.title'],
    ['an empty title', { title: ' ', media_ids: [id] }, 'body.title'],
    ['a long title', { title: 'x'.repeat(201), media_ids: [id] }, 'body.title'],
    ['no media items', {}, 'body.media_ids'],
    ['an empty list', { media_ids: [] }, 'body.media_ids'],
    ['31', { media_ids: Array.from({ length: 31 }, () => `med_${'0'.repeat(26)}`) }, 'body.media_ids'],
    ['the same one twice', { media_ids: [id, id] }, 'body.media_ids'],
    ['the same one twice, as a bare UUID', { media_ids: [id, uuid(id)] }, 'body.media_ids'],
    ['another id', { media_ids: [org] }, 'body.media_ids.0'],
    ['an unknown transition', { media_ids: [id], transition: 'wipe' }, 'body.transition'],
    ['text for a flag', { media_ids: [id], ken_burns: 'yes' }, 'body.ken_burns'],
  ]
  for (const [what, json, field] of bad) {
    const { status, code, body } = await create(json)
    t.strictSame([status, code, body.error?.details?.[0]?.field], [400, 'VALIDATION_ERROR', field], what)
  }
})

t.test('thirty media items are accepted', async (t) => {
  const media = await Promise.all(Array.from({ length: 30 }, () => aMedia()))
  const id = await aHighlight({ media })
  t.strictSame((await get(id)).data.media_ids, media)
})

t.test('media items that are not there are named', async (t) => {
  const [fine, deleted] = [await aMedia(), await aMedia()]
  await world.deleteMedia(deleted)
  const foreign = await aMedia({ orgId: uuidOf('organization', otherOrg), by: stranger })
  const unknown = `med_${'0'.repeat(26)}`
  const { status, code, body } = await create({ media_ids: [fine, deleted, foreign, unknown] })
  t.strictSame([status, code], [422, 'MEDIA_NOT_AVAILABLE'])
  t.strictSame(
    body.error.details,
    [1, 2, 3].map((i) => ({ field: `body.media_ids.${i}`, issue: 'is not available' })),
  )
})

t.test('a media item may be in conversion', async (t) => {
  for (const status of ['processing', 'completed']) {
    const made = await create({ media_ids: [await aMedia({ kind: 'video', status })] })
    t.match(made, { status: 201, data: { skipped_media_ids: [] } }, status)
  }
})

t.test('media items whose conversion has failed are named, or left out', async (t) => {
  const { album, media } = await filled(2)
  const [fine = '', broken = ''] = media
  await sql(`update media set upload_status = 'failed' where id = $1`, [uuid(broken)])
  const issue = 'could not be converted'
  for (const make of [create, (json: object) => createInAlbum(album, json)]) {
    const refused = await make({ media_ids: [fine, broken] })
    t.match(refused, { status: 422, code: 'MEDIA_NOT_AVAILABLE' })
    t.strictSame(refused.body.error.details, [{ field: 'body.media_ids.1', issue }])
    const none = await make({ media_ids: [broken], skip_broken: true })
    t.match(
      none,
      { status: 422, body: { error: { details: [{ field: 'body.media_ids.0', issue }] } } },
      'nothing is left',
    )
    const made = await make({ media_ids: [broken, fine], skip_broken: true })
    t.match(made, { status: 201, data: { skipped_media_ids: [broken], estimated_duration_sec: 3 } })
    t.match((await get(made.data.highlight_id)).data, {
      media_ids: [broken, fine],
      items: [
        { media_id: broken, skipped: 'Its conversion has failed' },
        { media_id: fine, skipped: null },
      ],
    })
  }
})

t.test('an unknown track is refused, and so is a retired one', async (t) => {
  const media_ids = [await aMedia()]
  for (const music_track_id of [`trk_${'0'.repeat(26)}`, await aTrack({ retired: true })]) {
    const { status, code, body } = await create({ media_ids, music_track_id })
    t.strictSame([status, code, body.error.details[0].field], [422, 'MUSIC_TRACK_NOT_FOUND', 'body.music_track_id'])
  }
})

t.test('a highlight of an album is made of what is in it, by those who can see it', async (t) => {
  const { album, media } = await filled(2, { status: 'PUBLIC' })
  const elsewhere = await aMedia()
  const made = await createInAlbum(album, { media_ids: media.toReversed() }, another)
  t.match(made, { status: 201, data: { album_id: album, status: 'processing', estimated_duration_sec: 6 } })
  t.match((await get(made.data.highlight_id, another)).data, { album_id: album, media_ids: media.toReversed() })
  const mixed = await createInAlbum(album, { media_ids: [...media, elsewhere] })
  t.strictSame([mixed.status, mixed.code], [422, 'MEDIA_NOT_AVAILABLE'])
  t.strictSame(mixed.body.error.details, [{ field: 'body.media_ids.2', issue: 'is not in the album' }])
  t.strictSame(
    (await world.audited(album)).filter((entry) => 'highlight_id' in entry),
    [{ action: 'ALBUM_ACTION', operation: 'highlight', highlight_id: made.data.highlight_id }],
  )
  await world.setStatus(album, 'DRAFT')
  t.equal((await createInAlbum(album, { media_ids: media }, another)).status, 404, 'a draft of another user')
  t.equal((await createInAlbum(album, { media_ids: media }, admin)).status, 201)
  await world.setStatus(album, 'ARCHIVE')
  t.equal(code(await createInAlbum(album, { media_ids: media })), 'ALBUM_ARCHIVED')
  t.equal(code(await createInAlbum(album, { media_ids: media }, another)), 'NOT_FOUND')
})

t.test('a highlight of an event belongs to its album', async (t) => {
  const make = async (status?: 'draft' | 'archived') => {
    const event = await anEvent(api, { org, orgId, owner: member, ...(status && { status }) })
    const album = await anAlbum({ owner: member, eventId: event.wireId, status: 'PUBLIC' })
    const media = await aMedia()
    await sql(
      `insert into album_media (album_id, media_id, org_id, position, listed, added_by) values ($1, $2, $3, 0, true, $4)`,
      [uuidOf('album', album), uuid(media), orgId, member.id],
    )
    return { event: event.wireId, album, media_ids: [media] }
  }
  const { event, album, media_ids } = await make()
  const made = await createInEvent(event, { media_ids }, another)
  t.match(made, { status: 201, data: { album_id: album } })
  await world.removeFromAlbum(album, media_ids[0] ?? '')
  t.match((await get(made.data.highlight_id, another)).data, { status: 'processing', album_id: album, media_ids })
  t.equal(code(await createInEvent(event, { media_ids }, another)), 'MEDIA_NOT_AVAILABLE')

  const archived = await make('archived')
  t.equal(code(await createInEvent(archived.event, archived, another)), 201)
  await world.setStatus(archived.album, 'ARCHIVE')
  t.equal(code(await createInEvent(archived.event, archived)), 'ALBUM_ARCHIVED')
  t.equal(code(await createInEvent(archived.event, archived, another)), 'NOT_FOUND')

  const draft = await make('draft')
  t.equal(code(await createInEvent(draft.event, draft, another)), 'NOT_FOUND', 'an event that the caller cannot see')
  t.equal(code(await createInEvent(draft.event, draft)), 201)
  const bare = await anEvent(api, { org, orgId, owner: member })
  t.equal(code(await createInEvent(bare.wireId, { media_ids })), 'NOT_FOUND', 'an event without an album')
})

t.test('lists and details show what the caller may see', async (t) => {
  const { album, media } = await filled(1)
  const own = await aHighlight()
  const ofAlbum = (await createInAlbum(album, { media_ids: media })).data.highlight_id
  const both = async (who = another) => {
    const listed = await list(who)
    const seen = [own, ofAlbum].filter((id) => listed.includes(id))
    for (const id of [own, ofAlbum]) t.equal((await get(id, who)).status, seen.includes(id) ? 200 : 404)
    return seen
  }
  t.strictSame(await both(member), [own, ofAlbum])
  t.strictSame(await both(owner), [own, ofAlbum])
  t.strictSame(await both(admin), [own, ofAlbum])
  t.strictSame(await both(), [])
  await world.setStatus(album, 'PUBLIC')
  t.strictSame(await both(), [ofAlbum])
  await world.change(album, { visibility: 'private' })
  t.strictSame(await both(), [])
  const listed = await list(member)
  t.ok(listed.indexOf(ofAlbum) < listed.indexOf(own), 'newest first')
})

t.test('participants see highlights of the album of their event', async (t) => {
  const event = await anEvent(api, { org, orgId, owner: member })
  const { album, media } = await filled(1, { eventId: event.wireId, status: 'PUBLIC', visibility: 'participants' })
  const { highlight_id: id } = (await createInAlbum(album, { media_ids: media })).data
  t.strictSame([(await get(id, another)).status, (await list(another)).includes(id)], [404, false])
  await sql(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
    [event.id, another.id, orgId],
  )
  t.strictSame([(await get(id, another)).status, (await list(another)).includes(id)], [200, true])
})

t.test('a list can be of one album, or of the album of an event', async (t) => {
  const event = await anEvent(api, { org, orgId, owner: member })
  const { album, media } = await filled(1, { eventId: event.wireId, status: 'PUBLIC' })
  const other = await filled(1, { status: 'PUBLIC' })
  const made: string[] = []
  for (const who of [member, another, member]) {
    made.unshift((await createInAlbum(album, { media_ids: media }, who)).data.highlight_id)
    await createInAlbum(other.album, { media_ids: other.media }, who)
    await aHighlight({ who })
  }
  const page = (query: Record<string, string>, who = member) =>
    call(who, 'GET', `${world.HIGHLIGHTS}?${new URLSearchParams(query)}`)
  const idsOf = async (query: Record<string, string>, who = member): Promise<string[]> =>
    (await page(query, who)).data.highlights.map((one: { highlight_id: string }) => one.highlight_id)
  const filters = [{ album_id: album }, { event_id: event.wireId }, { album_id: album, event_id: event.wireId }]
  for (const filter of filters) {
    for (const who of [member, another, admin]) t.strictSame(await idsOf(filter, who), made)
    const first = await page({ ...filter, limit: '2' })
    t.match(first.data, { has_more: true })
    const next = { limit: '2', cursor: first.data.next_cursor }
    t.strictSame(await idsOf({ ...filter, ...next }), made.slice(2))
    t.equal((await page({ ...next, album_id: other.album })).code, 'INVALID_CURSOR', 'a cursor is of its filter')
    t.equal((await page(next)).code, 'INVALID_CURSOR')
  }
  const nothing = [
    { album_id: `alb_${'0'.repeat(26)}` },
    { event_id: `evt_${'0'.repeat(26)}` },
    { album_id: other.album, event_id: event.wireId },
  ]
  for (const filter of nothing)
    t.strictSame((await page(filter)).data, { highlights: [], next_cursor: null, has_more: false })
  const refused = [{ album_id: media[0] ?? '' }, { album_id: '' }, { event_id: album }, { event_id: 'x' }]
  for (const filter of refused) {
    const { status, code, body } = await page(filter)
    const field = `query.${Object.keys(filter)[0]}`
    t.strictSame([status, code, body.error?.details?.[0]?.field], [400, 'VALIDATION_ERROR', field])
  }

  await world.setStatus(album, 'DRAFT')
  t.strictSame(await idsOf({ album_id: album }), made, 'its owner')
  t.strictSame(await idsOf({ album_id: album }, admin), made)
  t.strictSame(await idsOf({ album_id: album }, another), [made[1]], 'what a user created, of an album no longer seen')
  t.strictSame(await idsOf({ event_id: event.wireId }, another), [made[1]])
})

t.test('the filter by event asks whether the caller may see the event', async (t) => {
  const event = await anEvent(api, { org, orgId, owner: member, status: 'draft' })
  const { album, media } = await filled(1, { eventId: event.wireId, status: 'PUBLIC' })
  const { highlight_id: id } = (await createInAlbum(album, { media_ids: media })).data
  const { highlight_id: others } = (await createInAlbum(album, { media_ids: media }, another)).data
  const listed = async (query: Record<string, string>, who = member) =>
    (await call(who, 'GET', `${world.HIGHLIGHTS}?${new URLSearchParams(query)}`)).data.highlights.map(
      (one: { highlight_id: string }) => one.highlight_id,
    )
  const filters = [{ event_id: event.wireId }, { album_id: album, event_id: event.wireId }]
  for (const filter of filters) {
    for (const who of [member, owner, admin]) t.strictSame(await listed(filter, who), [others, id], 'those who see it')
    t.strictSame(await listed(filter, another), [], 'a draft of another user, although its album is public')
  }
  t.strictSame(await listed({ album_id: album }, another), [others, id], 'the album itself is public')
  await sql(`update events set status = 'active' where id = $1`, [event.id])
  for (const filter of filters) t.strictSame(await listed(filter, another), [others, id])
})

t.test('its creator and administrators delete a highlight', async (t) => {
  const { album, media } = await filled(1, { status: 'PUBLIC' })
  const { highlight_id: id } = (await createInAlbum(album, { media_ids: media })).data
  t.equal((await remove(id, another)).status, 404, 'not all who can see it')
  t.equal((await remove(id)).status, 204)
  t.strictSame([(await get(id)).status, (await remove(id)).status], [404, 404])
  t.notOk((await list()).includes(id))
  t.strictSame(await world.announced(id), ['HighlightRequested', 'HighlightDeleted'])
  t.match(await sql('select deleted_by, purge_at from highlights where id = $1', [uuidOf('highlight', id)]), [
    { deleted_by: member.id, purge_at: Date },
  ])
  t.equal((await remove(await aHighlight(), admin)).status, 204)
  t.equal((await call(member, 'GET', `/api/media/${org}/${media[0]}`)).status, 200, 'the media items stay')
})

t.test('the owner of an album removes what others have added to it, and nothing else of theirs', async (t) => {
  const { album, media } = await filled(1, { status: 'PUBLIC' })
  const theirs = (await createInAlbum(album, { media_ids: media }, another)).data.highlight_id
  const foreign = await filled(1, { status: 'PUBLIC', owner: another })
  const elsewhere = (await createInAlbum(foreign.album, { media_ids: foreign.media }, owner)).data.highlight_id
  const without = await aHighlight({ who: another })
  for (const id of [elsewhere, without]) t.equal((await remove(id, member)).status, 404)
  t.equal((await remove(theirs, member)).status, 204)
  t.equal((await get(theirs, another)).status, 404, 'it is deleted, also for its creator')
  t.strictSame(
    await sql('select actor_id, action, resource_type, details from audit_log where resource_id = $1 order by id', [
      uuidOf('highlight', theirs),
    ]),
    [{ actor_id: member.id, action: 'MEDIA_DELETE', resource_type: 'highlight', details: { operation: 'delete' } }],
  )
  const archived = (await createInAlbum(album, { media_ids: media }, another)).data.highlight_id
  await world.setStatus(album, 'ARCHIVE')
  t.equal((await remove(archived, member)).status, 204, 'also from an album that is archived')
})

t.test('a highlight is delivered while it exists, and nothing else below its prefix is', async (t) => {
  const id = await aHighlight()
  const prefix = `org/${orgId}/highlights/${uuidOf('highlight', id)}/`
  for (const name of ['v1/master.m3u8', 'v1/manifest.json', 'v1/thumb.webp']) {
    await api.store.put(`${prefix}${name}`, name, { contentType: 'x/y' })
  }
  await sql(
    `update highlights set output_prefix = $2, hls_master = 'master.m3u8', thumb_file = 'thumb.webp' where id = $1`,
    [uuidOf('highlight', id), `${prefix}v1/`],
  )
  const { hls_master_url: master, image_thumb_url: thumb } = (await get(id)).data.variants
  const played = await call(undefined, 'GET', pathOf(master))
  t.strictSame(
    [played.status, played.headers.get('content-type'), played.headers.get('cache-control')],
    [200, 'application/vnd.apple.mpegurl', 'private, no-cache'],
  )
  t.equal((await call(undefined, 'GET', pathOf(thumb))).status, 200)
  const at = (name: string) => call(undefined, 'GET', pathOf(master).replace('v1/master.m3u8', name))
  for (const name of ['v1/manifest.json', 'original', 'audio']) {
    t.equal((await at(name)).status, 404, name)
  }
  const other = await aHighlight()
  const stolen = pathOf(master).replace(uuidOf('highlight', id), uuidOf('highlight', other))
  t.equal((await call(undefined, 'GET', stolen)).status, 404, 'a link opens one highlight')
  await remove(id)
  t.equal((await call(undefined, 'GET', pathOf(master))).status, 404)
})

t.test('each user can create ten an hour', async (t) => {
  const limited = await startTestApi(t, { settings: { RATE_LIMIT_FACTOR: '1' } })
  const { create, aMedia } = highlightWorld(limited)
  const media_ids = [await aMedia()]
  for (let n = 0; n < 10; n++) t.equal((await create({ media_ids }, limited.people.another)).status, 201)
  t.equal((await create({ media_ids }, limited.people.another)).code, 'RATE_LIMITED')
  t.equal((await create({ media_ids })).status, 201, 'another user')
})

t.test('an explanation says why a user sees a highlight', async (t) => {
  const id = await aHighlight()
  const explained = async (who: typeof member) => {
    const json = { user_id: who.wireId, org_id: org, action: 'highlight.read', resource_id: id }
    return (await call(people.platformAdmin, 'POST', '/admin/permissions/explain', { json })).data
  }
  t.match(await explained(member), { allowed: true, facts: { creator: true } })
  t.match(await explained(another), { allowed: false, facts: { creator: false, album_reader: false } })
})

t.test('rows of a highlight are those of one organization', async (t) => {
  await aHighlight()
  const count = async (table: string, org: string) => {
    const { rows } = await database.db.read({ org: uuidOf('organization', org) }, (tx) =>
      tx.execute(`select count(*)::int as n from ${table}`),
    )
    return rows[0]?.['n']
  }
  for (const table of ['highlights', 'highlight_items']) {
    t.ok(Number(await count(table, org)) > 0)
    t.equal(await count(table, otherOrg), 0)
  }
})

t.test('an installation may leave albums in ARCHIVE open to highlights', async (t) => {
  const api = await startTestApi(t, { settings: { ALBUM_ARCHIVE_READ_ONLY: 'false' } })
  const world = highlightWorld(api)
  const { album, media } = await world.filled(1, { status: 'PUBLIC' })
  await world.setStatus(album, 'ARCHIVE')
  t.equal((await world.createInAlbum(album, { media_ids: media }, api.people.owner)).status, 201)
})
