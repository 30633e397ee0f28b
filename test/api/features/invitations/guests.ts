import t from 'tap'
import type { Tx } from '../../../../api/db/db.ts'
import type { NotificationRow } from '../../../../api/db/schema/notifications.ts'
import { carryOut } from '../../../../api/features/erasure/saga.ts'
import type { EventOfParticipant } from '../../../../api/features/events/queries.ts'
import { listEventsOfParticipant } from '../../../../api/features/events/queries.ts'
import { gather } from '../../../../api/features/notifications/gather.ts'
import { findNameAt } from '../../../../api/features/notifications/queries.ts'
import { addHold, releaseHold } from '../../../../api/features/retention/holds.ts'
import { ERASE_STEPS } from '../../../../api/features.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { albumWorld } from '../../../support/albums.ts'
import { type Answer, aPerson, type Person, pathOf, startApiOn, startTestApi, uuidOf } from '../../../support/api.ts'
import { ask } from '../../../support/ask.ts'
import { threadsIn } from '../../../support/comments.ts'
import { testCluster } from '../../../support/conversion-world.ts'
import { eraseDeps } from '../../../support/erasure.ts'
import type { MadeEvent } from '../../../support/events.ts'
import { insertMany, vacuum } from '../../../support/explain.ts'
import { inTurn } from '../../../support/in-turn.ts'
import { invitationWorld } from '../../../support/invitations.ts'
import { aMember } from '../../../support/organizations.ts'

/** What guests of an event, participants who are no members, see and do. What they do not see: test/api/nothing-foreign.ts. */
const api = await startTestApi(t, { settings: { JOIN_ORG_ON_ACCEPT: 'false' } })
const { call, database, people, org } = api
const { member, another } = people
const world = invitationWorld(api)
const albums = albumWorld(api)
const { orgId } = world
const threads = threadsIn(api, { org, orgId, owner: member })

async function aGuest(at: MadeEvent): Promise<Person> {
  const guest = await aPerson(api)
  await database.admin.query('update users set display_name = $2 where id = $1', [guest.id, 'Gus'])
  const made = await world.invite(at, { uuid: guest.wireId })
  const { status, data } = await world.respond(guest, made, {})
  t.match([status, data], [200, { event_id: at.wireId, org_id: org, status: 'accepted' }])
  return guest
}
const inEvent = (at: MadeEvent, below = '') => `/api/orgs/${org}/events/${at.wireId}${below}`
const removeBy = (as: Person, at: MadeEvent, who: Person) =>
  call(as, 'DELETE', inEvent(at, `/participants/${who.wireId}`))
const removeFrom = (at: MadeEvent, who: Person) => removeBy(member, at, who)

t.test('a guest comments and reacts, and loses all of it at the next request after the end', async (t) => {
  const at = await world.event()
  const guest = await aGuest(at)
  const path = threads.at(at)
  const mine = await threads.posted(guest, path, { body: 'Hello' })
  const theirs = await threads.posted(another, path, { body: 'Welcome' })
  t.match((await call(guest, 'GET', mine)).data, {
    author_name: 'Gus',
    can: ['comment.delete', 'comment.edit'],
  })
  t.match((await call(another, 'GET', mine)).data, { author_name: 'Gus', can: [] })
  await database.admin.query(
    `insert into timeline_items (id, org_id, type, actor_id, ref_type, ref_id, at, event_id)
      values (gen_random_uuid(), $1, 'comment_posted', $2, 'comment', $3, now(), $4)`,
    [orgId, guest.id, uuidOf('comment', mine.split('/').at(-1) ?? ''), at.id],
  )
  const summary = async () => (await call(another, 'GET', `/api/orgs/${org}/timeline?limit=1`)).data.items[0].summary
  t.match(await summary(), /^Gus commented/)
  t.strictSame((await call(guest, 'GET', theirs)).data.can, [])
  t.equal((await call(guest, 'PATCH', mine, { json: { body: 'Hello all' } })).status, 200)
  t.equal((await call(guest, 'DELETE', theirs, { json: {} })).status, 404, 'of others')
  t.equal((await threads.react(guest, at, '🎉')).status, 201)
  const replied = await threads.react(guest, at, '🔥', 'comment', theirs.split('/').at(-1))
  t.equal(replied.status, 201)
  const unreact = inEvent(at, `/reactions/comment/${replied.data.reaction_id}`)
  t.equal((await call(guest, 'DELETE', unreact)).status, 204)

  const headers = { 'idempotency-key': newUuid() }
  const post = () => call(guest, 'POST', path, { json: { body: 'Once' }, headers })
  t.strictSame([(await post()).status, (await post()).status], [201, 201], 'a repeat gets the answer')
  await world.setStatus(at, 'archived')
  t.equal((await threads.post(guest, path)).code, 'EVENT_ARCHIVED')
  t.equal((await call(guest, 'PATCH', mine, { json: { body: 'Late' } })).code, 'EVENT_ARCHIVED')
  t.equal((await call(guest, 'GET', path)).status, 200)
  await world.setStatus(at, 'active')

  t.equal((await removeFrom(at, guest)).status, 204)
  t.equal((await post()).status, 404, 'nor an answer that was stored')
  for (const [method, of, json] of [
    ['GET', path],
    ['GET', mine],
    ['POST', path, { body: 'Again' }],
    ['PATCH', mine, { body: 'Again' }],
    ['DELETE', mine, {}],
  ] as const)
    t.equal((await call(guest, method, of, json ? { json } : {})).status, 404, `${method} ${of}`)
  t.equal((await threads.react(guest, at, '🎉')).status, 404)
  t.equal((await call(another, 'GET', mine)).data.author_name, null, 'no name of who is gone')
  t.match(await summary(), /^A former member commented/)
})

t.test('an owner who has left neither reads nor moderates what is said about the event', async (t) => {
  const host = await aMember(api, orgId)
  const at = await world.event('active', host)
  const comment = await threads.posted(another, threads.at(at))
  t.equal((await call(host, 'DELETE', `/api/organizations/${org}/members/me`)).status, 204)
  t.equal((await call(host, 'GET', threads.at(at))).status, 404)
  t.equal((await call(host, 'DELETE', comment, { json: {} })).status, 404)
  // Back as a guest: what is left of an owner is a participant like others.
  const made = await world.invite(at, { uuid: host.wireId }, people.admin)
  t.equal((await world.respond(host, made, {})).status, 200)
  t.equal((await call(host, 'GET', threads.at(at))).status, 200)
  t.equal((await call(host, 'DELETE', comment, { json: {} })).status, 404)
  t.equal((await call(host, 'PUT', inEvent(at), { json: { title: 'Mine' } })).status, 404)
})

/** The owner of an event, who has left the organization and accepted an invitation to it since. */
async function aFormerOwner(): Promise<{ at: MadeEvent; host: Person }> {
  const host = await aMember(api, orgId)
  const at = await world.event('active', host)
  t.equal((await call(host, 'DELETE', `/api/organizations/${org}/members/me`)).status, 204)
  const made = await world.invite(at, { uuid: host.wireId }, people.owner)
  t.equal((await world.respond(host, made, {})).status, 200)
  t.strictSame([await world.isMember(host), await world.participation(at, host)], [false, 'accepted'])
  return { at, host }
}
const leave = (at: MadeEvent, who: Person) => call(who, 'DELETE', inEvent(at, '/participants/me'))

t.test('an owner who has come back as a guest can leave, and can be removed', async (t) => {
  const ends: [what: string, end: (at: MadeEvent, host: Person) => Promise<Answer>][] = [
    ['leaves', leave],
    ['is removed', (at, host) => removeBy(people.owner, at, host)],
  ]
  for (const [what, end] of ends) {
    const { at, host } = await aFormerOwner()
    const shown = await call(host, 'GET', inEvent(at))
    t.strictSame(shown.data.can, ['comment.create', 'comment.read', 'event.leave', 'event.read', 'reaction.add'], what)
    t.equal((await removeBy(host, at, host)).status, 404, 'and manages nothing')
    t.strictSame([(await end(at, host)).status, (await call(host, 'GET', inEvent(at))).status], [204, 404], what)
    t.equal((await end(at, host)).status, 404, 'once')
    const again = await world.invite(at, { uuid: host.wireId }, people.owner)
    t.equal((await world.respond(host, again, {})).status, 200, 'and can be invited again')

    const membership = `insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`
    await database.admin.query(membership, [orgId, host.id])
    t.notOk((await call(host, 'GET', inEvent(at))).data.can.includes('event.leave'), 'a member again')
    t.equal((await leave(at, host)).status, 404)
    for (const by of [people.owner, host]) t.equal((await removeBy(by, at, host)).code, 'INVALID_STATE_TRANSITION')
    t.equal(await world.participation(at, host), 'accepted')
  }
})

t.test('at once: an owner becomes a member again, and the end of what they took part in as a guest', async (t) => {
  const joining = await startApiOn(t, {
    ...{ database, identity: api.identity },
    settings: { LINK_KEYS: JSON.stringify(api.config.LINK_KEYS), JOIN_ORG_ON_ACCEPT: 'true' },
  })
  const ends: [what: string, end: (at: MadeEvent, host: Person) => Promise<Answer>, refused: string][] = [
    ['leaving', leave, 'NOT_FOUND'],
    ['a removal', (at, host) => removeBy(people.owner, at, host), 'INVALID_STATE_TRANSITION'],
  ]
  for (const [what, end, refused] of ends) {
    for (const isFirst of [true, false]) {
      const { at, host } = await aFormerOwner()
      // To another address: the end does not wait for its acceptance, nor revoke it.
      const made = await world.invite(at, undefined, people.owner)
      const accept = async () => {
        const headers = { authorization: `Bearer ${host.token}` }
        const body = { response: 'accept', token: made.token }
        const path = `/v1/api/invitations/${made.wireId}/respond`
        const { status, json } = await ask(joining.port, { method: 'POST', path, headers, body })
        return { status, code: json?.error?.code }
      }
      const ending = async () => {
        const { status, code } = await end(at, host)
        return { status, code }
      }
      const lock = {
        text: 'select from event_participants where event_id = $1 and user_id = $2 for update',
        values: [at.id, host.id],
      }
      const answers = await inTurn(database, lock, ...(isFirst ? [accept, ending] : [ending, accept]))
      t.strictSame(
        answers.map(({ status, code }) => code ?? status),
        isFirst ? [200, refused] : [204, 200],
        `${what}, ${isFirst ? 'second' : 'first'}`,
      )
      t.strictSame([await world.isMember(host), await world.participation(at, host)], [true, 'accepted'], what)
    }
  }
})

t.test('a guest sees the album of the event while it is for others than its managers', async (t) => {
  const at = await world.event()
  const guest = await aGuest(at)
  const photo = await albums.upload('image')
  const outside = await albums.aMedia()
  const album = await albums.anAlbum({ owner: member, eventId: at.wireId, visibility: 'participants' })
  await albums.add(album, photo)
  const ofAlbum = `/api/orgs/${org}/albums/${album}`
  const reads = [
    inEvent(at, '/album'),
    ofAlbum,
    `${ofAlbum}/media`,
    `${ofAlbum}/highlights`,
    `/api/media/${org}/${photo}`,
  ]
  const statuses = async () => Promise.all(reads.map(async (path) => (await call(guest, 'GET', path)).status))
  const all = (status: number) => reads.map(() => status)
  t.strictSame(await statuses(), all(404), 'a draft')
  await albums.setStatus(album, 'PUBLIC')
  t.strictSame(await statuses(), all(200), 'for participants')
  t.match((await call(guest, 'GET', ofAlbum)).data, { event_id: at.wireId, can: ['album.read'] })
  t.match((await call(guest, 'GET', inEvent(at))).data, { album_id: album })

  const [shown] = (await call(guest, 'GET', `${ofAlbum}/media`)).data.media
  t.strictSame(shown.can, ['media.read'])
  t.equal((await call(undefined, 'GET', pathOf(shown.original_url))).status, 200, 'its link works')
  const { status, data } = await call(guest, 'GET', `/api/media/${org}/${photo}/metadata`)
  t.strictSame([status, data.location], [200, null])
  t.equal((await call(guest, 'GET', `/api/media/${org}/${outside}`)).status, 404, 'the library')

  const of = threads.at(at, 'media', photo)
  const said = await threads.posted(guest, of)
  t.equal((await threads.react(guest, at, '🎉', 'media', photo)).status, 201)
  t.equal((await threads.post(guest, threads.at(at, 'media', outside))).status, 404)
  const attached = await threads.post(guest, threads.at(at), { body: 'Look', media_ids: [photo] })
  t.strictSame([attached.code, attached.body.error.details[0].field], ['MEDIA_NOT_AVAILABLE', 'body.media_ids.0'])
  for (const [method, path, json] of [
    ['POST', `${ofAlbum}/media`, { media_id: outside }],
    ['PATCH', ofAlbum, { title: 'Mine' }],
    ['POST', `${ofAlbum}/highlights`, { title: 'Mine', media_ids: [photo] }],
    ['DELETE', `/api/media/${org}/${photo}`, undefined],
  ] as const)
    t.equal((await call(guest, method, path, json ? { json } : {})).status, 404, `${method} ${path}`)

  await albums.change(album, { visibility: 'organization' })
  t.strictSame(await statuses(), all(200), 'for the organization')
  await albums.change(album, { visibility: 'private' })
  t.strictSame(await statuses(), all(404), 'private')
  t.equal((await call(guest, 'GET', said)).status, 404, 'with what was said there')
  t.equal((await threads.react(guest, at, '🔥', 'media', photo)).status, 404)
  await threads.posted(member, threads.at(at), { body: 'Look', media_ids: [outside] })
  t.equal((await call(guest, 'GET', `/api/media/${org}/${outside}`)).status, 200, 'what a comment shows')
  t.equal((await removeFrom(at, guest)).status, 204)
  t.equal((await call(guest, 'GET', `/api/media/${org}/${outside}`)).status, 404)
})

t.test('a guest is mentioned where the guest may see it, and told of it as long as that is so', async (t) => {
  const at = await world.event()
  const guest = await aGuest(at)
  const stranger = await aGuest(await world.event())
  const photo = await albums.aMedia()
  const album = await albums.anAlbum({
    owner: member,
    eventId: at.wireId,
    visibility: 'participants',
    status: 'PUBLIC',
  })
  await albums.add(album, photo)
  const mention = (of: string, who: Person) => threads.post(member, of, { body: 'Hello', mentions: [who.wireId] })
  t.equal((await mention(threads.at(at), stranger)).code, 'VALIDATION_ERROR')
  const { status, data } = await mention(threads.at(at, 'media', photo), guest)
  t.equal(status, 201)
  const by = await threads.post(guest, threads.at(at), { body: 'Hi', mentions: [member.wireId] })
  t.equal(by.status, 201)

  const told = (comment: string, who: Person) =>
    database.worker.read({}, (tx) => {
      const row = {
        template: 'Mention.v1',
        orgId,
        eventId: at.id,
        commentId: uuidOf('comment', comment),
        userId: who.id,
      }
      return gather(tx, row as NotificationRow, { isOut: false })
    })
  t.match(await told(data.comment_id, guest), { template: 'Mention.v1', excerpt: 'Hello' })
  t.match(await told(by.data.comment_id, member), { authorName: 'Gus' })
  await albums.change(album, { visibility: 'private' })
  t.match(await told(data.comment_id, guest), { withheld: /cannot see/ })
  t.equal((await mention(threads.at(at, 'media', photo), guest)).code, 'VALIDATION_ERROR')
  await albums.change(album, { visibility: 'organization' })
  t.match(await told(data.comment_id, guest), { template: 'Mention.v1' })
  await removeFrom(at, guest)
  t.match(await told(data.comment_id, guest), { withheld: /cannot see/ })
  t.match(await told(by.data.comment_id, member), { authorName: null })
})

t.test('the events of a user are those of all organizations, the latest joined first', async (t) => {
  const [first, second] = [await world.event(), await world.event()]
  const guest = await aGuest(first)
  const own = (query = '', headers = {}) => call(guest, 'GET', `/api/users/me/events${query}`, { headers })
  t.match((await own()).data, { events: [{ event_id: first.wireId, as_guest: true, my_participation: 'accepted' }] })
  const made = await world.invite(second, { uuid: guest.wireId })
  t.equal((await own()).data.events.length, 1, 'not an invitation')
  await world.respond(guest, made, {})
  const { data, headers } = await own()
  t.strictSame(
    data.events.map((event: { event_id: string }) => event.event_id),
    [second.wireId, first.wireId],
  )
  t.equal((await own('', { 'if-none-match': headers.get('etag') })).status, 304)
  await world.setStatus(second, 'archived')
  t.equal((await own('?status=archived')).data.events.length, 1)
  t.equal((await own('?as_guest=false')).data.events.length, 0)
  await removeFrom(first, guest)
  t.equal((await own('?status=active')).data.events.length, 0)
})

t.test('a page of the events of a user reads that page alone', async (t) => {
  const who = await aPerson(api)
  await insertMany(
    database,
    `with made as (insert into events (id, org_id, owner_id, title, start_at, status)
       select gen_random_uuid(), $1, $2, 'A', now(), 'active' from generate_series(1, 5000) returning id)
     insert into event_participants (event_id, user_id, org_id, status, joined_at)
       select id, $3::uuid, $1, 'accepted', now() - random() * interval '1 year' from made`,
    [orgId, member.id, who.id],
  )
  await vacuum(database, 'events', 'event_participants')
  const wanted = { status: undefined, asGuest: undefined, limit: 21 }
  let after: { at: string; id: EventOfParticipant['id'] } | undefined
  // The sixth plan is the one that a connection keeps.
  for (let n = 0; n < 8; n++) {
    await database.db.inTransaction({ user: who.id }, async (tx) => {
      // Statistics of several transactions are together until they are sent.
      const counted = async () => {
        const { rows } = await tx.execute<{ scans: number; fetched: number }>(
          `select sum(seq_scan)::int as scans, sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::int as fetched
            from pg_stat_xact_user_tables where relname in ('events', 'event_participants')`,
        )
        return rows[0] ?? { scans: 0, fetched: 0 }
      }
      const before = await counted()
      const rows = await listEventsOfParticipant(tx, { ...wanted, after })
      const { scans, fetched } = await counted()
      const last = rows.at(-1)
      after = last && { at: last.joinedAt, id: last.id }
      t.strictSame([rows.length, scans - before.scans], [21, 0])
      // A participation, the event twice, and its participants.
      t.ok(fetched - before.fetched <= 4 * 21 + 1, `${fetched - before.fetched} rows`)
    })
  }
})

t.test('a guest whose erasure waits under a hold has no name before the others any more', async (t) => {
  const at = await world.event()
  const guest = await aGuest(at)
  t.equal((await threads.post(guest, threads.at(at), { body: 'Hello' })).status, 201)
  const { worker: db } = database
  const hold = await addHold(db, { kind: 'person', subject: guest.id, reason: 'case 1', placedBy: 'court' })
  t.teardown(() => releaseHold(db, hold.id))
  const asked = await call(people.platformAdmin, 'POST', '/gdpr/anonymize', {
    json: { user_id: guest.wireId, confirm: true },
  })
  const erasure = uuidOf('anonymization', asked.data.anonymization_id)
  t.match(await carryOut(eraseDeps(api, testCluster(t)), ERASE_STEPS, erasure), { againAfterMs: 600_000 })
  const shown = JSON.stringify([
    (await call(member, 'GET', inEvent(at, '/participants'))).data,
    (await call(member, 'GET', threads.at(at))).data,
  ])
  t.match(shown, 'Hello', 'what the guest said stays')
  t.notMatch(shown, 'Gus')
  const name = (tx: Tx) => findNameAt(tx, { orgId, eventId: at.id, userId: guest.id })
  t.equal(await db.read({}, name), null)
})
