import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { sql as orm } from '../../../../api/db/orm.ts'
import { carryOut } from '../../../../api/features/erasure/saga.ts'
import { mediaTrash } from '../../../../api/features/media/deletion/trash-target.ts'
import { keepHeldParts } from '../../../../api/features/media/uploads/keep.ts'
import { expireSessions } from '../../../../api/features/media/uploads/release.ts'
import { addHold, releaseHold } from '../../../../api/features/retention/holds.ts'
import { carryOut as carryOutRun } from '../../../../api/features/retention/run.ts'
import { ERASE_STEPS } from '../../../../api/features.ts'
import { lockHolds } from '../../../../api/retention/holds-queries.ts'
import { hasTracesIn } from '../../../../api/retention/traces-queries.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { highlightPrefix, mediaPrefix, originalKey, stagingPrefix } from '../../../../lib/contract/object-keys.ts'
import { type PartInfo, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import { albumWorld } from '../../../support/albums.ts'
import { aPerson, fakeMp4, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { archiveWorld } from '../../../support/archived-events.ts'
import { testCluster } from '../../../support/conversion-world.ts'
import { eraseDeps, eraseWhole } from '../../../support/erasure.ts'
import { anEvent } from '../../../support/events.ts'
import { eventually } from '../../../support/eventually.ts'
import { waitingIn } from '../../../support/in-turn.ts'
import { asInvitation } from '../../../support/invitations.ts'
import { quietLog } from '../../../support/quiet-log.ts'
import { aRun } from '../../../support/retention.ts'

/** What a hold keeps of requests and erasures. Runs and sweeps under a hold are tested with their targets. */
const api = await startTestApi(t)
const { people, database, org, call, store } = api
const orgId = uuidOf('organization', org)
const { worker: db, admin } = database
const cluster = testCluster(t)
const albums = albumWorld(api)
const sql = async (text: string, values: unknown[] = []) => (await admin.query(text, values)).rows
const hold = (kind: 'person' | 'event' | 'organization', subject: Uuid) =>
  addHold(db, { kind, subject, reason: 'case', placedBy: 'court' })
const exists = async (table: string, id: Uuid) => (await sql(`select from ${table} where id = $1`, [id])).length === 1

t.afterEach(() => sql('delete from legal_holds'))

// ---------------------------------------------------------------- requests that delete for good

type Hold = Parameters<typeof hold>
async function refusedThenDone(t: Test, holds: Hold[], path: string, who: Person) {
  for (const [kind, subject] of holds) {
    const placed = await hold(kind, subject)
    t.match(await call(who, 'DELETE', path), { status: 409, code: 'LEGAL_HOLD' }, `a hold on the ${kind}`)
    await releaseHold(db, placed.id)
  }
  t.equal((await call(who, 'DELETE', path)).status, 204, 'its end lets it go')
}
const byOrganizationOrOwner: Hold[] = [
  ['organization', orgId],
  ['person', people.member.id],
]

t.test('an album stays under a hold on its organization or its owner', async (t) => {
  const id = await albums.anAlbum({ owner: people.member })
  await refusedThenDone(t, byOrganizationOrOwner, `/api/orgs/${org}/albums/${id}`, people.member)
  t.notOk(await exists('albums', uuidOf('album', id)))
})

t.test('a media item stays in the album of an event under a hold, by which the hold finds it', async (t) => {
  const event = await anEvent(api, { org, orgId, owner: people.member })
  const id = await albums.anAlbum({ owner: people.member, eventId: event.wireId, status: 'PUBLIC' })
  const media = await albums.aMedia()
  const added = await call(people.member, 'POST', `/api/orgs/${org}/albums/${id}/media`, { json: { media_id: media } })
  t.equal(added.status, 201)
  const path = `/api/orgs/${org}/albums/${id}/media/${media}`
  await refusedThenDone(t, [['event', event.id], ...byOrganizationOrOwner], path, people.member)
})

t.test('a draft of an event stays under a hold on it, its organization or its owner', async (t) => {
  const event = await anEvent(api, { org, orgId, owner: people.member, status: 'draft' })
  const path = `/api/orgs/${org}/events/${event.wireId}`
  await refusedThenDone(t, [['event', event.id], ...byOrganizationOrOwner], path, people.member)
  t.notOk(await exists('events', event.id))
})

t.test('a media item that an edit has removed from a comment stays under a hold on the event', async (t) => {
  const event = await anEvent(api, { org, orgId, owner: people.member })
  const media = uuidOf('media', await albums.aMedia())
  const comment = newUuid()
  await sql(
    `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body)
      values ($1, $2, $3, 'meta', $3, 'event', $4, 'B')`,
    [comment, orgId, event.id, people.member.id],
  )
  await sql(
    `insert into comment_versions (comment_id, version, org_id, body, mentions, media_ids, written_at)
      values ($1, 1, $2, 'A', '{}', $3, now())`,
    [comment, orgId, [media]],
  )
  await sql(`update media set deleted_at = now() - interval '40 days', deleted_by = uploader_id where id = $1`, [media])
  await hold('event', event.id)
  const { log } = eraseDeps(api, cluster)
  const deps = { db, store, log, signal: new AbortController().signal, waitMs: 5, pauseMs: () => 1 }
  t.match(await carryOutRun(deps, mediaTrash, aRun('MediaTrash')), { purged: 0, reason: /1 due item is kept/ })
  t.ok(await exists('media', media))
})

// ---------------------------------------------------------------- uploads that end

const bytes = fakeMp4(3000)
/** With all of its chunks, or none: two that are staged, or the one part of an upload to the store. */
async function anUpload(layout: 'staged' | 'multipart', sent = 3000) {
  const size = layout === 'staged' ? 1500 : 3000
  const json = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 3000, chunk_size_bytes: size }
  const { upload_id } = (await call(people.member, 'POST', `/api/media/${org}/upload`, { json })).data
  const path = `/api/media/${org}/upload/${upload_id}`
  const put = (index: number, content = bytes) =>
    call(people.member, 'PUT', `${path}/${index}`, { bytes: content.subarray(index * size, (index + 1) * size) })
  for (let index = 0; index * size < sent; index++) t.equal((await put(index)).status, 200)
  const id = uuidOf('upload', upload_id)
  const [{ media, multipart }] = await sql(
    'select media_id as media, multipart_id as multipart from uploads where id = $1',
    [id],
  )
  const key = originalKey(orgId, media)
  const parts = async () => (multipart ? store.listParts(key, multipart).catch(() => []) : [])
  const rowOf = async () =>
    (await sql('select state, storage_released_at is not null as released from uploads where id = $1', [id]))[0]
  return {
    ...{ id, key, path, put, rowOf, multipart },
    merge: (checksum_sha256: string) =>
      call(people.member, 'POST', `/api/media/${org}/merge`, { json: { upload_id, checksum_sha256 } }),
    /** Objects and parts. */
    stored: async () => [
      ...(await api.keys(mediaPrefix(orgId, media))),
      ...(await api.keys(stagingPrefix(orgId, id))),
      ...(await parts()).map(({ partNumber }) => `part ${partNumber}`),
    ],
  }
}
const sweep = () => expireSessions(db, store, { log: quietLog() })

for (const layout of ['staged', 'multipart'] as const) {
  for (const [kind, subject] of byOrganizationOrOwner) {
    t.test(
      `${layout}: what an upload that ends under a hold on the ${kind} has stored stays until its end`,
      async (t) => {
        const [aborted, refused] = [await anUpload(layout), await anUpload(layout)]
        const before = await aborted.stored()
        t.not(before.length, 0)
        const placed = await hold(kind, subject)
        for (const _ of ['first', 'again']) t.equal((await call(people.member, 'DELETE', aborted.path)).status, 204)
        t.equal((await refused.merge('0'.repeat(64))).code, 'CHECKSUM_MISMATCH')
        const merged = await refused.stored()
        t.equal(merged.length, layout === 'staged' ? 3 : 1, 'the whole file, with its chunks')
        await sweep()
        t.strictSame(await aborted.stored(), before)
        t.strictSame(await refused.stored(), merged)
        for (const { rowOf } of [aborted, refused]) t.strictSame(await rowOf(), { state: 'aborted', released: false })
        await releaseHold(db, placed.id)
        await sweep()
        t.strictSame([...(await aborted.stored()), ...(await refused.stored())], [])
        for (const { rowOf } of [aborted, refused]) t.strictSame(await rowOf(), { state: 'aborted', released: true })
      },
    )
  }
}

t.test(
  'the parts of an upload that ends under a hold become an object, which no rule of the bucket removes',
  async (t) => {
    const [open, aborted, expired] = [
      await anUpload('multipart'),
      await anUpload('multipart'),
      await anUpload('multipart'),
    ]
    const placed = await hold('person', people.member.id)
    t.equal((await call(people.member, 'DELETE', aborted.path)).status, 204)
    await sql('update uploads set expires_at = now() where id = $1', [expired.id])
    const keep = () => keepHeldParts(db, store, { log: quietLog() })
    const [one, two] = await Promise.all([keep(), keep()])
    t.ok(one + two >= 2, 'two at once do no harm')
    t.equal(await keep(), 0, 'once')
    for (const { stored, key } of [aborted, expired]) {
      t.strictSame(await stored(), [key])
      t.strictSame(await buffer((await store.get(key)).body), bytes)
    }
    t.strictSame(await open.stored(), ['part 1'], 'of an open one, nothing')
    await sweep()
    t.strictSame(await aborted.stored(), [aborted.key])
    await releaseHold(db, placed.id)
    await sweep()
    for (const { stored } of [aborted, expired]) t.strictSame(await stored(), [])
    t.equal((await call(people.member, 'DELETE', open.path)).status, 204)
  },
)

t.test('no merge takes over an upload whose parts have become an object under a hold', async (t) => {
  const upload = await anUpload('multipart')
  const chunks = () => sql('select * from upload_chunks where upload_id = $1', [upload.id])
  const recorded = await chunks()
  const merging = (until: string) =>
    sql(
      `update uploads set state = 'merging', merge_lease_holder = $2, merge_lease_until = now() + $3::interval,
        expires_at = now() where id = $1`,
      [upload.id, newUuid(), until],
    )
  // Sent again during the merge: the part is replaced, and not recorded.
  const other = Buffer.alloc(3000, 'x')
  await store.putPart(upload.key, upload.multipart, 1, Readable.from([other]), { size: 3000 })
  const placed = await hold('person', people.member.id)
  await merging('0 s')
  const overtaken: typeof db = Object.assign(Object.create(db), {
    async inTransaction(...given: Parameters<typeof db.inTransaction>) {
      await merging('1 h')
      return db.inTransaction(...given)
    },
  })
  t.equal(await keepHeldParts(overtaken, store, { log: quietLog() }), 0)
  t.strictSame(await upload.stored(), ['part 1'], 'one that a merge has taken over in time is left to it')
  await merging('0 s')
  t.equal(await keepHeldParts(db, store, { log: quietLog() }), 1)
  t.strictSame(await buffer((await store.get(upload.key)).body), other, 'what arrived is kept')
  t.equal((await upload.merge(createHash('sha256').update(other).digest('hex'))).code, 'UPLOAD_EXPIRED')
  t.strictSame(await upload.rowOf(), { state: 'expired', released: false })
  t.strictSame(await chunks(), recorded, 'the record stays')
  await releaseHold(db, placed.id)
  await sweep()
  t.strictSame(await upload.stored(), [])
})

t.test('a store that lists no parts of an upload costs a hold nothing of it', async (t) => {
  const [unlisted, claimed, lost] = [
    await anUpload('multipart'),
    await anUpload('multipart'),
    await anUpload('multipart'),
  ]
  const placed = await hold('person', people.member.id)
  for (const { path } of [unlisted, claimed, lost]) t.equal((await call(people.member, 'DELETE', path)).status, 204)
  const keep = (other: Partial<typeof store>) => keepHeldParts(db, { ...store, ...other }, { log: quietLog() })
  const listParts = async (key: string) => {
    if (key === claimed.key) throw new StoreError('NotFound', 'being completed')
    return []
  }
  const refuses = async (key: string, ...given: [string, PartInfo[]]) => {
    if (key === lost.key) throw new StoreError('InvalidPart', 'no such part')
    return store.completeMultipart(key, ...given)
  }
  t.equal(await keep({ listParts, completeMultipart: refuses }), 2)
  for (const { key } of [unlisted, claimed]) t.strictSame(await buffer((await store.get(key)).body), bytes)
  t.strictSame(await lost.stored(), ['part 1'])
  t.equal(await keep({}), 1, 'asked for again')
  t.strictSame(await lost.stored(), [lost.key])
  await releaseHold(db, placed.id)
  await sweep()
})

t.test('an upload under a hold of which nothing has arrived is looked at once', async (t) => {
  const upload = await anUpload('multipart', 0)
  const placed = await hold('person', people.member.id)
  t.equal((await call(people.member, 'DELETE', upload.path)).status, 204)
  const keep = () => keepHeldParts(db, store, { log: quietLog() })
  t.strictSame([await keep(), await keep()], [1, 0])
  await releaseHold(db, placed.id)
  await sweep()
})

t.test('of an upload that lacks a part, what has arrived becomes an object', async (t) => {
  const size = 5 * 1024 ** 2
  const content = fakeMp4(2 * size + 5)
  const json = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: content.length, chunk_size_bytes: size }
  const { upload_id } = (await call(people.member, 'POST', `/api/media/${org}/upload`, { json })).data
  const path = `/api/media/${org}/upload/${upload_id}`
  const chunk = (index: number) => content.subarray(index * size, (index + 1) * size)
  for (const index of [0, 2])
    t.equal((await call(people.member, 'PUT', `${path}/${index}`, { bytes: chunk(index) })).status, 200)
  const placed = await hold('person', people.member.id)
  t.equal((await call(people.member, 'DELETE', path)).status, 204)
  t.equal(await keepHeldParts(db, store, { log: quietLog() }), 1)
  const [row] = await sql('select org_id, media_id from uploads where id = $1', [uuidOf('upload', upload_id)])
  const made = await buffer((await store.get(originalKey(row.org_id, row.media_id))).body)
  t.ok(made.equals(Buffer.concat([chunk(0), chunk(2)])))
  await releaseHold(db, placed.id)
  await sweep()
  t.strictSame(await api.keys(mediaPrefix(row.org_id, row.media_id)), [])
})

t.test('the chunks of a merged upload go under a hold, which keeps its media item', async (t) => {
  const upload = await anUpload('staged')
  const placed = await hold('person', people.member.id)
  t.equal((await upload.merge(createHash('sha256').update(bytes).digest('hex'))).status, 201)
  await eventually('the chunks to go', async () => (await upload.stored()).length === 1)
  await sweep()
  t.match((await upload.stored())[0], /original$/)
  t.strictSame(await upload.rowOf(), { state: 'completed', released: true })
  await releaseHold(db, placed.id)
})

t.test('a chunk that comes after the end of its session removes none that a hold keeps', async (t) => {
  const upload = await anUpload('staged')
  const before = await upload.stored()
  const placed = await hold('person', people.member.id)
  const { put } = store
  store.put = async (...given) => {
    store.put = put
    t.equal((await call(people.member, 'DELETE', upload.path)).status, 204)
    return store.put(...given)
  }
  t.equal((await upload.put(1)).code, 'UPLOAD_EXPIRED')
  t.strictSame(await upload.stored(), before)
  await releaseHold(db, placed.id)
  await sweep()
  t.strictSame(await upload.stored(), [])
})

// ---------------------------------------------------------------- erasures

async function aMember(): Promise<Person> {
  const person = await aPerson(api)
  await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [orgId, person.id])
  return person
}
async function ask(person: Person) {
  const { data } = await call(people.platformAdmin, 'POST', '/gdpr/anonymize', {
    json: { user_id: person.wireId, confirm: true },
  })
  return { id: uuidOf('anonymization', data.anonymization_id), token: data.follow_token, wireId: data.anonymization_id }
}
/** A comment and a reaction in an event of someone else. */
async function traces(person: Person) {
  const event = await anEvent(api, { org, orgId, owner: people.owner })
  const [comment, reaction] = [newUuid(), newUuid()]
  await sql(
    `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body)
      values ($1, $2, $3, 'meta', $3, 'event', $4, 'Evidence')`,
    [comment, orgId, event.id, person.id],
  )
  await sql(
    `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji, audience)
      values ($1, $2, $3, 'meta', $3, $4, '🎉', 'event')`,
    [reaction, orgId, event.id, person.id],
  )
  return { event: event.id, comment, reaction }
}
const bodiesOf = (comments: Uuid[]) =>
  sql('select body, deleted_at from comments where id = any($1) order by id', [comments])
const WHOLE = { body: 'Evidence', deleted_at: null }

for (const kind of ['event', 'organization'] as const) {
  t.test(`an erasure waits for a hold on an ${kind} in which the person has left anything, and says so`, async (t) => {
    const person = await aMember()
    const left = await traces(person)
    const placed = await hold(kind, kind === 'event' ? left.event : orgId)
    const asked = await ask(person)
    const deps = eraseDeps(api, cluster)
    t.match(await carryOut(deps, ERASE_STEPS, asked.id), { againAfterMs: 600_000 })
    t.strictSame(await bodiesOf([left.comment]), [WHOLE])
    t.ok(await exists('reactions', left.reaction))
    t.ok((await sql('select closed_at from users where id = $1', [person.id]))[0]?.closed_at, 'the account is closed')
    const path = `/gdpr/anonymize/${asked.wireId}`
    const headers = { 'X-Anonymization-Token': asked.token }
    const show = async () => (await call(undefined, 'GET', path, { headers })).data
    const waiting = await show()
    t.match(waiting, { status: 'processing', held_since: /Z$/, certificate: null })
    await carryOut(deps, ERASE_STEPS, asked.id)
    t.equal((await show()).held_since, waiting.held_since, 'since the first look')
    await releaseHold(db, placed.id)
    await eraseWhole(deps, asked.id)
    t.notOk(await exists('comments', left.comment))
    t.match(await show(), { status: 'completed', held_since: null })
  })
}

/** The erasure waits, says so, and has changed nothing; it goes on when the hold ends. */
async function waitsForTheEnd(t: Test, person: Person, placed: { id: Uuid }, isWhole: () => Promise<void>) {
  const asked = await ask(person)
  const deps = eraseDeps(api, cluster)
  const heldSince = async () => (await sql('select held_since from erasures where id = $1', [asked.id]))[0]?.held_since
  t.match(await carryOut(deps, ERASE_STEPS, asked.id), { againAfterMs: 600_000 })
  t.ok(await heldSince())
  await isWhole()
  await releaseHold(db, placed.id)
  await eraseWhole(deps, asked.id)
  t.equal(await heldSince(), null)
}
const made = archiveWorld({ admin, store, org: orgId, user: people.another.id })

t.test(
  'an erasure that waits keeps the message of a passed invitation and the sign-ins, and shows neither',
  async (t) => {
    const person = await aMember()
    await sql(`insert into sessions (user_id, sid, first_seen_at) values ($1, 'phone', now())`, [person.id])
    const event = await anEvent(api, { org, orgId, owner: people.owner })
    const json = { email: `${newUuid()}@example.org`, message: 'Evidence' }
    await sql(`update memberships set role = 'admin' where user_id = $1`, [person.id])
    const { data } = await call(person, 'POST', `/api/orgs/${org}/events/${event.wireId}/invitations`, { json })
    const id = asInvitation(data).id
    const rowOf = async () =>
      (await sql('select invited_by, message, former_inviter, former_message from invitations where id = $1', [id]))[0]
    const passed = { invited_by: people.owner.id, message: null }
    await waitsForTheEnd(t, person, await hold('person', person.id), async () => {
      t.strictSame(await rowOf(), { ...passed, former_inviter: person.id, former_message: 'Evidence' })
      t.equal((await sql('select from sessions where user_id = $1', [person.id])).length, 1)
      t.equal((await call(person, 'GET', '/api/users/me')).status, 401)
      const list = await call(people.owner, 'GET', `/api/orgs/${org}/events/${event.wireId}/invitations`)
      t.equal(list.status, 200)
      t.notMatch(JSON.stringify(list.data), /Evidence/)
    })
    t.strictSame(await rowOf(), { ...passed, former_inviter: null, former_message: null })
    t.equal((await sql('select from sessions where user_id = $1', [person.id])).length, 0)
  },
)

t.test('the end of an erasure removes what a worker of the release before does not know of', async (t) => {
  const person = await aMember()
  const event = await anEvent(api, { org, orgId, owner: people.owner })
  const json = { email: `${newUuid()}@example.org` }
  const { data } = await call(people.owner, 'POST', `/api/orgs/${org}/events/${event.wireId}/invitations`, { json })
  const { id } = asInvitation(data)
  const { id: asked } = await ask(person)
  // After the steps that remove it.
  const steps = ERASE_STEPS.map((step) => {
    if (step.name !== 'events.messages') return step
    const run: typeof step.run = async (...given) => {
      await sql(`update invitations set former_inviter = $2, former_message = 'Hello' where id = $1`, [id, person.id])
      await sql('update events set purge_notice_to = $2 where id = $1', [event.id, person.id])
      return step.run(...given)
    }
    return { ...step, run }
  })
  await eraseWhole(eraseDeps(api, cluster), asked, steps)
  t.strictSame(await sql('select former_inviter, former_message from invitations where id = $1', [id]), [
    { former_inviter: null, former_message: null },
  ])
  t.strictSame(await sql('select purge_notice_to from events where id = $1', [event.id]), [{ purge_notice_to: null }])
})

t.test('passed invitations and mentions of a person are found by their indexes', async (t) => {
  const { rows } = await db.inTransaction({}, async (tx) => {
    await tx.execute(orm`set local enable_seqscan = off`)
    const asked = hasTracesIn(orm`${orgId}::uuid`, orm`${people.member.id}::uuid`)
    return tx.execute<{ 'QUERY PLAN': string }>(orm`explain select ${asked}`)
  })
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
  t.match(plan, /invitations_by_former_inviter.*\n *Index Cond: \(former_inviter = /)
  t.match(plan, /highlight_items_by_captioner.*\n *Index Cond: \(caption_by = /)
  t.match(plan, /comments_by_mention.*\n *Index Cond: \(mentions @> /)
  t.match(plan, /comments_by_given_mention.*\n *Index Cond: \(mentions_given @> /)
  t.match(plan, /comment_versions_by_mention.*\n *Index Cond: \(mentions @> /)
})

const MENTIONS = {
  'a comment of another': { current: true, given: true, earlier: false },
  'a comment, without a notification': { current: false, given: true, earlier: false },
  'an earlier version of a comment': { current: false, given: false, earlier: true },
}
for (const [where, { current, given, earlier }] of Object.entries(MENTIONS)) {
  t.test(`an erasure waits for a hold on an organization where only ${where} mentions the person`, async (t) => {
    const person = await aMember()
    const event = await anEvent(api, { org, orgId, owner: people.owner })
    const comment = newUuid()
    const body = `Thanks to @${person.wireId}`
    const these = (isThere: boolean) => (isThere ? [person.id] : [])
    await sql(
      `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body, mentions, mentions_given)
        values ($1, $2, $3, 'meta', $3, 'event', $4, $5, $6, $7)`,
      [comment, orgId, event.id, people.owner.id, earlier ? 'Thanks' : body, these(current), these(given)],
    )
    await sql(
      `insert into comment_versions (comment_id, version, org_id, body, mentions, media_ids, written_at)
        values ($1, 1, $2, $3, $4, '{}', now())`,
      [comment, orgId, body, these(earlier)],
    )
    const words = async () => [
      ...(await sql('select body, mentions, mentions_given from comments where id = $1', [comment])),
      ...(await sql('select body, mentions from comment_versions where comment_id = $1', [comment])),
    ]
    const before = await words()
    await waitsForTheEnd(t, person, await hold('organization', orgId), async () => {
      t.strictSame(await words(), before)
    })
    t.notMatch(JSON.stringify(await words()), person.wireId)
  })
}

/** A highlight of another member, with its files, and of which item the person has uploaded or what. */
async function aHighlight(column: 'uploader_id' | 'caption_by', person: Person) {
  const id = await made.aHighlight(await made.anAlbum(null), [await made.aMedia()])
  await sql(
    `update highlights set output_prefix = 'g1/', hls_master = 'master.m3u8', captions = 'caption' where id = $1`,
    [id],
  )
  await sql(`update highlight_items set caption = 'Words', ${column} = $2 where highlight_id = $1`, [id, person.id])
  await store.put(`${highlightPrefix(orgId, id)}g1/master.m3u8`, 'x', { contentType: 'text/plain' })
  const files = () => api.keys(highlightPrefix(orgId, id))
  return { id, files }
}

for (const column of ['uploader_id', 'caption_by'] as const) {
  t.test(`an erasure waits for a hold on the maker of a highlight with the person as ${column}`, async (t) => {
    const person = await aMember()
    const { id, files } = await aHighlight(column, person)
    const placed = await hold('person', people.another.id)
    await waitsForTheEnd(t, person, placed, async () => {
      t.match(await sql('select status, output_prefix from highlights where id = $1', [id]), [
        { status: 'completed', output_prefix: 'g1/' },
      ])
    })
    t.strictSame(await files(), [])
  })
}

t.test('the same for a hold that comes when the highlight is withdrawn, and the words are gone', async (t) => {
  const person = await aMember()
  const { id, files } = await aHighlight('caption_by', person)
  const asked = await ask(person)
  const steps = ERASE_STEPS.map((step) => {
    if (step.name !== 'highlights.withdrawal') return step
    const run: typeof step.run = async (...given) => {
      const done = await step.run(...given)
      await hold('person', people.another.id)
      return done
    }
    return { ...step, run }
  })
  t.match(await carryOut(eraseDeps(api, cluster), steps, asked.id), { againAfterMs: 600_000 })
  t.match(await sql('select status from highlights where id = $1', [id]), [{ status: 'failed' }])
  t.equal((await files()).length, 1)
  await sql('delete from legal_holds')
  await eraseWhole(eraseDeps(api, cluster), asked.id)
  t.strictSame(await files(), [])
})

t.test('an erasure waits for a hold on an event where an edit has removed a media item of the person', async (t) => {
  const person = await aMember()
  const event = await made.anEvent({ status: 'active' })
  const [media, comment] = [await made.aMedia({ by: person.id }), await made.aComment(event, [])]
  await sql(
    `insert into comment_versions (comment_id, version, org_id, body, media_ids, mentions, written_at)
      values ($1, 1, $2, 'Hello', $3, '{}', now())`,
    [comment, orgId, [media]],
  )
  await waitsForTheEnd(t, person, await hold('event', event), async () => {
    t.match(await sql('select deleted_at from media where id = $1', [media]), [{ deleted_at: null }])
  })
  t.notOk(await exists('media', media))
})

t.test('a hold waits for a transaction that keeps holds away for longer than a lock may take', async (t) => {
  const person = await aMember()
  const [locked, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const step = db.inTransaction({}, async (tx) => {
    await lockHolds(tx)
    locked.resolve()
    await mayEnd.promise
  })
  await locked.promise
  const placed = hold('person', person.id)
  const waits = (n: number) => eventually(`${n} to wait`, async () => (await waitingIn(database)) === n)
  await waits(1)
  await waits(0)
  await waits(1)
  mayEnd.resolve()
  await step
  t.match(await placed, { added: true })
})

t.test('an erasure goes on beside a hold on an event in which the person has nothing', async (t) => {
  const person = await aMember()
  const left = await traces(person)
  await hold('event', (await anEvent(api, { org, orgId, owner: people.owner })).id)
  await eraseWhole(eraseDeps(api, cluster), (await ask(person)).id)
  t.notOk(await exists('comments', left.comment))
})

t.test('a hold that comes within a step stops it at its next transaction', async (t) => {
  const person = await aMember()
  const comments = [(await traces(person)).comment, (await traces(person)).comment]
  const asked = await ask(person)
  const steps = ERASE_STEPS.map((step) => {
    if (step.name !== 'discussions.comments') return step
    const run: typeof step.run = async (...given) => {
      await hold('organization', orgId)
      return step.run(...given)
    }
    return { ...step, run }
  })
  t.match(await carryOut(eraseDeps(api, cluster), steps, asked.id), { againAfterMs: 600_000 })
  t.strictSame(await bodiesOf(comments), [WHOLE, WHOLE])
  const state = `select state from erasure_steps where erasure_id = $1 and step = 'discussions.comments'`
  t.strictSame(await sql(state, [asked.id]), [{ state: 'pending' }])
  await sql('delete from legal_holds')
  await eraseWhole(eraseDeps(api, cluster), asked.id)
  t.strictSame(await bodiesOf(comments), [])
})

t.test('an erasure goes on at the end of a hold, also with what a run has found held and put off', async (t) => {
  const person = await aMember()
  const media = await made.aMedia({ by: person.id })
  await sql(`update media set deleted_at = now() - interval '40 days', deleted_by = uploader_id where id = $1`, [media])
  const placed = await hold('person', person.id)
  const run = { db, store, log: quietLog(), signal: new AbortController().signal, waitMs: 5, pauseMs: () => 1 }
  t.match(await carryOutRun(run, mediaTrash, aRun('MediaTrash')), { purged: 0, reason: /1 due item is kept/ })
  const asked = await ask(person)
  const deps = eraseDeps(api, cluster)
  t.match(await carryOut(deps, ERASE_STEPS, asked.id), { againAfterMs: 600_000 })

  const woken: (string | undefined)[] = []
  const listener = await admin.connect()
  t.teardown(() => listener.release(true))
  listener.on('notification', ({ payload }) => woken.push(payload))
  await listener.query('listen erasures')
  await releaseHold(db, placed.id)
  await eventually('the erasure is woken', async () => woken.includes(asked.id))
  t.equal(await carryOut(deps, ERASE_STEPS, asked.id), undefined, 'it is completed')
  t.notOk(await exists('media', media))
})
