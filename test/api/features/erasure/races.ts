import { hash } from 'node:crypto'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { passAlbum } from '../../../../api/features/albums/erasure-queries.ts'
import { carryOut } from '../../../../api/features/erasure/saga.ts'
import { passEvent } from '../../../../api/features/events/erasure-queries.ts'
import { changeRole } from '../../../../api/features/organizations/commands.ts'
import { addHold, releaseHold } from '../../../../api/features/retention/holds.ts'
import { ERASE_STEPS } from '../../../../api/features.ts'
import type { ErasedPerson, EraseStep } from '../../../../api/personal/part.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { aPerson, fakeMp4, formOf, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { threadsIn } from '../../../support/comments.ts'
import { testCluster } from '../../../support/conversion-world.ts'
import { eraseDeps, eraseWhole } from '../../../support/erasure.ts'
import { anEvent, takePart } from '../../../support/events.ts'
import { eventually } from '../../../support/eventually.ts'
import { highlightWorld, renderWorld } from '../../../support/highlights.ts'
import { inTurn, waitingIn } from '../../../support/in-turn.ts'
import { matchWhole } from '../../../support/match-whole.ts'

/** Erasures while something is stored about the person: what was admitted before is waited for, or comes to nothing. */
const api = await startTestApi(t)
const { people, database, org, call } = api
const orgId = uuidOf('organization', org)
const cluster = testCluster(t)
const sql = async (text: string, values: unknown[] = []) => (await database.admin.query(text, values)).rows

async function aMember(role = 'member'): Promise<Person> {
  const person = await aPerson(api)
  await sql('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [orgId, person.id, role])
  return person
}
const ask = async (person: Person): Promise<string> => {
  const { status, data } = await call(people.platformAdmin, 'POST', '/gdpr/anonymize', {
    json: { user_id: person.wireId, confirm: true },
  })
  t.equal(status, 201)
  return uuidOf('anonymization', data.anonymization_id)
}
const finish = (id: string) => eraseWhole(eraseDeps(api, cluster), id, ERASE_STEPS)

t.test('an upload whose bytes arrive while the account is closed leaves nothing', async (t) => {
  const person = await aMember()
  const { promise: isClosed, resolve: closed } = Promise.withResolvers<void>()
  const bytes = fakeMp4(100_000)
  const body = new ReadableStream({
    async pull(controller) {
      controller.enqueue(bytes.subarray(0, 50_000))
      await isClosed
      controller.enqueue(bytes.subarray(50_000))
      controller.close()
    },
  })
  const json = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 200_000, chunk_size_bytes: 100_000 }
  const { data } = await call(person, 'POST', `/api/media/${org}/upload`, { json })
  const sending = call(person, 'PUT', `/api/media/${org}/upload/${data.upload_id}/0`, { bytes: body })
  const id = await ask(person)
  await finish(id)
  closed()
  const { status } = await sending
  t.ok(status >= 400, `refused with ${status}`)
  t.strictSame(await api.keys(`org/${orgId}/`), [])
  t.strictSame(await sql('select from uploads where uploader_id = $1', [person.id]), [])
})

t.test('a single upload that commits while the account is closed is waited for, and erased', async (t) => {
  const person = await aMember()
  const upload = () =>
    call(person, 'POST', `/api/media/${org}/single`, { form: formOf(fakeMp4(100)) }).then(({ status }) => status)
  // The upload is at its commit, or behind the closing: either way nothing is left.
  const [asked, uploaded] = await Promise.all([ask(person), upload()])
  await finish(asked)
  t.ok(uploaded === 201 || uploaded >= 400, String(uploaded))
  t.strictSame(await sql('select from media where uploader_id = $1', [person.id]), [])
  t.strictSame(await api.keys(`org/${orgId}/`), [])
})

t.test('what was inserted behind the closing fails, whatever checked before', async (t) => {
  const person = await aMember()
  await ask(person)
  const insert = (statement: string, values: unknown[]) => database.admin.query(statement, values)
  const refused = { code: '40001' }
  await t.rejects(
    insert(
      `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
        values ($1, $2, $3, 'a', 'image/jpeg', 'image', 1)`,
      [newUuid(), orgId, person.id],
    ),
    refused,
  )
  await t.rejects(
    insert(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [orgId, person.id]),
    refused,
  )
  await t.rejects(
    insert(`insert into albums (id, org_id, owner_id, title) values ($1, $2, $3, 'a')`, [newUuid(), orgId, person.id]),
    refused,
  )
  await t.rejects(
    insert(`insert into data_exports (id, user_id, state) values ($1, $2, 'planning')`, [newUuid(), person.id]),
    refused,
  )
  await t.rejects(
    insert(`insert into audit_exports (id, user_id, format, filters, until) values ($1, $2, 'csv', '{}', now())`, [
      newUuid(),
      person.id,
    ]),
    refused,
  )
  // In the background it is skipped.
  await insert(
    `insert into timeline_items (id, org_id, type, actor_id, ref_type, ref_id, at)
      values ($1, $2, 'member_joined', $3, 'user', $3, now())`,
    [newUuid(), orgId, person.id],
  )
  await insert(`insert into sessions (user_id, sid, first_seen_at) values ($1, 's', now())`, [person.id])
  t.strictSame(await sql('select from timeline_items where actor_id = $1', [person.id]), [])
  t.strictSame(await sql('select from sessions where user_id = $1', [person.id]), [])
  await insert(`update users set email = 'back@example.org', tokens_not_before = now() where id = $1`, [person.id])
  matchWhole(t, await sql('select email, tokens_not_before::text as at from users where id = $1', [person.id]), [
    { email: null, at: 'infinity' },
  ])
})

t.test('a mention that commits while the account is closed is waited for, or refused', async (t) => {
  const threads = threadsIn(api, { org, orgId, owner: people.owner })
  const event = await threads.event()
  const person = await aMember()
  const mention = () =>
    threads.post(people.owner, threads.at(event), { body: `Hi @${person.wireId}`, mentions: [person.wireId] })
  const [id, answer] = await Promise.all([ask(person), mention()])
  t.ok([201, 400, 503].includes(answer.status), String(answer.status))
  await finish(id)
  const left = await sql(`select body from comments where body like '%' || $1 || '%' or $2 = any(mentions)`, [
    person.wireId,
    person.id,
  ])
  t.strictSame(left, [])
  t.equal((await mention()).status, 400, 'who is no member cannot be mentioned')
})

t.test('a closing waits for what holds the person, and what comes behind it is refused', async (t) => {
  const person = await aMember()
  const lock = { text: 'select from users where id = $1 for update', values: [person.id] }
  const react = threadsIn(api, { org, orgId, owner: people.owner })
  const event = await react.event()
  const [first, second] = await inTurn<number>(
    database,
    lock,
    () => ask(person).then(() => 201),
    () => react.react(person, event, '🎉').then(({ status }) => status),
  )
  t.strictSame([first, second], [201, 503])
  t.strictSame(await sql('select from reactions where user_id = $1', [person.id]), [])
})

t.test('who was erased, or is being erased, is no user whom others could invite or mention', async (t) => {
  const threads = threadsIn(api, { org, orgId, owner: people.owner })
  const event = await threads.event()
  const person = await aPerson(api)
  // A guest, whose participation ends with a step of the erasure.
  await takePart(api, { event, orgId, who: person })
  const invite = async () => {
    const path = `/api/orgs/${org}/events/${event.wireId}/invitations`
    const { status, body } = await call(people.owner, 'POST', path, { json: { uuid: person.wireId } })
    return [status, body.error?.details?.[0]?.field]
  }
  const mention = async () => {
    const { status, body } = await threads.post(people.owner, threads.at(event), {
      body: 'Hello',
      mentions: [person.wireId],
    })
    return [status, body.error?.details?.[0]?.field]
  }
  const ofBoth = async () => [await invite(), await mention()]
  const refused = [
    [404, 'body.uuid'],
    [400, 'body.mentions.0'],
  ]
  const id = await ask(person)
  t.strictSame(await sql('select status from event_participants where user_id = $1', [person.id]), [
    { status: 'accepted' },
  ])
  t.strictSame(await ofBoth(), refused, 'before the first step')
  await finish(id)
  t.strictSame(await ofBoth(), refused, 'after the last')
})

t.test('an invitation to an account that is being closed is refused, at last as that of an unknown user', async (t) => {
  const event = await threadsIn(api, { org, orgId, owner: people.owner }).event()
  const person = await aPerson(api)
  const invite = () =>
    call(people.owner, 'POST', `/api/orgs/${org}/events/${event.wireId}/invitations`, { json: { uuid: person.wireId } })
  const lock = { text: 'select from users where id = $1 for update', values: [person.id] }
  const [, answer] = await inTurn<number>(
    database,
    lock,
    () => ask(person).then(() => 201),
    () => invite().then(({ status }) => status),
  )
  t.strictSame([answer, (await invite()).status], [503, 404])
  t.strictSame(await sql('select from invitations where user_id = $1', [person.id]), [])
})

t.test('who answers an invitation holds the membership before the account, as a closing does', async (t) => {
  const event = await threadsIn(api, { org, orgId, owner: people.owner }).event()
  const person = await aMember()
  const { data } = await call(people.owner, 'POST', `/api/orgs/${org}/events/${event.wireId}/invitations`, {
    json: { uuid: person.id },
  })
  const holder = await database.admin.connect()
  t.teardown(() => holder.release())
  await holder.query('begin')
  await holder.query('select from memberships where user_id = $1 for update', [person.id])
  const answer = call(person, 'POST', `/api/invitations/${data.invitation_id}/respond`, {
    json: { response: 'accept' },
  })
  await eventually('it to wait', async () => (await waitingIn(database)) === 1)
  await t.resolves(holder.query('select from users where id = $1 for update nowait', [person.id]))
  await holder.query('rollback')
  t.equal((await answer).status, 200)
})

t.test('a highlight that is being rendered with media items of the person is stopped', async (t) => {
  const world = highlightWorld(api)
  const renders = renderWorld(api, world, cluster)
  const person = await aMember()
  const id = await renders.rendering({ media: [await world.aMedia({ by: person }), await world.aMedia()] })
  t.ok(await renders.render(id))
  await finish(await ask(person))
  t.equal(await renders.render(id), undefined)
  t.match(await renders.row(id), { status: 'failed', error: { code: 'SOURCE_ERASED' } })
})

t.test('all media items are withdrawn, also when another purge deletes one of them meanwhile', async (t) => {
  const person = await aMember()
  await sql(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
      select gen_random_uuid(), $1, $2, 'a', 'image/jpeg', 'image', 1 from generate_series(1, 102)`,
    [orgId, person.id],
  )
  const erasureId = await ask(person)
  const withdrawal = ERASE_STEPS.find(({ name }) => name === 'media.withdrawal')
  const lock = {
    text: 'delete from media where id = (select max(id::text)::uuid from media where uploader_id = $1)',
    values: [person.id],
  }
  const them = { erasureId, userId: person.id, issuer: '', subject: '', email: null, phoneNumber: null }
  await inTurn(database, lock, async () => withdrawal?.run(eraseDeps(api, cluster), them as ErasedPerson))
  const left = await sql('select purging_at is null as shown from media where uploader_id = $1', [person.id])
  t.equal(left.length, 101)
  t.notOk(left.some(({ shown }) => shown))
  await finish(erasureId)
})

/** The steps, with another one in the place of this. */
const instead = (name: string, run: EraseStep['run']) =>
  ERASE_STEPS.map((step) => (step.name === name ? { ...step, run } : step))
const isDone = async (id: string, name: string) =>
  (await sql(`select from erasure_steps where erasure_id = $1 and step = $2 and state = 'done'`, [id, name])).length ===
  1

t.test('what a step has failed to withdraw keeps those that build on it from ending with nothing', async (t) => {
  const world = highlightWorld(api)
  const renders = renderWorld(api, world, cluster)
  const person = await aMember()
  const media = await world.aMedia({ by: person })
  const before = await renders.rendering({ media: [media] })
  const erasure = await ask(person)
  const failing = instead('media.withdrawal', () =>
    Promise.reject(new Error('canceling statement due to lock timeout')),
  )
  await t.rejects(carryOut(eraseDeps(api, cluster), failing, erasure))
  for (const name of ['highlights.withdrawal', 'highlights.files', 'media.files', 'media.resources']) {
    t.notOk(await isDone(erasure, name), name)
  }
  t.ok(await isDone(erasure, 'media.uploads'), 'others went on')
  // Of a media item that others still see.
  const meanwhile = await renders.rendering({ media: [media, await world.aMedia()] })
  await finish(erasure)
  for (const id of [before, meanwhile]) {
    t.match(await renders.row(id), { status: 'failed', error: { code: 'SOURCE_ERASED' } })
    t.equal(await renders.render(id), undefined)
  }
})

t.test('what passes on while who would take over is removed gets the next member as its owner', async (t) => {
  const [person, removed, next, reissuer] = [
    await aPerson(api),
    await aPerson(api),
    await aPerson(api),
    await aPerson(api),
  ]
  const [{ id: within }] = await sql(
    `insert into organizations (id, name) values (gen_random_uuid(), 'New') returning id`,
  )
  for (const [who, role] of [
    [person, 'member'],
    [removed, 'owner'],
    [next, 'admin'],
    [reissuer, 'admin'],
  ] as const) {
    await sql('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [within, who.id, role])
  }
  const event = await anEvent(api, { org: '', orgId: within, owner: person })
  const [{ id: album }] = await sql(
    `insert into albums (id, org_id, owner_id, title, event_id) values (gen_random_uuid(), $1, $2, 'a', $3) returning id`,
    [within, person.id, event.id],
  )
  const slugs = ['ABCDEFJ2', 'ABCDEFJ3', 'ABCDEFJ4']
  for (const [n, inviter] of [removed, reissuer, removed].entries()) {
    await sql(
      `insert into invitations (id, org_id, event_id, slug, invited_by, former_inviter, email, token_expires_at, status, responded_at)
        values ($1, $2, $3, $4, $5, $6, $7, now() + interval '9 days', $8, case $8 when 'pending' then null else now() end)`,
      [
        newUuid(),
        within,
        event.id,
        slugs[n],
        inviter.id,
        person.id,
        `passed-${n}@example.org`,
        n < 2 ? 'pending' : 'declined',
      ],
    )
  }
  const removal = {
    text: 'delete from memberships where org_id = $1 and user_id = $2',
    values: [within, removed.id],
  }
  const pass = (one: typeof passEvent, id: Uuid) =>
    inTurn(database, removal, () => database.worker.inTransaction({}, (tx) => one(tx, id, person.id)))
  t.strictSame(await pass(passEvent, event.id), ['passed'])
  const inviters = await sql('select invited_by from invitations where slug = any($1) order by slug', [slugs])
  t.strictSame(
    inviters.map((row) => row.invited_by),
    [next.id, reissuer.id, removed.id],
    'of a pending invitation, the one who may invite',
  )
  await sql('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [within, removed.id, 'owner'])
  t.strictSame(await pass(passAlbum, album), ['passed'])
  const owners = await sql(
    'select (select owner_id from events where id = $1) as event, (select owner_id from albums where id = $2) as album',
    [event.id, album],
  )
  t.strictSame(owners, [{ event: next.id, album: next.id }])
  t.strictSame(await sql('select from event_participants where user_id = $1', [removed.id]), [])
})

t.test('what passes on while an administrator changes a role waits for no one who waits for it', async (t) => {
  const [person, heir, other] = [await aPerson(api), await aPerson(api), await aPerson(api)]
  const [{ id: within }] = await sql(
    `insert into organizations (id, name) values (gen_random_uuid(), 'New') returning id`,
  )
  for (const [who, role] of [
    [person, 'member'],
    [heir, 'owner'],
    [other, 'member'],
  ] as const) {
    await sql('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [within, who.id, role])
  }
  const event = await anEvent(api, { org: '', orgId: within, owner: person })
  // Between the membership of the heir, which the first holds and the second needs, and the participation.
  const lock = { text: 'select from users where id = $1 for update', values: [heir.id] }
  const [passed, changed] = await inTurn<unknown>(
    database,
    lock,
    () => database.worker.inTransaction({}, (tx) => passEvent(tx, event.id, person.id)),
    () => changeRole(database.worker, { orgId: within, user: other.wireId, role: 'admin', issuer: undefined }),
  )
  t.equal(passed, 'passed')
  t.match(changed, { userId: other.id, role: 'admin' })
  matchWhole(
    t,
    await sql('select user_id, status from event_participants where event_id = $1 and user_id = $2', [
      event.id,
      heir.id,
    ]),
    [{ user_id: heir.id, status: 'accepted' }],
  )
})

t.test('who joins an organization while its only member closes the account becomes its owner', async (t) => {
  const [alone, joining] = [await aPerson(api), await aPerson(api)]
  const [{ id: org_ }] = await sql(
    `insert into organizations (id, name) values (gen_random_uuid(), 'New') returning id`,
  )
  const join = 'insert into memberships (org_id, user_id, role) values ($1, $2, $3)'
  await sql(join, [org_, alone.id, 'owner'])
  const holder = await database.admin.connect()
  t.teardown(() => holder.release())
  await holder.query('begin')
  await holder.query(join, [org_, joining.id, 'member'])
  const id = await ask(alone)
  await holder.query('commit')
  await finish(id)
  t.strictSame(await sql('select user_id, role from memberships where org_id = $1', [org_]), [
    { user_id: joining.id, role: 'owner' },
  ])
})

t.test('an album of their own items is deleted also while the files of these cannot be', async (t) => {
  const world = highlightWorld(api)
  const person = await aMember()
  const albumWith = async (by: Person) => {
    const album = await world.anAlbum({ owner: person, visibility: 'private' })
    t.equal((await world.add(album, await world.aMedia({ by }), person)).status, 201)
    return uuidOf('album', album)
  }
  const [own, shared] = [await albumWith(person), await albumWith(people.owner)]
  const erasure = await ask(person)
  // As while the store is away.
  const waiting = instead('media.files', async () => ({ counts: {}, isWaiting: true }))
  await carryOut(eraseDeps(api, cluster), waiting, erasure)
  t.ok(await isDone(erasure, 'albums.ownership'))
  const left = await sql('select id, owner_id from albums where id = any($1)', [[own, shared]])
  t.strictSame(left, [{ id: shared, owner_id: people.owner.id }])
  await finish(erasure)
})

t.test('a film that is made behind the withdrawal of films has no caption of the person', async (t) => {
  const world = highlightWorld(api)
  const person = await aMember('admin')
  const { album, media } = await world.filled(2, { owner: people.owner, status: 'PUBLIC' })
  const captioned = await call(person, 'PATCH', `/api/orgs/${org}/albums/${album}/media/${media[0]}`, {
    json: { caption: 'Canary' },
  })
  t.equal(captioned.status, 200)
  await call(people.owner, 'PATCH', `/api/orgs/${org}/albums/${album}/media/${media[1]}`, { json: { caption: 'Ours' } })
  const erasure = await ask(person)
  // As while the files of a large account are being deleted.
  const holding = instead('albums.captions', async () => ({ counts: {}, isWaiting: true }))
  await carryOut(eraseDeps(api, cluster), holding, erasure)
  t.ok(await isDone(erasure, 'highlights.withdrawal'))
  const { status, data } = await world.createInAlbum(album, { media_ids: media, captions: 'caption' })
  t.equal(status, 201)
  t.strictSame(
    (await world.itemsOf(data.highlight_id)).map(({ caption }) => caption),
    ['', 'Ours'],
  )
  // By a request that read it before the account was closed.
  const columns = 'highlight_id, org_id, source_id, uploader_id, type, seconds'
  const late = sql(
    `insert into highlight_items (${columns}, media_id, position, caption, caption_by)
      select ${columns}, gen_random_uuid(), 9, 'Canary', $2 from highlight_items where highlight_id = $1 and position = 0`,
    [uuidOf('highlight', data.highlight_id), person.id],
  )
  await t.rejects(late, { code: '40001' })
  await finish(erasure)
  t.strictSame(await sql(`select from album_media where caption = 'Canary'`), [])
})

t.test(
  'two people who leave at once and have invited to each other’s events: neither erasure waits for the other',
  async (t) => {
    const [one, two] = [await aMember(), await aMember()]
    const eventOf = async (owner: Person) => {
      const id = newUuid()
      await sql(
        `insert into events (id, org_id, owner_id, title, start_at, status) values ($1, $2, $3, 'Picnic', now() + interval '9 days', 'draft')`,
        [id, orgId, owner.id],
      )
      return id
    }
    const invite = (inviter: Person, event: string, slug: string) =>
      sql(
        `insert into invitations (id, org_id, event_id, slug, invited_by, email, message, token_expires_at)
       values ($1, $2, $3, $4, $5, $6, 'Do come', now() + interval '9 days')`,
        [newUuid(), orgId, event, slug, inviter.id, `${slug.toLowerCase()}@example.org`],
      )
    await invite(one, await eventOf(two), 'ABCDEFG2')
    await invite(two, await eventOf(one), 'ABCDEFG3')
    const asked = [await ask(one), await ask(two)]
    for (const id of asked) await finish(id)
    t.strictSame(await sql('select from invitations where invited_by = any($1)', [[one.id, two.id]]), [])
    t.strictSame(await sql(`select from erasures where id = any($1) and status <> 'completed'`, [asked]), [])
  },
)

t.test('an erasure leaves what another account with the same addresses has, until that one is erased', async (t) => {
  const folder = t.testdir()
  const deps = eraseDeps(api, cluster, { config: { ERASURE_KEY: api.config.ERASURE_KEY, MAIL_FOLDER: folder } })
  const people = [await aMember(), await aMember()] as const
  const [first, second] = people
  const [email, phone] = [`${newUuid()}@example.org`, '+4915550987613']
  await sql('update users set email = $1, phone_number = $2 where id = any($3)', [
    email.toUpperCase(),
    phone,
    people.map(({ id }) => id),
  ])
  const event = await threadsIn(api, { org, orgId, owner: api.people.owner }).event()
  const invite = async (slug: string, column: string, to: string, answeredBy: Uuid | null = null) => {
    const id = newUuid()
    await sql(
      `insert into invitations (id, org_id, event_id, slug, invited_by, ${column}, responded_by, responded_at, status, token_expires_at)
       values ($1, $2, $3, $4, $5, $6, $7::uuid, case when $7::uuid is not null then now() end, case when $7::uuid is null then 'pending' else 'accepted' end, now() + interval '9 days')`,
      [id, orgId, event.id, slug, api.people.owner.id, to, answeredBy],
    )
    return id
  }
  const byMail = await invite('ABCDEFH2', 'email', email)
  const byPhone = await invite('ABCDEFH3', 'phone_number', phone)
  const accepted = await invite('ABCDEFH4', 'email', email, second.id)
  const answered = await invite('ABCDEFH5', 'email', email, first.id)
  const mailTo = async (to: Uuid | null) => {
    const [notification, delivery] = [newUuid(), newUuid()]
    const isPurge = to !== null
    await sql(
      `insert into notifications (id, org_id, template, event_id, user_id, email, invitation_id, generation, purge_notice, purge_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
      [
        ...[notification, orgId, isPurge ? 'EventPurgeSoon.v1' : 'EventInvitation.v1', event.id, to],
        ...(isPurge ? [null, null, null, 2, new Date()] : [email, byMail, 1, null, null]),
      ],
    )
    await sql(
      `insert into notification_deliveries (id, org_id, notification_id, channel, destination) values ($1, $2, $3, 'email', $4)`,
      [delivery, orgId, notification, email],
    )
    const mail = `${formatId('notification', notification)}.eml`
    await writeFile(join(folder, mail), `To: <${email}>\r\n\r\nHello`)
    return { delivery, mail }
  }
  const ofFirst = await mailTo(first.id)
  const ofSecond = await mailTo(second.id)
  const ofAddress = await mailTo(null)
  await sql(`insert into notification_optouts (address_hash, template) values ($1, 'EventInvitation.v1')`, [
    hash('sha256', email, 'hex'),
  ])
  const idsOf = async (text: string, ids: Uuid[]) => (await sql(text, [ids])).map(({ id }) => id).sort()
  const left = async () => ({
    invitations: await idsOf('select id from invitations where id = any($1)', [byMail, byPhone, accepted, answered]),
    deliveries: await idsOf('select id from notification_deliveries where id = any($1)', [
      ofFirst.delivery,
      ofSecond.delivery,
      ofAddress.delivery,
    ]),
    mails: (await readdir(folder)).sort(),
    optouts: (await sql('select from notification_optouts where address_hash = $1', [hash('sha256', email, 'hex')]))
      .length,
  })
  await eraseWhole(deps, await ask(first))
  t.strictSame(await left(), {
    invitations: [byMail, byPhone, accepted].sort(),
    deliveries: [ofSecond.delivery, ofAddress.delivery].sort(),
    mails: [ofSecond.mail, ofAddress.mail].sort(),
    optouts: 1,
  })
  await eraseWhole(deps, await ask(second))
  t.strictSame(await left(), { invitations: [], deliveries: [], mails: [], optouts: 0 })
})

t.test('a mail to another account stays where it went to an address that is now that of an erased one', async (t) => {
  const [person, other] = [await aMember(), await aMember()]
  const email = `${newUuid()}@example.org`
  await sql('update users set email = $1 where id = $2', [email, person.id])
  const [notification, delivery] = [newUuid(), newUuid()]
  await sql(
    `insert into notifications (id, org_id, template, event_id, user_id, purge_notice, purge_at)
     values ($1, $2, 'EventPurgeSoon.v1', $3, $4, 2, now())`,
    [notification, orgId, (await threadsIn(api, { org, orgId, owner: people.owner }).event()).id, other.id],
  )
  await sql(
    `insert into notification_deliveries (id, org_id, notification_id, channel, destination) values ($1, $2, $3, 'email', $4)`,
    [delivery, orgId, notification, email],
  )
  await finish(await ask(person))
  t.equal((await sql('select from notification_deliveries where id = $1', [delivery])).length, 1)
})

t.test('an erasure leaves the invitations to an address that a closed account under a hold has, too', async (t) => {
  const [person, held] = [await aMember(), await aMember()]
  const email = `${newUuid()}@example.org`
  await sql('update users set email = $1 where id = any($2)', [email, [person.id, held.id]])
  const event = await threadsIn(api, { org, orgId, owner: people.owner }).event()
  await sql(
    `insert into invitations (id, org_id, event_id, slug, invited_by, email, token_expires_at)
     values ($1, $2, $3, 'ABCDEFH6', $4, $5, now() + interval '9 days')`,
    [newUuid(), orgId, event.id, people.owner.id, email],
  )
  const invited = async () => (await sql('select from invitations where email = $1', [email])).length
  const hold = await addHold(database.worker, { kind: 'person', subject: held.id, reason: 'case 1', placedBy: 'court' })
  const waiting = await ask(held)
  await carryOut(eraseDeps(api, cluster), ERASE_STEPS, waiting)
  await finish(await ask(person))
  t.equal(await invited(), 1)
  await releaseHold(database.worker, hold.id)
  await finish(waiting)
  t.equal(await invited(), 0)
})

t.test(
  'an erasure takes what a closed account left to it by a step that has run, also under a hold since',
  async (t) => {
    const [person, held] = [await aMember(), await aMember()]
    const email = `${newUuid()}@example.org`
    await sql('update users set email = $1 where id = any($2)', [email, [person.id, held.id]])
    const event = await threadsIn(api, { org, orgId, owner: people.owner }).event()
    const [invitation, notification] = [newUuid(), newUuid()]
    await sql(
      `insert into invitations (id, org_id, event_id, slug, invited_by, email, token_expires_at)
     values ($1, $2, $3, 'ABCDEFH7', $4, $5, now() + interval '9 days')`,
      [invitation, orgId, event.id, people.owner.id, email],
    )
    await sql(
      `insert into notifications (id, org_id, template, event_id, email, invitation_id, generation)
     values ($1, $2, 'EventInvitation.v1', $3, $4, $5, 1)`,
      [notification, orgId, event.id, email, invitation],
    )
    await sql(`insert into notification_optouts (address_hash, template) values ($1, 'EventInvitation.v1')`, [
      hash('sha256', email, 'hex'),
    ])
    const left = async () => ({
      invitations: (await sql('select from invitations where email = $1', [email])).length,
      notifications: (await sql('select from notifications where email = $1', [email])).length,
      optouts: (await sql('select from notification_optouts where address_hash = $1', [hash('sha256', email, 'hex')]))
        .length,
    })
    const deps = eraseDeps(api, cluster)
    const waiting = await ask(held)
    const isLate = ({ phase }: EraseStep) => phase === 'traces' || phase === 'identity'
    const busy = () => Promise.resolve({ counts: {}, isWaiting: true })
    await carryOut(
      deps,
      ERASE_STEPS.map((step) => (isLate(step) ? { ...step, run: busy } : step)),
      waiting,
    )
    t.strictSame(await left(), { invitations: 1, notifications: 1, optouts: 1 }, 'the other account has the address')
    const hold = await addHold(database.worker, {
      kind: 'person',
      subject: held.id,
      reason: 'case 1',
      placedBy: 'court',
    })
    await carryOut(deps, ERASE_STEPS, waiting)
    t.ok((await sql('select held_since from erasures where id = $1', [waiting]))[0]?.held_since)
    await finish(await ask(person))
    t.strictSame(await left(), { invitations: 0, notifications: 0, optouts: 0 })
    await releaseHold(database.worker, hold.id)
    await finish(waiting)
  },
)
