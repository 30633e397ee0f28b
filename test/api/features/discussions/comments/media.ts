import t, { type Test } from 'tap'
import { drizzle } from '../../../../../api/db/orm.ts'
import * as schema from '../../../../../api/db/schema/index.ts'
import { listReaders } from '../../../../../api/features/discussions/comments/targets.ts'
import { findEvent } from '../../../../../api/features/events/queries.ts'
import { deletePurged } from '../../../../../api/features/media/deletion/purge-queries.ts'
import { formatId, newUuid } from '../../../../../lib/contract/ids.ts'
import { type Answer, type Person, startTestApi, uuidOf } from '../../../../support/api.ts'
import { aMediaItem, anAlbum, idIn, threadsIn } from '../../../../support/comments.ts'
import { aMember } from '../../../../support/organizations.ts'

/** Media items that are attached to comments, and comments and reactions on media items. */
const api = await startTestApi(t)
const { people, org, otherOrg, call, database } = api
const { owner, admin, member, another, stranger } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)
const { event, at, post, posted, react } = threadsIn(api, { org, orgId, owner: member })
const participant = await aMember(api, orgId)

const photo = () => aMediaItem(api, { orgId, uploader: member })
const get = (who: Person, path: string) => call(who, 'GET', path)
const edit = (who: Person, path: string, json: object) => call(who, 'PATCH', path, { json })
const removeMedia = (who: Person, id: string) => call(who, 'DELETE', `/api/media/${org}/${id}`)
const restoreMedia = (who: Person, id: string) => call(who, 'POST', `/api/media/${org}/${id}/restore`)
/** As the worker does, whose role owns nothing. */
const purge = (id: string) =>
  database.worker.inTransaction({}, (tx) => deletePurged(tx, [{ id: uuidOf('media', id), orgId }], 60))
const isMissing = (t: Test, { status, code }: { status: number; code: string | undefined }, what: string) =>
  t.strictSame([status, code], [404, 'NOT_FOUND'], what)

t.test('only media items that one can see are attached', async (t) => {
  const party = await event()
  const [good, deleted] = [await photo(), await photo()]
  await removeMedia(member, deleted)
  const foreign = await aMediaItem(api, { orgId: uuidOf('organization', otherOrg), uploader: stranger })
  const path = await posted(another, at(party))
  for (const wrong of [deleted, foreign, uuidOf('media', foreign), formatId('media', newUuid())]) {
    for (const answer of [
      await post(another, at(party), { body: 'x', media_ids: [good, wrong] }),
      await edit(another, path, { media_ids: [good, wrong] }),
    ]) {
      t.strictSame([answer.status, answer.code], [422, 'MEDIA_NOT_AVAILABLE'])
      t.match(answer.body.error.details, [{ field: 'body.media_ids.1' }])
    }
  }
  t.match((await get(another, at(party))).data.comments, [{ media_ids: { length: 0 } }])
  const four = [await photo(), await photo(), good, await photo()]
  t.match(await edit(another, path, { media_ids: four }), { status: 200, data: { media_ids: four } }, 'in this order')
  t.match(await edit(another, path, { media_ids: four.toReversed() }), { data: { media_ids: four.toReversed() } })
})

t.test('a deleted media item is not shown, and comes back at its place', async (t) => {
  const all = [await photo(), await photo(), await photo()]
  const [first, second, third] = all as [string, string, string]
  const path = await posted(another, at(await event()), { body: 'x', media_ids: all })
  await removeMedia(member, second)
  t.strictSame((await get(owner, path)).data.media_ids, [first, third])
  t.match((await edit(another, path, { body: 'y' })).data, { body: 'y', media_ids: [first, third] })
  await restoreMedia(member, second)
  t.strictSame((await get(owner, path)).data.media_ids, all)
})

t.test('a purged media item is gone, and its comment stays', async (t) => {
  const [first, second] = [await photo(), await photo()]
  const party = await event()
  const path = await posted(another, at(party), { body: 'x', media_ids: [first, second] })
  const about = await posted(owner, at(party, 'media', first))
  await removeMedia(member, first)
  await purge(first)
  t.match((await get(owner, path)).data, { body: 'x', media_ids: [second] })
  isMissing(t, await get(owner, about), 'what was said about it')
  t.match(await edit(another, path, { body: 'y' }), { status: 200, data: { media_ids: [second] } })
  t.equal((await call(owner, 'DELETE', about)).status, 204, 'the author can still remove it')
})

t.test('what is attached to a comment of the event can be commented on there, and nowhere else', async (t) => {
  const [party, other] = [await event(), await event()]
  const [shown, unused] = [await photo(), await photo()]
  const path = await posted(another, at(party), { body: 'x', media_ids: [shown] })
  const about = await posted(owner, at(party, 'media', shown))
  t.match((await get(admin, about)).data, { target: { type: 'media', id: shown } })
  t.match((await get(admin, at(party, 'media', uuidOf('media', shown)))).data, { comments: [{ body: 'Hello' }] })
  t.equal((await react(admin, party, '🔥', 'media', shown)).status, 201)
  const reply = await posted(another, at(party, 'comment', idIn(about)), { body: 'x', media_ids: [unused] })
  t.equal((await post(owner, at(party, 'media', unused))).status, 201, 'attached to a reply to a comment on it')
  for (const [where, id] of [
    [other, shown],
    [party, await photo()],
    [party, formatId('media', newUuid())],
  ] as const) {
    isMissing(t, await post(owner, at(where, 'media', id)), 'no comment')
    isMissing(t, await get(owner, at(where, 'media', id)), 'no list')
    isMissing(t, await react(owner, where, '🔥', 'media', id), 'no reaction')
  }
  await call(another, 'DELETE', reply)
  isMissing(t, await post(owner, at(party, 'media', unused)), 'its comment was deleted')
  await edit(another, path, { media_ids: [] })
  isMissing(t, await get(owner, about), 'it is attached no more')
  await edit(another, path, { media_ids: [shown] })
  t.equal((await get(owner, about)).status, 200)
  await removeMedia(member, shown)
  for (const answer of [
    await get(owner, about),
    await post(owner, at(party, 'media', shown)),
    await post(owner, at(party, 'comment', idIn(about))),
    await react(owner, party, '🔥', 'media', shown),
    await react(owner, party, '🔥', 'comment', idIn(about)),
    await edit(owner, about, { body: 'y' }),
  ]) {
    isMissing(t, answer, 'the media item was deleted')
  }
  await restoreMedia(member, shown)
  t.equal((await get(owner, about)).status, 200)
})

const SEEN: [status: string, visibility: string, by: readonly Person[]][] = [
  ['DRAFT', 'organization', [owner, admin, member]],
  ['ARCHIVE', 'organization', [owner, admin, member]],
  ['PUBLIC', 'private', [owner, admin, member]],
  ['PUBLIC', 'participants', [owner, admin, member, participant]],
  ['PUBLIC', 'organization', [owner, admin, member, participant, another]],
]
for (const [status, visibility, by] of SEEN) {
  t.test(`what is in a ${status} album for ${visibility} is for those who see the album`, async (t) => {
    const party = await event()
    await sql(
      `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
      [party.id, participant.id, orgId],
    )
    const shown = await photo()
    await anAlbum(api, party, { orgId, owner: member, status, visibility, media: [shown] })
    const about = await posted(member, at(party, 'media', shown))
    const reply = await posted(member, at(party, 'comment', idIn(about)))
    for (const who of [owner, admin, member, participant, another]) {
      const sees = by.includes(who)
      const answers = [
        await get(who, about),
        await get(who, at(party, 'media', shown)),
        await get(who, reply),
        await get(who, at(party, 'comment', idIn(about))),
        await post(who, at(party, 'media', shown)),
        await post(who, at(party, 'comment', idIn(about))),
        await react(who, party, '🔥', 'media', shown),
        await react(who, party, '🔥', 'comment', idIn(about)),
        await react(who, party, '🔥', 'comment', idIn(reply)),
      ]
      for (const answer of answers) if (sees) t.ok(answer.status < 300)
      for (const answer of answers) if (!sees) isMissing(t, answer, 'not seen')
    }
    isMissing(t, await get(stranger, about), 'a stranger')
    isMissing(t, await post(member, at(await event(), 'media', shown)), 'another event')
    isMissing(t, await post(member, at(party, 'media', await photo())), 'a media item that is not in the album')
  })
}

t.test('a refused look into an album is in the audit log, and its answer says nothing of it', async (t) => {
  const party = await event()
  const [hidden, absent, shown] = [await photo(), await photo(), await photo()]
  const album = await anAlbum(api, party, { orgId, owner: member, visibility: 'private', media: [hidden, shown] })
  const about = idIn(await posted(member, at(party, 'media', hidden)))
  const behind = idIn(await posted(member, at(party, 'media', shown)))
  await posted(another, at(party), { body: 'x', media_ids: [shown] })
  const looks: [what: string, look: (who: Person, id: string) => Promise<Answer>, id: string, other: string][] = [
    ['list', (who, id) => get(who, at(party, 'media', id)), hidden, absent],
    ['comment', (who, id) => post(who, at(party, 'media', id)), hidden, absent],
    ['reaction', (who, id) => react(who, party, '🔥', 'media', id), hidden, absent],
    ['replies', (who, id) => get(who, at(party, 'comment', id)), about, formatId('comment', newUuid())],
    [
      'reaction to a comment',
      (who, id) => react(who, party, '🔥', 'comment', id),
      about,
      formatId('comment', newUuid()),
    ],
    [
      'comment behind it',
      (who, id) => get(who, `${at(party, 'media', shown)}/${id}`),
      behind,
      formatId('comment', newUuid()),
    ],
  ]
  for (const [what, look, id, other] of looks) {
    // Repeats by one user are counted and not written each.
    const [looker, stranger] = [await aMember(api, orgId), await aMember(api, orgId)]
    const [refused, missing] = [await look(looker, id), await look(stranger, other)]
    isMissing(t, refused, what)
    const { request_id: _, ...error } = refused.body.error
    t.match(missing.body.error, error, `${what}: the same answer`)
    t.strictSame(error.details, missing.body.error.details, what)
    const denials = `select resource_id, result, details->>'permission' as permission from audit_log
      where action = 'ACCESS_DENIED' and actor_id = $1`
    t.strictSame(
      await sql(denials, [looker.id]),
      [{ resource_id: album, result: 'denied', permission: 'album.read' }],
      what,
    )
    t.strictSame(await sql(denials, [stranger.id]), [], what)
  }
})

t.test('attaching a media item opens nothing that was said about it in an album', async (t) => {
  const party = await event()
  const shown = await photo()
  await anAlbum(api, party, { orgId, owner: member, status: 'DRAFT', media: [shown] })
  const inside = await posted(member, at(party, 'media', shown), { body: 'Inside' })
  isMissing(t, await get(another, inside), 'before')
  await posted(another, at(party), { body: 'x', media_ids: [shown] })
  const outside = await posted(another, at(party, 'media', shown), { body: 'Outside' })
  const bodies = async (who: Person) =>
    (await get(who, at(party, 'media', shown))).data.comments.map(({ body }: { body: string }) => body)
  t.strictSame(await bodies(another), ['Outside'])
  t.strictSame(await bodies(member), ['Outside', 'Inside'])
  for (const answer of [
    await get(another, inside),
    await get(another, at(party, 'comment', idIn(inside))),
    await post(another, at(party, 'comment', idIn(inside))),
    await react(another, party, '🔥', 'comment', idIn(inside)),
  ]) {
    isMissing(t, answer, 'behind the album')
  }
  t.equal((await post(member, at(party, 'comment', idIn(outside)), { body: 'In reply' })).status, 201)
  t.match((await get(another, at(party, 'comment', idIn(outside)))).data.comments, [{ body: 'In reply' }])
})

t.test('what is attached behind an album is behind it too', async (t) => {
  const party = await event()
  const [shown, hidden] = [await photo(), await photo()]
  await anAlbum(api, party, { orgId, owner: member, status: 'DRAFT', media: [shown] })
  await posted(member, at(party, 'media', shown), { body: 'x', media_ids: [hidden] })
  t.equal((await post(owner, at(party, 'media', hidden))).status, 201)
  isMissing(t, await post(another, at(party, 'media', hidden)), 'not for those who do not see the album')
})

t.test('behind an album, only those who see it are mentioned', async (t) => {
  const party = await event()
  const shown = await photo()
  const album = await anAlbum(api, party, { orgId, owner: member, visibility: 'participants', media: [shown] })
  await sql(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
    [party.id, participant.id, orgId],
  )
  const about = at(party, 'media', shown)
  for (const who of [owner, member, participant]) {
    t.equal((await post(admin, about, { body: 'x', mentions: [who.wireId] })).status, 201)
  }
  t.match(await post(admin, about, { body: 'x', mentions: [another.wireId] }), {
    status: 400,
    body: { error: { details: [{ field: 'body.mentions.0' }] } },
  })
  const path = await posted(admin, about)
  const replies = at(party, 'comment', idIn(path))
  t.equal((await post(admin, replies, { body: `@${another.wireId}` })).status, 400, 'in a reply')
  t.equal((await edit(admin, path, { mentions: [another.wireId] })).status, 400, 'in an edit')
  await sql(`update albums set visibility = 'organization' where id = $1`, [album])
  t.equal((await post(admin, replies, { body: `@${another.wireId}` })).status, 201)
  const told = await sql(
    `select payload->>'audience' as audience from outbox where type = 'CommentPosted' and payload->>'event_id' = $1`,
    [party.wireId],
  )
  t.strictSame([...new Set(told.map(({ audience }) => audience))], ['album'])
})

t.test('when an album opens, so does what was said in it', async (t) => {
  const party = await event()
  const shown = await photo()
  const album = await anAlbum(api, party, { orgId, owner: member, status: 'DRAFT', media: [shown] })
  const about = await posted(member, at(party, 'media', shown))
  isMissing(t, await get(another, about), 'DRAFT')
  await sql(`update albums set status = 'PUBLIC' where id = $1`, [album])
  t.equal((await get(another, about)).status, 200)
  t.match(await edit(member, about, { body: 'y' }), { status: 200 })
  await sql('delete from album_media where album_id = $1', [album])
  isMissing(t, await get(another, about), 'removed from the album')
  isMissing(t, await edit(member, about, { body: 'z' }), 'also for its author')
  t.equal((await call(member, 'DELETE', about)).status, 204, 'who can still remove it')
})

t.test('an edit mentions those who see the comment, wherever its media item has gone since', async (t) => {
  const party = await event()
  const [left, joined] = [await photo(), await photo()]
  const album = await anAlbum(api, party, { orgId, owner: member, status: 'DRAFT', media: [left] })
  const inside = await posted(member, at(party, 'media', left))
  await posted(another, at(party), { body: 'x', media_ids: [left, joined] })
  const outside = await posted(member, at(party, 'media', joined))
  await sql('update album_media set media_id = $2 where album_id = $1', [album, uuidOf('media', joined)])
  isMissing(t, await get(another, inside), 'it is for those who see the album')
  t.match(await edit(member, inside, { mentions: [another.wireId] }), {
    status: 400,
    body: { error: { details: [{ field: 'body.mentions.0' }] } },
  })
  t.equal((await get(another, outside)).status, 200)
  t.equal((await edit(member, outside, { mentions: [another.wireId] })).status, 200)
})

t.test('whom a comment may mention is asked once, however many they are', async (t) => {
  const party = await event()
  await anAlbum(api, party, { orgId, owner: member, visibility: 'participants' })
  const guests = [...(await Promise.all(Array.from({ length: 5 }, () => aMember(api, orgId)))), participant]
  await sql(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at)
      select $1, guest, $2, 'accepted', now() from unnest($3::uuid[]) guest`,
    [party.id, orgId, guests.map(({ id }) => id)],
  )
  const queries: string[] = []
  const tx = drizzle(database.admin, {
    schema,
    casing: 'snake_case',
    logger: { logQuery: (text) => queries.push(text) },
  })
  const row = await findEvent(tx, orgId, party.id)
  if (!row) throw new Error('the event is gone')
  const asked = async (people: Person[]) => {
    queries.length = 0
    const userIds = people.map(({ id }) => id)
    const found = await listReaders(tx, { orgId, event: row, audience: 'album', userIds })
    return { found: found.sort(), queries: queries.length }
  }
  const one = await asked([participant])
  t.strictSame(one.found, [participant.id])
  const all = await asked([...guests, another, stranger])
  t.strictSame(all.found, guests.map(({ id }) => id).sort())
  t.equal(all.queries, one.queries)
})
