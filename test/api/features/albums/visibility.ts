import t from 'tap'
import { ALBUM_STATUSES, ALBUM_VISIBILITIES } from '../../../../api/db/schema/albums.ts'
import { EVENT_STATUSES } from '../../../../api/db/schema/events.ts'
import { findAlbumWithMedia } from '../../../../api/features/albums/item-queries.ts'
import { albumWorld } from '../../../support/albums.ts'
import { aPerson, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { anEvent } from '../../../support/events.ts'

/** Every status × visibility × state of the event × role: what each way to an album answers. */
const api = await startTestApi(t)
const { people, org, call } = api
const world = albumWorld(api)
const { ALBUMS, sql, orgId } = world
const { owner, admin, member, another, stranger } = people

const memberOf = async () => {
  const person = await aPerson(api)
  await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [orgId, person.id])
  return person
}
const [participant, invited, declined] = [await memberOf(), await memberOf(), await memberOf()]
/** `member` owns the albums, `another` the events. */
const CALLERS: Record<string, Person> = {
  ...{ owner, admin, member, another, participant, invited, declined },
  stranger,
}
const managersOf = (event: unknown) => ['owner', 'admin', 'member', ...(event ? ['another'] : [])]
const publishersOf = (event: unknown) => ['member', ...(event ? ['another'] : [])]
const MEMBERS = [...managersOf({}), 'participant', 'invited', 'declined']
const seenBy = ({ status, visibility, event }: Pick<Case, 'status' | 'visibility' | 'event'>) => {
  if (status !== 'PUBLIC' || visibility === 'private') return managersOf(event)
  return visibility === 'participants' ? [...managersOf(event), 'participant'] : MEMBERS
}

async function anEventOf(status: (typeof EVENT_STATUSES)[number]): Promise<string> {
  const { id, wireId } = await anEvent(api, { org, orgId, owner: another, status })
  for (const [who, state] of [
    [participant, 'accepted'],
    [invited, 'invited'],
    [declined, 'declined'],
  ] as const) {
    await sql(
      `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, $4,
        case when $4 = 'accepted' then now() end)`,
      [id, who.id, orgId, state],
    )
  }
  return wireId
}

interface Case {
  album: string
  media: string
  status: string
  visibility: string
  event: string | undefined
  eventStatus: string | undefined
}
type Tap = Pick<typeof t, 'strictSame' | 'equal'>
const cases: Case[] = []
for (const eventStatus of [undefined, ...EVENT_STATUSES]) {
  for (const status of ALBUM_STATUSES) {
    for (const visibility of ALBUM_VISIBILITIES) {
      if (visibility === 'participants' && !eventStatus) continue
      const event = eventStatus && (await anEventOf(eventStatus))
      const album = await world.anAlbum({ owner: member, status, visibility, eventId: event })
      const media = await world.aMedia()
      await sql(
        `insert into album_media (album_id, media_id, org_id, position, listed, added_by) values ($1, $2, $3, 0, true, $4)`,
        [uuidOf('album', album), uuidOf('media', media), orgId, member.id],
      )
      await sql('update albums set next_position = 1 where id = $1', [uuidOf('album', album)])
      cases.push({ album, media, status, visibility, event, eventStatus })
    }
  }
}
const nameOf = (c: Case) => `${c.status} for ${c.visibility}, ${c.eventStatus ? `${c.eventStatus} event` : 'no event'}`

for (const c of cases) {
  t.test(nameOf(c), async (t) => {
    const seen = seenBy(c)
    for (const [name, who] of Object.entries(CALLERS)) {
      await reads(t, c, name, who, seen.includes(name))
      await writes(t, c, name, who, seen.includes(name))
    }
  })
}

async function reads(t: Tap, c: Case, name: string, who: Person, sees: boolean) {
  const items = await call(who, 'GET', `${ALBUMS}/${c.album}/media`)
  t.equal(items.status, sees ? 200 : 404, `${name}: media`)
  const { status, data } = await call(who, 'GET', `${ALBUMS}/${c.album}`)
  t.strictSame([status, data?.event_id], sees ? [200, eventIdFor(c, name)] : [404, undefined], `${name}: details`)
  if (c.event) await viaEvent(t, c, name, who, sees)
}

const readOnlyCode = ({ eventStatus, status }: Case) => {
  if (eventStatus === 'archived') return 'EVENT_ARCHIVED'
  return status === 'ARCHIVE' ? 'ALBUM_ARCHIVED' : undefined
}

/** In no album yet. */
let spare = await world.aMedia()

async function writes(t: Tap, c: Case, name: string, who: Person, sees: boolean) {
  const manages = managersOf(c.event).includes(name)
  const changed = await world.change(c.album, { description: name }, who)
  if (manages && !readOnlyCode(c)) {
    t.equal(changed.data.event_id, eventIdFor(c, name), `${name}: the event of a change`)
  }
  t.equal(changed.code ?? changed.status, manages ? (readOnlyCode(c) ?? 200) : 'NOT_FOUND', `${name}: change`)
  const joins = sees && name === 'participant' && ['active', 'archived'].includes(c.eventStatus ?? '')
  const added = await world.add(c.album, spare, who)
  if (added.status === 201) spare = await world.aMedia()
  t.equal(added.code ?? added.status, manages || joins ? (readOnlyCode(c) ?? 201) : 'NOT_FOUND', `${name}: add`)
  const set = await world.setStatus(c.album, c.status, who)
  const refusal = name === 'stranger' ? 'NOT_FOUND' : 'FORBIDDEN'
  t.equal(set.code ?? set.status, publishersOf(c.event).includes(name) ? 200 : refusal, `${name}: status`)
}

/** `another` owns the events. */
const seesEvent = ({ eventStatus }: Case, name: string) =>
  eventStatus === 'draft' ? ['owner', 'admin', 'another'].includes(name) : name !== 'stranger'

const eventIdFor = (c: Case, name: string) => (seesEvent(c, name) ? (c.event ?? null) : null)

async function viaEvent(t: Tap, c: Case, name: string, who: Person, sees: boolean) {
  const PATH = `/api/orgs/${org}/events/${c.event}`
  const both = sees && seesEvent(c, name)
  const album = await call(who, 'GET', `${PATH}/album`)
  t.strictSame([album.status, album.data?.album_id], both ? [200, c.album] : [404, undefined], `${name}: by the event`)
  const event = await call(who, 'GET', PATH)
  t.strictSame(event.data?.album_id, seesEvent(c, name) ? (sees ? c.album : null) : undefined, `${name}: in the event`)
}

t.test('the host of an event manages the album that another member made of it', async (t) => {
  const event = await anEventOf('active')
  const made = await call(member, 'POST', ALBUMS, { json: { title: 'Mine', event_id: event } })
  t.equal(made.status, 201)
  const album = made.data.album_id
  const shown = await call(another, 'GET', `/api/orgs/${org}/events/${event}/album`)
  t.strictSame(shown.data.can, [
    'album.add_media',
    'album.read',
    'album.set_status',
    'album.update',
    'highlight.create_in_album',
  ])
  t.equal((await world.change(album, { title: 'Wedding' }, another)).data.title, 'Wedding')
  t.equal((await world.setStatus(album, 'PUBLIC', another)).status, 200)
  t.equal((await world.setStatus(album, 'DRAFT', admin)).status, 403, 'administrators do not')
  const listed = async () => (await call(another, 'GET', ALBUMS)).data.albums[0].album_id
  t.equal(await listed(), album)
  await sql('delete from event_participants where event_id = $1 and user_id = $2', [uuidOf('event', event), another.id])
  t.equal(await listed(), album, 'also without taking part in it')
  await sql('delete from albums where id = $1', [uuidOf('album', album)])
})

t.test('lists have what the details show, page by page', async (t) => {
  for (const [name, who] of Object.entries(CALLERS)) {
    if (name === 'stranger') continue
    const listed: object[] = []
    let cursor = ''
    do {
      const { status, data } = await call(who, 'GET', `${ALBUMS}?limit=4${cursor && `&cursor=${cursor}`}`)
      t.equal(status, 200)
      listed.push(...data.albums.map(({ album_id, event_id }: Record<string, unknown>) => ({ album_id, event_id })))
      cursor = data.next_cursor ?? ''
    } while (cursor)
    const expected = cases
      .filter((c) => seenBy(c).includes(name))
      .map((c) => ({ album_id: c.album, event_id: eventIdFor(c, name) }))
    t.strictSame(listed, expected.toReversed(), name)
  }
})

t.test('lists of events name the albums that the caller sees', async (t) => {
  for (const [name, who] of Object.entries(CALLERS)) {
    if (name === 'stranger') continue
    const { data } = await call(who, 'GET', `/api/orgs/${org}/events?limit=100`)
    for (const event of data.events) {
      const c = cases.find(({ event: id }) => id === event.event_id)
      const sees = c && seenBy(c).includes(name)
      t.equal(event.album_id, sees ? c.album : null, `${name}: ${c && nameOf(c)}`)
    }
    t.equal(data.events.length > 0, true)
  }
})

t.test('what is in the album of an event, and who asks', async (t) => {
  const c = cases.find(({ status, visibility, event }) => status === 'PUBLIC' && visibility === 'participants' && event)
  if (!c?.event) throw new Error('no such case')
  const eventId = uuidOf('event', c.event)
  const find = (media: string, who: Person, event = eventId) =>
    api.database.db.read({ org: orgId }, (tx) =>
      findAlbumWithMedia(tx, { orgId, eventId: event, mediaId: uuidOf('media', media), callerId: who.id }),
    )
  t.match(await find(c.media, participant), { id: uuidOf('album', c.album), isParticipant: true })
  t.match(await find(c.media, invited), { isParticipant: false })
  t.equal(await find(await world.aMedia(), participant), undefined, 'not in the album')
  t.equal(await find(c.media, participant, uuidOf('event', await anEventOf('active'))), undefined, 'another event')
  await world.deleteMedia(c.media)
  t.equal(await find(c.media, participant), undefined, 'deleted')
})
