import t from 'tap'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { aPerson, type Person, startTestApi, uuidOf } from '../../../support/api.ts'

const api = await startTestApi(t)
const { people, org, call, database } = api
const { owner, admin, member, another, stranger } = people
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)

const GIVEN = { title: 'Reunion', start_at: '2027-05-08T18:00:00+02:00' }
const ALL = {
  ...GIVEN,
  description: 'Thirty years after',
  end_at: '2027-05-08T22:00:00Z',
  location_name: 'Tokyo Tower',
  location_geo: [35.6586, 139.7454],
}
const events = (of = org) => `/api/orgs/${of}/events`
const at = (id: string) => `${events()}/${id}`
const create = async (json: object = GIVEN, who: Person = member) =>
  (await call(who, 'POST', events(), { json })).data.event_id as string
const show = (who: Person, id: string) => call(who, 'GET', at(id))
const change = (who: Person, id: string, json: object) => call(who, 'PUT', at(id), { json })
const activate = (who: Person, id: string) => call(who, 'POST', `${at(id)}/activate`)
const archive = (who: Person, id: string) => call(who, 'POST', `${at(id)}/archive`)
const participants = (who: Person, id: string) => call(who, 'GET', `${at(id)}/participants`)

const published = (id: string) =>
  sql('select type, aggregate_version as version, payload from outbox where aggregate_id = $1 order by 2', [
    uuidOf('event', id),
  ])
const audited = async (id: string) =>
  (
    await sql('select action, actor_id, details from audit_log where resource_id = $1 and result = $2 order by id', [
      uuidOf('event', id),
      'success',
    ])
  ).map(({ action, actor_id, details }) => [action, actor_id, details])
const takesPart = (id: string, user: Person, status: string) =>
  sql(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at)
     values ($1, $2, $3, $4, case when $4 = 'accepted' then now() end)`,
    [uuidOf('event', id), user.id, uuidOf('organization', org), status],
  )

t.test('an event is shown at the time that was given, in the first and in the last year', async (t) => {
  for (const start_at of ['1000-01-01T00:00:00.000Z', '9999-12-31T23:59:59.999Z']) {
    const id = await create({ ...GIVEN, start_at })
    t.equal((await show(member, id)).data.start_at, start_at)
  }
})

t.test('a new event is a draft that shows what was given, its owner takes part', async (t) => {
  await sql(`update users set display_name = 'Mem' where id = $1`, [member.id])
  const { status, data } = await call(member, 'POST', events(), { json: ALL })
  t.equal(status, 201)
  t.match(data, {
    ...ALL,
    event_id: /^evt_/,
    org_id: org,
    owner_id: member.wireId,
    host_name: 'Mem',
    start_at: '2027-05-08T16:00:00.000Z',
    end_at: '2027-05-08T22:00:00.000Z',
    status: 'draft',
    activated_at: null,
    archived_at: null,
    participant_count: 1,
    my_participation: 'accepted',
    my_invitation_id: null,
    album_id: null,
    reaction_counts: { '❤️': 0, '😂': 0, '🎉': 0, '😢': 0, '👏': 0, '🔥': 0 },
  })
  t.strictSame((await show(member, data.event_id)).data, data)
  t.match(await participants(member, data.event_id), {
    data: {
      participants: [{ user_id: member.wireId, display_name: 'Mem', status: 'accepted', joined_at: data.created_at }],
      total: 1,
      has_more: false,
    },
  })
  t.strictSame(await published(data.event_id), [
    {
      type: 'EventCreated',
      version: 1,
      payload: { event_id: data.event_id, org_id: org, owner_id: member.wireId, title: 'Reunion' },
    },
  ])
  t.strictSame(await audited(data.event_id), [['EVENT_CREATE', member.id, {}]])
})

t.test('what is left out is null', async (t) => {
  const { data } = await show(member, await create())
  t.match(data, { description: null, end_at: null, location_name: null, location_geo: null })
})

t.test('zero is a coordinate', async (t) => {
  const { data } = await show(member, await create({ ...GIVEN, location_geo: [0, 0] }))
  t.strictSame(data.location_geo, [0, 0])
})

t.test('from draft to archive, each step once however often it is asked for', async (t) => {
  const id = await create()
  t.match(await archive(member, id), { status: 422, code: 'INVALID_STATE_TRANSITION' })
  const active = await activate(member, id)
  t.match(active, { status: 200, data: { status: 'active', activated_at: /Z$/, archived_at: null } })
  const again = await activate(admin, id)
  t.strictSame([again.status, again.data], [200, { ...active.data, my_participation: null }])
  const archived = await archive(member, id)
  t.match(archived, { status: 200, data: { status: 'archived', activated_at: active.data.activated_at } })
  t.match(archived.data.archived_at, /Z$/)
  t.strictSame((await archive(member, id)).data, archived.data)
  t.match(await activate(member, id), { status: 422, code: 'INVALID_STATE_TRANSITION' })
  const ids = { event_id: id, org_id: org }
  t.strictSame((await published(id)).slice(1), [
    {
      type: 'EventActivated',
      version: 2,
      payload: {
        ...ids,
        owner_id: member.wireId,
        actor_id: member.wireId,
        title: 'Reunion',
        activated_at: active.data.activated_at,
      },
    },
    {
      type: 'EventArchived',
      version: 3,
      payload: { ...ids, actor_id: member.wireId, archived_at: archived.data.archived_at },
    },
  ])
  t.strictSame(await audited(id), [
    ['EVENT_CREATE', member.id, {}],
    ['EVENT_ACTIVATE', member.id, {}],
    ['EVENT_ARCHIVE', member.id, {}],
  ])
})

t.test('a change sets what it names, clears what it makes null, and leaves the rest', async (t) => {
  const id = await create(ALL)
  const { data: before } = await show(member, id)
  const { status, data } = await change(member, id, {
    title: ' New ',
    description: null,
    location_geo: null,
    colour: 1,
  })
  t.equal(status, 200)
  t.strictSame(data, {
    ...before,
    title: 'New',
    description: null,
    location_geo: null,
    updated_at: data.updated_at,
  })
  t.ok(data.updated_at > before.updated_at)
  t.match(await change(member, id, { location_geo: [-33.8568, 151.2153] }), {
    data: { title: 'New', location_geo: [-33.8568, 151.2153], location_name: 'Tokyo Tower' },
  })
  await activate(member, id)
  t.match(await change(owner, id, { location_name: null }), { status: 200, data: { location_name: null } })
  t.strictSame(
    (await audited(id)).filter(([action]) => action === 'EVENT_ACTION').map(([, by, details]) => [by, details.fields]),
    [
      [member.id, 'title,description,location_geo'],
      [member.id, 'location_geo'],
      [owner.id, 'location_name'],
    ],
  )
})

t.test('a change that names nothing, or times that do not fit those of the event, is refused whole', async (t) => {
  const id = await create(ALL)
  const { data: before } = await show(member, id)
  const refused: [json: object, field: string][] = [
    [{}, 'body'],
    [{ colour: 'red' }, 'body'],
    [{ status: 'archived' }, 'body'],
    [{ title: null }, 'body.title'],
    [{ title: 'New', start_at: '2027-05-08T22:00:00.001Z' }, 'body.start_at'],
    [{ title: 'New', end_at: '2027-05-08T15:59:59Z' }, 'body.end_at'],
    [{ start_at: '2028-01-02T00:00:00Z', end_at: '2028-01-01T00:00:00Z' }, 'body.end_at'],
    [{ location_geo: [139.7454, 35.6586] }, 'body.location_geo.0'],
  ]
  for (const [json, field] of refused) {
    const { status, code, body } = await change(member, id, json)
    t.strictSame([status, code, body.error.details?.[0]?.field], [400, 'VALIDATION_ERROR', field])
  }
  t.strictSame((await show(member, id)).data, before)
  t.match(await change(member, id, { start_at: '2028-01-01T00:00:00Z', end_at: null }), { data: { end_at: null } })
})

t.test('an archived event is read-only, and still shown', async (t) => {
  const id = await create()
  await activate(member, id)
  const { data } = await archive(member, id)
  for (const who of [member, admin, owner])
    t.match(await change(who, id, { title: 'New' }), { status: 422, code: 'EVENT_ARCHIVED' })
  t.equal((await change(another, id, { title: 'New' })).status, 404, 'who may not change it learns nothing')
  t.strictSame((await show(another, id)).data, {
    ...data,
    my_participation: null,
    can: ['comment.read', 'event.read'],
  })
  t.equal((await participants(another, id)).data.total, 1)
})

/** Each row: the state, and who may see and manage the event of a member in it. */
const MAY: { state: string; see: Person[]; manage: Person[] }[] = [
  { state: 'draft', see: [member, admin, owner], manage: [member, admin, owner] },
  { state: 'active', see: [member, admin, owner, another], manage: [member, admin, owner] },
  { state: 'archived', see: [member, admin, owner, another], manage: [member, admin, owner] },
]
for (const { state, see, manage } of MAY) {
  t.test(`who sees and who manages an event that is ${state}`, async (t) => {
    const id = await create()
    await sql(`update events set status = $2 where id = $1`, [uuidOf('event', id), state])
    for (const who of [member, admin, owner, another, stranger]) {
      const seen = see.includes(who) ? 200 : 404
      t.strictSame([(await show(who, id)).status, (await participants(who, id)).status], [seen, seen])
      const { body } = await call(who, 'GET', `${events()}?limit=100`)
      const listed = body.data?.events.some((e: { event_id: string }) => e.event_id === id) ?? false
      t.equal(listed, see.includes(who))
      // The last decides in every state, and a request that may act is never 404.
      const answers = [await change(who, id, { title: 'X' }), await archive(who, id), await activate(who, id)]
      for (const { status } of answers) t.equal(status === 404, !manage.includes(who))
      await sql(`update events set status = $2 where id = $1`, [uuidOf('event', id), state])
    }
  })
}

t.test('an invited user of another organization is listed without a name', async (t) => {
  await sql(`update users set display_name = 'Known only elsewhere' where id = $1`, [stranger.id])
  const id = await create()
  await takesPart(id, stranger, 'invited')
  const { data } = await participants(member, id)
  const invited = data.participants.find((p: { user_id: string }) => p.user_id === stranger.wireId)
  t.match(invited, { display_name: null, status: 'invited' })
  t.notMatch(JSON.stringify((await show(member, id)).data), /Known only elsewhere/)
})

t.test('those who have accepted are counted, and everybody sees their own answer', async (t) => {
  const id = await create()
  await activate(member, id)
  await takesPart(id, another, 'invited')
  await takesPart(id, admin, 'declined')
  const seen = async (who: Person) => {
    const { data } = await show(who, id)
    const { data: list } = await call(who, 'GET', `${events()}?limit=100`)
    const item = list.events.find((e: { event_id: string }) => e.event_id === id)
    const { can: _, ...shown } = data
    t.strictSame(item, shown, 'the list shows the same')
    return [data.participant_count, data.my_participation]
  }
  t.strictSame(await seen(member), [1, 'accepted'])
  t.strictSame(await seen(another), [1, 'invited'])
  t.strictSame(await seen(admin), [1, 'declined'])
  t.strictSame(await seen(owner), [1, null])
  await sql(`update event_participants set status = 'accepted', joined_at = now() where user_id = $1`, [another.id])
  t.strictSame(await seen(another), [2, 'accepted'])
  const { data } = await participants(owner, id)
  t.equal(data.total, 3)
  t.strictSame(
    Object.fromEntries(
      data.participants.map((p: { user_id: string; status: string; joined_at: string | null }) => [
        p.user_id,
        [p.status, p.joined_at !== null],
      ]),
    ),
    {
      [member.wireId]: ['accepted', true],
      [another.wireId]: ['accepted', true],
      [admin.wireId]: ['declined', false],
    },
  )
})

const orgId = uuidOf('organization', org)
const joins = (user: Uuid, to = orgId) =>
  sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [to, user])
const leaves = (user: Uuid) => sql('delete from memberships where org_id = $1 and user_id = $2', [orgId, user])

t.test('a member who leaves the organization no longer takes part in any of its events', async (t) => {
  const leaver = await aPerson(api)
  await joins(leaver.id)
  await sql(`update users set display_name = 'Lea' where id = $1`, [leaver.id])
  const own = await create(GIVEN, leaver)
  t.match(await activate(leaver, own), { data: { host_name: 'Lea' } })
  const invited = await create()
  await takesPart(invited, leaver, 'invited')
  const elsewhere = uuidOf('organization', api.otherOrg)
  await joins(leaver.id, elsewhere)
  const { data: there } = await call(leaver, 'POST', events(api.otherOrg), { json: GIVEN })
  await leaves(leaver.id)
  const left = { participant_count: 0, owner_id: leaver.wireId, host_name: null, status: 'active' }
  t.match(await show(member, own), { data: left })
  t.equal((await participants(member, own)).data.total, 0)
  t.equal((await participants(member, invited)).data.total, 1)
  for (const answer of [await show(leaver, own), await change(leaver, own, { title: 'X' })]) t.equal(answer.status, 404)
  t.equal((await call(leaver, 'GET', `${events(api.otherOrg)}/${there.event_id}`)).data.participant_count, 1)
  await joins(leaver.id)
  t.match(await show(leaver, own), { data: { participant_count: 0, my_participation: null } }, 'a new start')
})

t.test('all of a change is one transaction: without its last row there is nothing of it', async (t) => {
  await sql(`create function refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$`)
  await sql(`create trigger refuse before insert on audit_log for each row
    when (new.action like 'EVENT_%') execute function refuse()`)
  const id = newUuid()
  const table = async () => [
    await sql('select * from events order by id'),
    await sql('select * from event_participants order by event_id, user_id'),
    await sql('select id from outbox order by id'),
  ]
  await sql(`insert into events (id, org_id, owner_id, title, start_at) values ($1, $2, $3, 'A', now())`, [
    id,
    orgId,
    member.id,
  ])
  const steps: [what: string, status: string, ask: () => ReturnType<typeof call>][] = [
    ['create', 'draft', () => call(member, 'POST', events(), { json: GIVEN })],
    ['change', 'draft', () => change(member, id, { title: 'B' })],
    ['activate', 'draft', () => activate(member, id)],
    ['archive', 'active', () => archive(member, id)],
  ]
  for (const [what, status, ask] of steps) {
    await sql('update events set status = $2 where id = $1', [id, status])
    const before = await table()
    t.equal((await ask()).status, 500, what)
    t.strictSame(await table(), before, what)
  }
  await sql('drop trigger refuse on audit_log')
  for (const [what, status, ask] of steps) {
    await sql('update events set status = $2 where id = $1', [id, status])
    t.ok((await ask()).status < 300, `${what}, again`)
  }
})
