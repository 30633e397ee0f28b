import t from 'tap'
import { holdAttachedMedia } from '../../../../api/features/events/deletion-queries.ts'
import { type Answer, aPerson, startTestApi, uuidOf } from '../../../support/api.ts'
import { idIn, threadsIn } from '../../../support/comments.ts'
import type { MadeEvent } from '../../../support/events.ts'
import { eventually } from '../../../support/eventually.ts'
import { planOf, vacuum } from '../../../support/explain.ts'
import { highlightWorld } from '../../../support/highlights.ts'
import { inTurn, waitingIn } from '../../../support/in-turn.ts'
import { invitationWorld } from '../../../support/invitations.ts'
import { aMember } from '../../../support/organizations.ts'

const api = await startTestApi(t)
const { people, org, call, database } = api
const { owner, admin, member, another, stranger } = people
const world = highlightWorld(api)
const { sql, orgId, anAlbum, aMedia, add, createInAlbum } = world
const { event, at, posted, post, react } = threadsIn(api, { org, orgId, owner: member })
const invitations = invitationWorld(api)
const path = ({ wireId }: MadeEvent) => `/api/orgs/${org}/events/${wireId}`
const remove = (party: MadeEvent, who = member) => call(who, 'DELETE', path(party))
const code = ({ status, code }: Answer) => code ?? status
const TABLES = ['comments', 'comment_media', 'reactions', 'invitations', 'event_participants', 'albums'] as const
const left = async ({ id }: MadeEvent) => {
  const counts = TABLES.map(async (table) => {
    const [row] = await sql(`select count(*)::int as n from ${table} where event_id = $1`, [id])
    return [table, row?.n] as const
  })
  return Object.fromEntries(await Promise.all(counts))
}

/** A draft with something of everything that belongs to an event. */
async function aDraft() {
  const party = await event('draft')
  const album = await anAlbum({ owner: member, eventId: party.wireId })
  const media = [await aMedia(), await aMedia()]
  for (const id of media) await add(album, id)
  const highlight = (await createInAlbum(album, { media_ids: media }, admin)).data.highlight_id
  const comment = await posted(member, at(party), { body: 'x', media_ids: [await aMedia()], mentions: [admin.wireId] })
  await posted(admin, at(party, 'comment', idIn(comment)))
  await react(admin, party, '🎉')
  await react(owner, party, '🎉', 'comment', idIn(comment))
  const guest = await aPerson(api)
  const invited = await invitations.invite(party, { uuid: guest.wireId })
  await invitations.invite(party)
  return { party, album, media, highlight, comment, guest, invited }
}

t.test('a draft goes with all that belongs to it; media items and highlights stay', async (t) => {
  const { party, album, media, highlight, comment, guest, invited } = await aDraft()
  t.ok(Object.values(await left(party)).every((n) => n > 0))
  const [{ version } = { version: 0 }] = await sql('select version from events where id = $1', [party.id])
  const removed = await remove(party)
  t.strictSame([removed.status, removed.body.length], [204, 0])
  t.strictSame(await left(party), Object.fromEntries(TABLES.map((table) => [table, 0])))
  for (const answer of [
    await remove(party),
    await call(member, 'GET', path(party)),
    await call(member, 'GET', `/api/orgs/${org}/albums/${album}`),
    await call(member, 'GET', comment),
    await call(undefined, 'GET', `/api/invitations/by-slug/${invited.slug}`),
    await invitations.respond(guest, invited, { token: invited.token }),
    await invitations.reissue(member, invited),
  ]) {
    t.equal(code(answer), 'NOT_FOUND')
  }
  for (const id of media) t.equal((await call(another, 'GET', `/api/media/${org}/${id}`)).status, 200)
  t.match((await world.get(highlight, admin)).data, { album_id: null, media_ids: media })
  const told = async (type: string, id: string) =>
    sql(`select payload, aggregate_version as version from outbox where type = $1 and aggregate_id = $2`, [type, id])
  const common = { org_id: org, event_id: party.wireId, actor_id: member.wireId }
  t.strictSame(await told('EventDeleted', party.id), [{ payload: common, version: version + 1 }])
  t.match(await told('AlbumDeleted', uuidOf('album', album)), [{ payload: { ...common, album_id: album } }])
  t.match((await world.audited(album)).at(-1), { action: 'ALBUM_ACTION', operation: 'delete' })
  const entries = await sql(
    `select action, details from audit_log where resource_id = $1 and details->>'operation' = 'delete'`,
    [party.id],
  )
  t.strictSame(entries, [{ action: 'EVENT_ACTION', details: { operation: 'delete' } }])
})

t.test('its owner and the administrators delete a draft', async (t) => {
  for (const who of [member, owner, admin]) {
    const party = await event('draft')
    for (const other of [another, stranger, people.platformAdmin])
      t.equal(code(await remove(party, other)), 'NOT_FOUND')
    t.equal((await remove(party, who)).status, 204)
  }
})

t.test('an event that was active stays, and so does a draft with an archived album', async (t) => {
  for (const [status, refusal] of [
    ['active', 'INVALID_STATE_TRANSITION'],
    ['archived', 'EVENT_ARCHIVED'],
  ] as const) {
    const party = await event(status)
    t.equal(code(await remove(party)), refusal)
    t.equal(code(await remove(party, another)), 'NOT_FOUND')
    t.equal((await call(member, 'GET', path(party))).status, 200)
  }
  const { party, album } = await aDraft()
  const before = await left(party)
  await world.setStatus(album, 'ARCHIVE')
  t.equal(code(await remove(party)), 'ALBUM_ARCHIVED')
  t.strictSame(await left(party), before)
})

const rowOf = ({ id }: MadeEvent) => ({ text: 'select from events where id = $1 for update', values: [id] })
type Draft = Awaited<ReturnType<typeof aDraft>>
const CHANGES: [what: string, status: number, act: (draft: Draft) => Promise<Answer>][] = [
  ['another title', 200, ({ party }) => call(member, 'PUT', path(party), { json: { title: 'Late' } })],
  ['an invitation', 201, ({ party }) => invitations.tryInvite(party)],
  ['a reissue', 200, ({ invited }) => invitations.reissue(member, invited)],
  ['a comment', 201, ({ party }) => post(admin, at(party))],
  ['a reaction', 201, ({ party }) => react(member, party, '🎉')],
  ['a deletion of a comment', 204, ({ comment }) => call(member, 'DELETE', comment)],
  ['an addition to its album', 201, async ({ album }) => add(album, await aMedia())],
  ['a deletion', 204, ({ party }) => remove(party, admin)],
]
for (const [what, status, act] of CHANGES) {
  t.test(`${what} that waits for the deletion finds no event`, async (t) => {
    const draft = await aDraft()
    const late = await inTurn(
      database,
      rowOf(draft.party),
      () => remove(draft.party),
      () => act(draft),
    )
    t.strictSame(late.map(code), [204, 'NOT_FOUND'])
    const other = await aDraft()
    const [first, last] = await inTurn(
      database,
      rowOf(other.party),
      () => act(other),
      () => remove(other.party),
    )
    t.strictSame([first?.status, last?.status], [status, what === 'a deletion' ? 404 : 204])
    t.strictSame(await left(other.party), Object.fromEntries(TABLES.map((table) => [table, 0])))
  })
}

t.test('a draft goes while media items of its comments are purged: neither waits for the other in turn', async (t) => {
  const party = await event('draft')
  const [first, second] = [await aMedia(), await aMedia()]
  for (const id of [second, first]) await posted(member, at(party), { body: 'x', media_ids: [id] })
  const purge = await database.admin.connect()
  t.teardown(() => purge.release())
  const purged = (id: string) => purge.query('delete from media where id = $1', [uuidOf('media', id)])
  await purge.query('begin')
  const both = [first, second].map((id) => uuidOf('media', id))
  await purge.query('select from media where id = any($1) order by id for update', [both])
  await purged(first)
  const answer = remove(party)
  await eventually('the deletion to wait', async () => (await waitingIn(database)) === 1)
  await purged(second)
  await purge.query('commit')
  t.equal((await answer).status, 204)
  t.match(await left(party), { comments: 0, comment_media: 0 })
})

t.test('a deletion reads no comments of other events', async (t) => {
  const party = await event('draft')
  await sql(
    `with others as (
      insert into events select (jsonb_populate_record(e, jsonb_build_object('id', gen_random_uuid()))).*
        from events e, generate_series(1, 100) where e.id = $1 returning id),
      said as (insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body)
        select gen_random_uuid(), $2, id, 'meta', id, 'event', $3, '' from others, generate_series(1, 50)
        returning id, event_id)
      insert into comment_media select id, 0, $2, event_id, $4 from said`,
    [party.id, orgId, member.id, uuidOf('media', await aMedia())],
  )
  await vacuum(database, 'comments', 'comment_media')
  const plan = await planOf(database, orgId, (tx) => holdAttachedMedia(tx, party.id))
  const of = (name: string) => plan.filter((node) => Object.values(node).includes(name))
  t.match(of('comments_of_event'), [{ 'Actual Rows': 0 }])
  for (const node of of('comments')) t.match(node, { 'Actual Rows': 0, 'Rows Removed by Filter': 0 })
})

t.test('of an activation and a deletion the first counts', async (t) => {
  const activate = (party: MadeEvent) => call(member, 'POST', `${path(party)}/activate`)
  const [one, other] = [await event('draft'), await event('draft')]
  const first = [() => activate(one), () => remove(one)]
  t.strictSame((await inTurn(database, rowOf(one), ...first)).map(code), [200, 'INVALID_STATE_TRANSITION'])
  const second = [() => remove(other), () => activate(other)]
  t.strictSame((await inTurn(database, rowOf(other), ...second)).map(code), [204, 'NOT_FOUND'])
})

t.test('an album that waits for the deletion of its event is not made', async (t) => {
  const party = await event('draft')
  const create = () => call(member, 'POST', `/api/orgs/${org}/albums`, { json: { title: 'x', event_id: party.wireId } })
  const answers = await inTurn(database, rowOf(party), () => remove(party), create)
  t.strictSame(answers.map(code), [204, 'NOT_FOUND'])
  t.match(answers[1]?.body.error.details, [{ field: 'body.event_id' }])
})

t.test('drafts go while those who are invited to them leave: none waits for another in turn', async (t) => {
  const guests = await Promise.all(Array.from({ length: 4 }, () => aMember(api, orgId)))
  const drafts = await Promise.all(Array.from({ length: 4 }, () => event('draft')))
  for (const party of drafts) for (const guest of guests) await invitations.invite(party, { uuid: guest.wireId })
  const answers = await Promise.all([
    ...drafts.map((party) => remove(party)),
    ...guests.map((guest) => call(guest, 'DELETE', `/api/organizations/${org}/members/me`)),
    ...drafts.map((party) => remove(party, admin)),
  ])
  for (const { status } of answers) t.ok([204, 404].includes(status), `${status}`)
  for (const party of drafts) t.match(await left(party), { invitations: 0, event_participants: 0 })
})
