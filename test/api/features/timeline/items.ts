import t from 'tap'
import type { Database } from '../../../../api/db/db.ts'
import { hideItem, insertItem, rebuildTimeline } from '../../../../api/features/timeline/commands.ts'
import { timelineConsumer } from '../../../../api/features/timeline/consumer.ts'
import { findFeedState, scanItems } from '../../../../api/features/timeline/queries.ts'
import type { EventPayload, EventType, ReceivedEvent } from '../../../../lib/contract/events.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { aPerson, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { eventually } from '../../../support/eventually.ts'
import { planOf, vacuum } from '../../../support/explain.ts'
import { waitingIn } from '../../../support/in-turn.ts'
import { aMember, anOrganization, join } from '../../../support/organizations.ts'

let still: Date | undefined
const api = await startTestApi(t, { clock: { now: () => still ?? new Date() } })
const { call, database } = api
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then(({ rows }) => rows)

const MORNING = new Date('2026-11-20T07:00:00.123Z')
const minutes = (n: number, from = MORNING) => new Date(from.getTime() + n * 60_000)

/** An organization of Ann (owner) and Ben (member), with rows and the events that announce them. */
async function scene() {
  const org = await anOrganization(api, 'Choir')
  const ann = await aMember(api, org.id, { role: 'owner', name: 'Ann', at: '2026-01-01T00:00:00.111222Z' })
  const ben = await aMember(api, org.id, { name: 'Ben', at: '2026-01-02T00:00:00.333444Z' })
  const events: ReceivedEvent[] = []
  function announce<T extends EventType>(type: T, at: Date, payload: object, aggregateVersion = 1): void {
    const whole = { org_id: org.id, ...payload } as unknown as EventPayload<T>
    events.push({ id: newUuid(), type, orgId: org.id, at, aggregateVersion, payload: whole } as ReceivedEvent)
  }
  for (const { id } of [ann, ben]) announce('MemberJoined', MORNING, { user_id: id, joined_at: MORNING.toISOString() })

  async function event(o: { status?: string; by?: Person; title?: string; at?: Date } = {}): Promise<Uuid> {
    const { status = 'active', by = ann, title = 'Party', at = minutes(0) } = o
    const id = newUuid()
    const active = status === 'draft' ? null : minutes(1, at)
    await sql(
      `insert into events (id, org_id, owner_id, title, start_at, status, created_at, activated_at)
        values ($1, $2, $3, $4, now(), $5, $6, $7)`,
      [id, org.id, by.id, title, status, at, active],
    )
    announce('EventCreated', at, { event_id: id, owner_id: by.id, title })
    if (active) {
      const activated = { event_id: id, owner_id: by.id, actor_id: by.id, title, activated_at: active.toISOString() }
      announce('EventActivated', active, activated)
    }
    return id
  }
  async function album(o: { of?: Uuid; visibility?: string; status?: string } = {}): Promise<Uuid> {
    const { of: eventId = null, visibility = 'organization', status = 'PUBLIC' } = o
    const id = newUuid()
    await sql(
      `insert into albums (id, org_id, owner_id, event_id, title, visibility, status, created_at)
        values ($1, $2, $3, $4, 'Summer', $5, $6, $7)`,
      [id, org.id, ann.id, eventId, visibility, status, minutes(2)],
    )
    announce('AlbumCreated', minutes(2), { album_id: id, owner_id: ann.id, event_id: eventId })
    return id
  }
  async function media(at = minutes(5), o: { by?: Person; kind?: string; pair?: Uuid } = {}): Promise<Uuid> {
    const { by = ann, kind = 'image', pair = null } = o
    const id = newUuid()
    await sql(
      `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
        conversion_state, created_at, paired_media_id) values ($1, $2, $3, 'a', $4, $5, 1, 'completed', 'succeeded', $6, $7)`,
      [id, org.id, by.id, `${kind}/x`, kind, at, pair],
    )
    if (pair) await sql('update media set paired_media_id = $1 where id = $2', [id, pair])
    announce('MediaUploaded', at, { media_id: id, uploader_id: by.id })
    return id
  }
  async function add(albumId: Uuid, mediaId: Uuid, at = minutes(6)): Promise<void> {
    await sql(
      `insert into album_media (album_id, media_id, org_id, position, listed, added_by, added_at)
        values ($1, $2, $3, 0, true, $4, $5)`,
      [albumId, mediaId, org.id, ann.id, at],
    )
    announce('AlbumUpdated', at, { album_id: albumId, actor_id: ann.id, change: 'media_added', media_id: mediaId })
  }
  async function comment(eventId: Uuid, o: { on?: Uuid; audience?: string; at?: Date } = {}): Promise<Uuid> {
    const { on = null, audience = 'event', at = minutes(8) } = o
    const id = newUuid()
    await sql(
      `insert into comments (id, org_id, event_id, target_type, target_id, media_id, audience, author_id, body, created_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, 'Hello', $9)`,
      [id, org.id, eventId, on ? 'media' : 'meta', on ?? eventId, on, audience, ann.id, at],
    )
    announce('CommentPosted', at, { comment_id: id, event_id: eventId, author_id: ann.id })
    return id
  }
  async function reaction(eventId: Uuid, o: { on?: Uuid; audience?: string } = {}): Promise<Uuid> {
    const { on = null, audience = 'event' } = o
    const id = newUuid()
    await sql(
      `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji, audience, created_at)
        values ($1, $2, $3, $4, $5, $6, '🎉', $7, $8)`,
      [id, org.id, eventId, on ? 'media' : 'meta', on ?? eventId, ann.id, audience, minutes(9)],
    )
    announce('reaction_added', minutes(9), { reaction_id: id, event_id: eventId, user_id: ann.id })
    return id
  }
  const consume = (some: readonly ReceivedEvent[] = events) =>
    database.worker.inTransaction({}, (tx) => timelineConsumer.handle(tx, some))
  const table = () => sql('select * from timeline_items where org_id = $1 order by id', [org.id])
  const items = async (as: Person, query: Record<string, string> = {}) => {
    const path = `/api/orgs/${org.wireId}/timeline?${new URLSearchParams(query)}`
    const { status, data } = await call(as, 'GET', path)
    if (status !== 200) throw new Error(`answered ${status}`)
    return data
  }
  const summaries = async (as: Person): Promise<string[]> =>
    (await items(as, { limit: '100' })).items.map(({ summary }: { summary: string }) => summary)
  return {
    org,
    ann,
    ben,
    events,
    announce,
    event,
    album,
    media,
    add,
    comment,
    reaction,
    consume,
    table,
    items,
    summaries,
  }
}
type Scene = Awaited<ReturnType<typeof scene>>

async function everything(s: Scene) {
  const event = await s.event()
  const album = await s.album({ of: event })
  const photo = await s.media()
  await s.add(album, photo)
  await s.add(album, await s.media(minutes(6)), minutes(7))
  s.announce('AlbumUpdated', minutes(7), { album_id: album, actor_id: s.ann.id, change: 'details', media_id: null })
  const comment = await s.comment(event)
  const reaction = await s.reaction(event)
  return { event, album, photo, comment, reaction }
}

const ALL = [
  'Ann reacted 🎉 to “Party”',
  'Ann commented on “Party”',
  'Ann changed the album “Summer”',
  'Ann added 2 photos to the album “Summer”',
  'Ann added 2 photos',
  'Ann created the album “Summer”',
  'Ann activated the event “Party”',
  'Ann created the event “Party”',
  'Ben joined',
  'Ann joined',
]

t.test('every type of item, in the timeline of the organization, of the user, and in the feed', async (t) => {
  const s = await scene()
  await everything(s)
  await s.consume()
  t.strictSame(await s.summaries(s.ben), ALL)
  const feed = await call(s.ben, 'GET', '/api/users/me/feed')
  t.strictSame(feed.data, await s.items(s.ben))
  const ofAnn = await call(s.ben, 'GET', `/api/users/${s.ann.wireId}/timeline`)
  t.strictSame(
    ofAnn.data.items,
    feed.data.items.filter((item: { actor_id: string }) => item.actor_id === s.ann.wireId),
  )
  t.equal((await call(s.ben, 'GET', '/api/users/me/timeline')).data.items.length, 1)
  t.equal((await call(await aPerson(api), 'GET', `/api/users/${s.ann.wireId}/timeline`)).status, 404)
  const between = { from: minutes(2).toISOString(), to: minutes(8).toISOString() }
  t.strictSame(
    (await s.items(s.ben, between)).items.map(({ summary }: { summary: string }) => summary),
    ALL.slice(2, 6),
    'from inclusive, to exclusive',
  )
  const backwards = new URLSearchParams({ from: between.to, to: between.from })
  t.equal((await call(s.ben, 'GET', `/api/users/me/feed?${backwards}`)).status, 400)
})

t.test('events twice, late and in any order make the same rows, and a rebuild changes none', async (t) => {
  const s = await scene()
  await everything(s)
  await s.consume()
  const before = await s.table()
  t.equal(before.length, ALL.length)
  await s.consume([...s.events, ...s.events].toReversed())
  t.strictSame(await s.table(), before, 'twice')
  const version = () => sql('select n from feed_versions where org_id = $1', [s.org.id])
  const known = await version()
  t.strictSame(await rebuildTimeline(database.worker, { orgId: s.org.id }), [])
  t.strictSame(await s.table(), before, 'rebuilt')
  t.strictSame(await version(), known, 'no poll looks again')

  await sql('delete from timeline_items where org_id = $1', [s.org.id])
  // The events of one aggregate keep their order.
  const ofAlbum = s.events.filter(({ type }) => type === 'AlbumUpdated')
  const others = s.events.filter(({ type }) => type !== 'AlbumUpdated')
  for (const one of others.toReversed()) await s.consume([one])
  for (const one of ofAlbum) await s.consume([one])
  t.strictSame(await s.table(), before, 'one by one, backwards')

  await sql('delete from timeline_items where org_id = $1', [s.org.id])
  const [rebuilt] = await rebuildTimeline(database.worker, { orgId: s.org.id })
  t.strictSame(
    await s.table(),
    before.filter(({ change }) => change !== 'details'),
    'a rebuild brings back all but the changes of albums that are not recorded',
  )
  t.match(rebuilt, { inserted: { media_uploaded: 1, album_updated: 1, member_joined: 2 } })
})

t.test('a rebuild works in small transactions, and one that was interrupted is continued by the next', async (t) => {
  const [s, other] = [await scene(), await scene()]
  for (const one of [s, other]) {
    await everything(one)
    await one.media(minutes(-700))
    await one.consume()
  }
  const isRow = ({ change }: { change: string | null }) => change !== 'details'
  const before = (await s.table()).filter(isRow)
  await sql('delete from timeline_items where org_id = any($1)', [[s.org.id, other.org.id]])
  const dying: Database = {
    ...database.worker,
    inTransaction: async (scope, work) => {
      if ((await s.table()).length > 0) throw new Error('died')
      return database.worker.inTransaction(scope, work)
    },
  }
  await t.rejects(rebuildTimeline(dying, { orgId: s.org.id, rows: 1 }), { message: 'died' })
  const done = await s.table()
  t.ok(done.length > 0 && done.length < before.length, `${done.length} of ${before.length}`)
  const [rebuilt] = await rebuildTimeline(database.worker, { orgId: s.org.id, rows: 1 })
  t.strictSame(await s.table(), before)
  t.equal(rebuilt?.orgId, s.org.id)
  const added = Object.values(rebuilt?.inserted ?? {}).reduce((sum, count) => sum + count, 0)
  t.equal(added, before.length - done.length)
  t.strictSame(await other.table(), [], 'of another organization nothing')
  const all = await rebuildTimeline(database.worker)
  t.match(
    all.filter(({ orgId }) => orgId === other.org.id),
    [{ inserted: { media_uploaded: 2, event_created: 1 } }],
  )
})

t.test('an album that is deleted during a rebuild has no items, and the others have theirs', async (t) => {
  const s = await scene()
  const [album, other] = [await s.album(), await s.album()]
  for (const one of [album, other]) await s.add(one, await s.media())
  const deleting = await database.admin.connect()
  try {
    await deleting.query('begin')
    await deleting.query('delete from albums where id = $1', [album])
    const rebuilt = rebuildTimeline(database.worker, { orgId: s.org.id })
    await eventually('it to wait', async () => (await waitingIn(database)) === 1)
    await deleting.query('commit')
    t.match(await rebuilt, [{ inserted: { album_created: 1, album_updated: 1 } }])
  } finally {
    await deleting.query('rollback')
    deleting.release()
  }
  const albums = (await s.table()).map((item) => item.album_id).filter(Boolean)
  t.strictSame(albums, [other, other])
})

t.test('what a reader may not see is in no timeline, and comes when they may', async (t) => {
  const s = await scene()
  const { event, album, photo, comment, reaction } = await everything(s)
  await s.event({ status: 'draft', title: 'Secret' })
  await s.comment(event, { on: photo, audience: 'album' })
  await s.reaction(event, { on: photo, audience: 'album' })
  await s.consume()
  const seen = async () => s.summaries(s.ben)
  const everyone = await seen()
  t.ok(everyone.includes('Ann commented on a photo or video of “Party”'))
  t.notOk(
    everyone.some((text) => text.includes('Secret')),
    'the draft of another',
  )
  t.ok((await s.summaries(s.ann)).includes('Ann created the event “Secret”'))

  const steps: [what: string, text: string, values: unknown[], gone: RegExp][] = [
    ['a private album', "update albums set visibility = 'private' where id = $1", [album], /album|photo or video/],
    [
      'a deleted comment',
      'update comments set deleted_at = now(), deleted_by = author_id where id = $1',
      [comment],
      /commented on “/,
    ],
    ['a removed reaction', 'delete from reactions where id = $1', [reaction], /🎉 to “/],
    ['deleted media', 'update media set deleted_at = now() where org_id = $1', [s.org.id], /photo/],
    ['a draft again', "update events set status = 'draft' where id = $1", [event], /Party/],
    ['a member who left', 'delete from memberships where user_id = $1', [s.ann.id], /Ann/],
  ]
  for (const [what, text, values, gone] of steps) {
    const before = await seen()
    t.ok(
      before.some((one) => gone.test(one)),
      `before: ${what}`,
    )
    await sql(text, values)
    t.strictSame(
      await seen(),
      before.filter((one) => !gone.test(one)),
      what,
    )
  }
  await sql('delete from memberships where user_id = $1', [s.ben.id])
  t.strictSame((await call(s.ben, 'GET', '/api/users/me/feed')).data.items, [], 'organizations left')
  t.equal((await call(s.ben, 'GET', `/api/orgs/${s.org.wireId}/timeline`)).status, 404)
})

t.test('an actor without a name is a member, and a former one after leaving', async (t) => {
  const s = await scene()
  await s.comment(await s.event())
  await s.consume()
  await sql('update users set display_name = null where id = $1', [s.ann.id])
  t.ok((await s.summaries(s.ben)).includes('A member joined'))
  const feed = async () => (await call(s.ben, 'GET', '/api/users/me/feed')).data.items[0]
  t.match(await feed(), { summary: 'A member commented on “Party”', actor_name: null })
  await sql('delete from memberships where user_id = $1', [s.ann.id])
  t.match(await feed(), { summary: 'A former member commented on “Party”', actor_name: null })
  await sql(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at)
      select id, $2, org_id, 'accepted', now() from events where org_id = $1`,
    [s.org.id, s.ann.id],
  )
  t.match(await feed(), { summary: 'A member commented on “Party”' }, 'a guest')
})

t.test('a burst is one item that grows in its place; both halves of a Live Photo are one', async (t) => {
  const s = await scene()
  const image = await s.media(minutes(0))
  await s.media(minutes(0), { kind: 'video', pair: image })
  for (let n = 1; n <= 7; n++) await s.media(minutes(n))
  for (let n = 0; n < 30; n++) await s.event({ at: minutes(n - 20), title: `E${n}`, status: 'draft' })
  await s.consume()
  const burst = async () =>
    (await s.items(s.ann, { limit: '100' })).items.find((i: { count: number | null }) => i.count)
  t.match(await burst(), {
    summary: 'Ann added 8 photos',
    count: 8,
    media: { length: 4 },
    created_at: minutes(0).toISOString(),
  })

  const paged: string[] = []
  let cursor: string | null = null
  const whole = (await s.items(s.ann, { limit: '100' })).items.map(
    (i: { timeline_item_id: string }) => i.timeline_item_id,
  )
  for (let page = 0; page === 0 || cursor; page++) {
    const { items, next_cursor } = await s.items(s.ann, { limit: '5', ...(cursor && { cursor }) })
    paged.push(...items.map((i: { timeline_item_id: string }) => i.timeline_item_id))
    cursor = next_cursor
    await s.media(minutes(20 + page))
    await s.consume(s.events.slice(-1))
  }
  t.strictSame(paged, whole, 'each once, in the same order, while it grew')
  t.ok((await burst()).count > 8)
  await s.media(minutes(6 * 60))
  await s.consume(s.events.slice(-1))
  t.match(
    (await s.items(s.ann)).items[0],
    { summary: 'Ann added a photo', count: 1 },
    'six hours later another one begins',
  )
})

t.test('an album that is shown to others comes to the top of their feeds', async (t) => {
  const s = await scene()
  const album = await s.album({ status: 'DRAFT' })
  const update = (minute: number, version: number, payload: object) => {
    const common = { album_id: album, actor_id: s.ann.id, media_id: null, visibility: 'organization' }
    s.announce('AlbumUpdated', minutes(minute), { ...common, ...payload }, version)
  }
  update(3, 2, { change: 'details', status: 'DRAFT' })
  await s.event({ at: minutes(10) })
  update(20, 3, { change: 'status', status: 'PUBLIC' })
  update(21, 4, { change: 'details', status: 'PUBLIC' })
  update(22, 5, { change: 'status', status: 'DRAFT' })
  update(30, 6, { change: 'details', status: 'PUBLIC', previous_visibility: 'private' })
  update(31, 7, { change: 'details', status: 'DRAFT', previous_visibility: 'private' })
  update(32, 8, {
    change: 'details',
    status: 'PUBLIC',
    visibility: 'participants',
    previous_visibility: 'organization',
  })
  update(33, 9, { change: 'status', status: 'PUBLIC', visibility: 'private' })
  await sql("update albums set status = 'PUBLIC' where id = $1", [album])
  for (const events of [s.events, s.events.toReversed()]) {
    await s.consume(events)
    const { items } = await s.items(s.ben)
    const changes = items.filter(({ type }: { type: string }) => type === 'album_updated')
    t.strictSame(
      changes.map((item: { created_at: string }) => item.created_at),
      [30, 20, 3].map((minute) => minutes(minute).toISOString()),
    )
    t.equal(items[0].summary, 'Ann changed the album “Summer”')
  }
})

t.test('counting ends at ten thousand', async (t) => {
  const s = await scene()
  await sql(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
      conversion_state, created_at) select gen_random_uuid(), $1, $2, 'a', 'image/jpeg', 'image', 1, 'completed',
      'succeeded', $3::timestamptz + n * interval '1 second' from generate_series(1, 10001) n`,
    [s.org.id, s.ann.id, minutes(-59)],
  )
  await rebuildTimeline(database.worker, { orgId: s.org.id })
  t.match((await s.items(s.ben)).items[0], { summary: 'Ann added 10,000+ photos', count: 10_001 })
})

t.test('a page goes on behind items that the reader may not see', async (t) => {
  const s = await scene()
  for (let n = 0; n < 9; n++) await s.event({ at: minutes(n), title: `Draft ${n}`, status: 'draft' })
  await s.consume()
  t.strictSame(
    (await s.items(s.ben, { limit: '2' })).items.map((i: { summary: string }) => i.summary),
    ['Ben joined', 'Ann joined'],
  )
})

t.test('a feed of more organizations than a page has items has each item once, newest first', async (t) => {
  const who = await aPerson(api)
  const all: { id: Uuid; at: string }[] = []
  const insert = async (org: Uuid, at: string, [type, about]: [string, string]): Promise<Uuid> => {
    const id = newUuid()
    await sql(
      `insert into timeline_items (id, org_id, type, actor_id, ref_type, ref_id, at) values ($1, $2, $5, $3, $6, $1, $4)`,
      [id, org, who.id, at, type, about],
    )
    return id
  }
  for (let n = 0; n < 9; n++) {
    const org = await anOrganization(api)
    await join(api, org.id, who.id)
    for (let k = 0; k < 3; k++) {
      const at = minutes(((n * 7 + k * 13) % 10) * 10 + (k === 2 ? 0 : n)).toISOString()
      all.push({ id: await insert(org.id, at, ['event_created', 'event']), at })
    }
    // The newest of each is about what is gone.
    await insert(org.id, minutes(300 + n).toISOString(), ['comment_posted', 'comment'])
  }
  const expected = all
    .toSorted((a, b) => (a.at === b.at ? (a.id < b.id ? 1 : -1) : a.at < b.at ? 1 : -1))
    .map(({ id }) => formatId('timelineItem', id))
  for (const limit of ['1', '4', '100']) {
    const paged: string[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const query: URLSearchParams = new URLSearchParams({ limit, ...(cursor && { cursor }) })
      const { data } = await call(who, 'GET', `/api/users/me/feed?${query}`)
      paged.push(...data.items.map((item: { timeline_item_id: string }) => item.timeline_item_id))
      cursor = data.next_cursor
    }
    t.strictSame(paged, expected, `${limit} at a time`)
  }
})

t.test(
  'a page of a feed reads no more of the index than the newest item of each organization and itself',
  async (t) => {
    const who = await aPerson(api)
    const [organizations, limit] = [40, 26]
    const orgs = Array.from({ length: organizations }, () => newUuid())
    await sql(`insert into organizations (id, name) select id, 'Many' from unnest($1::uuid[]) id`, [orgs])
    await sql(`insert into memberships (org_id, user_id, role) select id, $2, 'member' from unnest($1::uuid[]) id`, [
      orgs,
      who.id,
    ])
    await sql(
      `insert into timeline_items (id, org_id, type, actor_id, ref_type, ref_id, at)
      select gen_random_uuid(), org, 'event_created', $2, 'event', $2, $3::timestamptz - (n * 40 + o) * interval '1 second'
      from unnest($1::uuid[]) with ordinality orgs (org, o), generate_series(1, 50) n`,
      [orgs, who.id, minutes(0)],
    )
    await vacuum(database, 'timeline_items', 'memberships')
    const scan = { source: { of: 'feed' }, callerId: who.id, from: undefined, to: undefined, limit } as const
    for (const after of [undefined, { at: minutes(-20).toISOString(), id: newUuid() }]) {
      const nodes = await planOf(database, { user: who.id }, (tx) => scanItems(tx, { ...scan, after }))
      const reads = nodes.filter((node) => node['Relation Name'] === 'timeline_items')
      t.equal(reads.length, 2)
      t.ok(reads.every((node) => node['Index Name'] === 'timeline_items_of_org' && !node['Rows Removed by Filter']))
      const rows = reads.reduce((sum, node) => sum + node['Actual Rows'] * node['Actual Loops'], 0)
      t.ok(rows <= organizations + 2 * limit, `${rows} rows`)
    }
    // A join is planned for the first caller of a connection, and can compare all versions with all organizations of another.
    const versions = await planOf(database, { user: who.id }, (tx) => findFeedState(tx, { of: 'feed' }))
    t.notOk(versions.some((node) => /Join|Nested Loop/.test(node['Node Type'])))
    const looked = versions.filter((node) => node['Relation Name'] === 'feed_versions')
    t.match(looked, [{ 'Actual Loops': organizations }])
  },
)

t.test('a poll is answered 304 until something changes, of what is seen or of who sees it', async (t) => {
  const s = await scene()
  const { event, comment, reaction, photo } = await everything(s)
  await s.consume()
  // Links and cursors change with the quarter of an hour, and the entity tag of a page with them.
  still = new Date()
  t.teardown(() => {
    still = undefined
  })
  let tag = ''
  const poll = async () => {
    const answer = await call(s.ben, 'GET', '/api/users/me/feed', { headers: tag ? { 'if-none-match': tag } : {} })
    tag = String(answer.headers.get('etag'))
    return answer.status
  }
  t.equal(await poll(), 200)
  t.equal(await poll(), 304)
  const changes: [string, () => Promise<unknown>][] = [
    ['an event', () => s.media(minutes(20)).then(() => s.consume(s.events.slice(-1)))],
    [
      'a deleted comment',
      () => sql('update comments set deleted_at = now(), deleted_by = author_id where id = $1', [comment]),
    ],
    ['a removed reaction', () => sql('delete from reactions where id = $1', [reaction])],
    ['a title', () => sql("update events set title = 'Ball' where id = $1", [event])],
    // As a sign-in does it, with no organization in its scope.
    [
      'a new name',
      () =>
        database.db.inTransaction({}, (tx) =>
          tx.execute(`update users set display_name = 'Anna' where id = '${s.ann.id}'`),
        ),
    ],
    ['a role', () => sql("update memberships set role = 'admin' where user_id = $1", [s.ben.id])],
    [
      'a restore',
      async () => {
        await sql('update media set deleted_at = now() where id = $1', [photo])
        await poll()
        await sql('update media set deleted_at = null where id = $1', [photo])
      },
    ],
    [
      'taking part',
      () =>
        sql(
          "insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())",
          [event, s.ben.id, s.org.id],
        ),
    ],
    [
      'another member who left',
      () =>
        database.db.inTransaction({ org: s.org.id }, (tx) =>
          tx.execute(`delete from memberships where org_id = '${s.org.id}' and user_id = '${s.ann.id}'`),
        ),
    ],
    ['another organization', async () => join(api, (await anOrganization(api)).id, s.ben.id)],
    [
      'an organization left',
      () => sql('delete from memberships where user_id = $1 and org_id = $2', [s.ben.id, s.org.id]),
    ],
  ]
  for (const [what, change] of changes) {
    await change()
    t.equal(await poll(), 200, what)
    t.equal(await poll(), 304)
  }
})

t.test('a transaction moves the version of a feed once, however much it changes', async (t) => {
  const s = await scene()
  const { event } = await everything(s)
  await s.consume()
  const version = async () => Number((await sql('select n from feed_versions where org_id = $1', [s.org.id]))[0]?.['n'])
  const client = await database.admin.connect()
  const inOne = async (...statements: [string, unknown[]][]) => {
    await client.query('begin')
    for (const [text, values] of statements) await client.query(text, values)
    await client.query('commit')
  }
  const join: [string, unknown[]] = [
    "insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())",
    [event, s.ben.id, s.org.id],
  ]
  const leave: [string, unknown[]] = [
    'delete from event_participants where event_id = $1 and user_id = $2',
    [event, s.ben.id],
  ]
  try {
    const before = await version()
    await inOne(join, ["update events set title = 'Ball' where id = $1", [event]], leave)
    t.equal(await version(), before + 1)
    // What a savepoint takes back, it takes back with the setting.
    const immediately: [string, unknown[]] = ['set constraints all immediate', []]
    await inOne(immediately, ['savepoint one', []], join, ['rollback to one', []], join)
    t.equal(await version(), before + 2)
    await inOne(leave)
    t.equal(await version(), before + 3, 'and the next transaction again')
  } finally {
    client.release()
  }
})

t.test('services insert and hide items, once for each key', async (t) => {
  const s = await scene()
  const event = await s.event({ status: 'draft' })
  const item = {
    type: 'event_created',
    actorId: s.ann.id,
    orgId: s.org.id,
    refType: 'event',
    refId: event,
    dedupeKey: 'k',
  } as const
  const insert = (given: Parameters<typeof insertItem>[1]) =>
    database.db.inTransaction({ org: s.org.id }, (tx) => insertItem(tx, given))
  const first = await insert(item)
  t.equal(first.isNew, true)
  t.strictSame(await insert({ ...item, summary: 'again' }), { id: first.id, isNew: false })
  t.strictSame(await s.summaries(s.ben), [], 'of a draft it is for those who see the draft')
  t.strictSame(await s.summaries(s.ann), ['Ann created the event “Party”'])
  const foreign = await scene()
  await t.rejects(insert({ ...item, refId: await foreign.event(), dedupeKey: 'l' }), { code: 'NOT_FOUND' })
  const hide = () => database.db.inTransaction({ org: s.org.id }, (tx) => hideItem(tx, s.org.id, first.id))
  t.equal(await hide(), true)
  t.equal(await hide(), false)
  t.strictSame(await s.summaries(s.ann), [])
  t.equal((await insert(item)).isNew, false, 'a hidden one stays hidden')
  t.ok(formatId('timelineItem', first.id).startsWith('tli_'))
  t.ok(uuidOf('organization', s.org.wireId))
})
