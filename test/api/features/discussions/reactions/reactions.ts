import t, { type Test } from 'tap'
import { formatId, newUuid } from '../../../../../lib/contract/ids.ts'
import { type Person, startTestApi, uuidOf } from '../../../../support/api.ts'
import { aMediaItem, anAlbum, idIn, threadsIn } from '../../../../support/comments.ts'
import type { MadeEvent } from '../../../../support/events.ts'
import { aMember } from '../../../../support/organizations.ts'

const api = await startTestApi(t)
const { people, org, call, database } = api
const { owner, admin, member, another, stranger } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)
const { event, at, posted, react } = threadsIn(api, { org, orgId, owner: member })

const remove = (who: Person, party: MadeEvent, id: string, type = 'meta') =>
  call(who, 'DELETE', `/api/orgs/${org}/events/${party.wireId}/reactions/${type}/${id}`)
const NONE = { '❤️': 0, '😂': 0, '🎉': 0, '😢': 0, '👏': 0, '🔥': 0 }
const shown = async (who: Person, { wireId }: MadeEvent) => {
  const { reaction_counts: counts, my_reaction: mine } = (await call(who, 'GET', `/api/orgs/${org}/events/${wireId}`))
    .data
  return { counts, mine: mine?.emoji ?? null }
}
const told = async (id: string) =>
  sql(`select type, payload, aggregate_version from outbox where aggregate_id = $1 order by aggregate_version`, [
    uuidOf('reaction', id),
  ])
const audited = async (id: string) =>
  sql('select action, details, actor_id from audit_log where resource_id = $1 order by occurred_at, id', [
    uuidOf('reaction', id),
  ])
const isMissing = (t: Test, { status, code }: { status: number; code: string | undefined }, what: string) =>
  t.strictSame([status, code], [404, 'NOT_FOUND'], what)

t.test('one reaction of a user: new, the same, another, removed', async (t) => {
  const party = await event()
  const first = await react(another, party, '🎉')
  const id = first.data.reaction_id
  t.match(id, /^rxn_/)
  t.strictSame([first.status, first.data], [201, { reaction_id: id, emoji: '🎉', counts: { ...NONE, '🎉': 1 } }])
  const same = await react(another, party, '🎉')
  t.strictSame([same.status, same.data], [200, first.data])
  const other = await react(another, party, '😂')
  t.strictSame([other.status, other.data], [200, { reaction_id: id, emoji: '😂', counts: { ...NONE, '😂': 1 } }])
  t.strictSame(await shown(another, party), { counts: { ...NONE, '😂': 1 }, mine: '😂' })
  t.strictSame(await shown(owner, party), { counts: { ...NONE, '😂': 1 }, mine: null })
  const about = {
    reaction_id: id,
    target_type: 'meta',
    target_id: party.wireId,
    audience: 'event',
    event_id: party.wireId,
    org_id: org,
    user_id: another.wireId,
  }
  t.strictSame(await told(id), [
    { type: 'reaction_added', payload: { ...about, emoji: '🎉' }, aggregate_version: 1 },
    { type: 'reaction_added', payload: { ...about, emoji: '😂' }, aggregate_version: 2 },
  ])
  const removed = await remove(another, party, id)
  t.strictSame([removed.status, removed.body.length], [204, 0])
  isMissing(t, await remove(another, party, id), 'a repeat')
  t.strictSame(await shown(another, party), { counts: NONE, mine: null })
  const by = (action: string, details: object) => ({
    action,
    details: { event_id: party.wireId, ...details },
    actor_id: another.id,
  })
  t.strictSame(await audited(id), [
    by('REACTION_CREATE', { operation: 'new' }),
    by('REACTION_CREATE', { operation: 'other emoji' }),
    by('REACTION_DELETE', {}),
  ])
  const again = await react(another, party, '😂')
  t.equal(again.status, 201)
  t.not(again.data.reaction_id, id)
})

t.test('the heart is one, with and without its selector', async (t) => {
  const party = await event()
  t.match(await react(another, party, '\u2764'), { status: 201, data: { emoji: '\u2764\uFE0F' } })
  t.match(await react(another, party, '\u2764\uFE0F'), { status: 200 })
  t.match(await react(owner, party, '\u{1F525}\uFE0F'), { status: 201, data: { emoji: '\u{1F525}' } })
  t.strictSame((await shown(owner, party)).counts, { ...NONE, '\u2764\uFE0F': 1, '🔥': 1 })
})

t.test('each user and each target count for themselves', async (t) => {
  const [party, other] = [await event(), await event()]
  const comment = idIn(await posted(another, at(party)))
  const reply = idIn(await posted(another, at(party, 'comment', comment)))
  await react(owner, party, '🎉')
  await react(admin, party, '🎉')
  await react(member, party, '👏')
  await react(owner, other, '🎉')
  await react(owner, party, '🔥', 'comment', comment)
  t.match(await react(owner, party, '😢', 'comment', reply), { status: 201, data: { counts: { ...NONE, '😢': 1 } } })
  t.strictSame((await shown(another, party)).counts, { ...NONE, '🎉': 2, '👏': 1 })
  t.strictSame((await shown(another, other)).counts, { ...NONE, '🎉': 1 })
  const listed = (await call(owner, 'GET', `/api/orgs/${org}/events`)).data.events
  const seen = listed.find(({ event_id }: { event_id: string }) => event_id === party.wireId)
  t.match(seen, { reaction_counts: { '🎉': 2, '👏': 1 }, my_reaction: { emoji: '🎉' } })
  const { data } = await call(another, 'GET', `${at(party)}/${comment}`)
  t.strictSame(data.reaction_counts, { ...NONE, '🔥': 1 })
})

t.test('a thread shows the reactions to what it is about', async (t) => {
  const party = await event()
  const photo = await aMediaItem(api, { orgId, uploader: member })
  await anAlbum(api, party, { orgId, owner: member, media: [photo] })
  const comment = await posted(another, at(party))
  const gone = await posted(another, at(party))
  await posted(owner, at(party, 'comment', idIn(gone)))
  const targets: [type: string, id: string][] = [
    ['meta', party.wireId],
    ['comment', idIn(comment)],
    ['comment', idIn(gone)],
    ['media', photo],
  ]
  for (const [n, [type, id]] of targets.entries()) {
    const seen = async (who: Person, query = '') =>
      (await call(who, 'GET', `${at(party, type, id)}${query}`)).data.target
    t.strictSame(await seen(owner), { type, id, reaction_counts: NONE, my_reaction: null })
    const mine = (await react(another, party, '🎉', type, id)).data.reaction_id
    await react(admin, party, '🎉', type, id)
    await react(member, party, '🔥', type, id)
    if (id === idIn(gone)) await call(another, 'DELETE', gone)
    const reaction_counts = { ...NONE, '🎉': 2, '🔥': 1 }
    t.strictSame(await seen(owner), { type, id, reaction_counts, my_reaction: null })
    const own = { type, id, reaction_counts, my_reaction: { reaction_id: mine, emoji: '🎉' } }
    t.strictSame(await seen(another), own)
    t.equal((await remove(another, party, mine, type)).status, 204)
    t.match(await seen(another), { reaction_counts: { '🎉': 1 }, my_reaction: null }, `${n}`)
  }
  const { next_cursor } = (await call(owner, 'GET', `${at(party)}?limit=1&include_deleted=true`)).data
  const second = (await call(owner, 'GET', `${at(party)}?limit=1&include_deleted=true&cursor=${next_cursor}`)).data
  t.match(second.target, { id: party.wireId, reaction_counts: { '🎉': 1, '🔥': 1 } }, 'on each page')
})

t.test('attaching a media item tells nothing of the reactions to it in an album', async (t) => {
  const third = await aMember(api, orgId)
  for (const kind of ['photo', 'Live Photo']) {
    const party = await event()
    const [photo, video] = [
      await aMediaItem(api, { orgId, uploader: member }),
      await aMediaItem(api, { orgId, uploader: member }),
    ]
    const album = await anAlbum(api, party, { orgId, owner: member, visibility: 'private', media: [photo] })
    if (kind === 'Live Photo') {
      // Of before the pairing: a reaction to each half.
      const halves = [photo, video].map((one) => uuidOf('media', one))
      await sql(`update media set kind = 'video' where id = $1`, [halves[1]])
      await sql(
        `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji, audience)
          select gen_random_uuid(), $1, $2, 'media', $3, $4, '😢', 'album'`,
        [orgId, party.id, halves[1], admin.id],
      )
      await sql(
        `update media set paired_media_id = case id when $1 then $2::uuid else $1 end where id in ($1, $2)`,
        halves,
      )
    }
    const before = kind === 'Live Photo' ? { '😢': 1 } : {}
    const seen = async (who: Person) => {
      const { target } = (await call(who, 'GET', at(party, 'media', photo))).data
      return { counts: target.reaction_counts, mine: target.my_reaction?.emoji ?? null }
    }
    t.strictSame((await react(member, party, '🔥', 'media', photo)).data.counts, { ...NONE, ...before, '🔥': 1 }, kind)
    // From here on all can see the media item.
    await posted(another, at(party), { body: 'x', media_ids: [photo] })
    t.strictSame(await seen(another), { counts: NONE, mine: null }, kind)
    t.strictSame((await react(another, party, '🎉', 'media', photo)).data.counts, { ...NONE, '🎉': 1 }, kind)
    t.strictSame(await seen(another), { counts: { ...NONE, '🎉': 1 }, mine: '🎉' })
    t.strictSame(await seen(member), { counts: { ...NONE, ...before, '🔥': 1, '🎉': 1 }, mine: '🔥' })
    // Who sees the album reacts there, also with the same emoji; and is told of as often as the audience changes.
    await sql(`update albums set visibility = 'organization' where id = $1`, [album])
    const inside = await react(another, party, '🎉', 'media', photo)
    t.strictSame([inside.status, inside.data.counts], [200, { ...NONE, ...before, '🔥': 1, '🎉': 1 }], kind)
    t.equal((await react(another, party, '🎉', 'media', photo)).status, 200)
    t.strictSame(
      (await told(inside.data.reaction_id)).map(({ payload }) => payload.audience),
      ['event', 'album'],
    )
    await sql(`update albums set visibility = 'private' where id = $1`, [album])
    t.strictSame([await seen(another), await seen(third)], Array(2).fill({ counts: NONE, mine: null }))
    const back = await react(another, party, '🎉', 'media', photo)
    t.strictSame([back.status, back.data.counts], [200, { ...NONE, '🎉': 1 }])
    t.strictSame(await seen(third), { counts: { ...NONE, '🎉': 1 }, mine: null })
    t.equal((await sql('select from reactions where event_id = $1 and user_id = $2', [party.id, another.id])).length, 1)
  }
})

t.test('a reaction is to something that is there', async (t) => {
  const [party, other] = [await event(), await event()]
  const path = await posted(another, at(party))
  const elsewhere = idIn(await posted(another, at(other)))
  const gone = await posted(another, at(party))
  await call(another, 'DELETE', gone)
  const nowhere: [type: string, id: string][] = [
    ['meta', other.wireId],
    ['meta', formatId('comment', party.id)],
    ['comment', elsewhere],
    ['comment', idIn(gone)],
    ['comment', formatId('comment', newUuid())],
    ['comment', party.wireId],
    ['media', formatId('media', newUuid())],
    ['message', formatId('message', newUuid())],
    ['message', party.wireId],
    ['message', newUuid()],
    ['nonsense', party.wireId],
  ]
  for (const [type, id] of nowhere) isMissing(t, await react(another, party, '🎉', type, id), `${type} ${id}`)
  t.match((await react(another, party, '🎉', 'meta', other.wireId)).body.error.details, [{ field: 'body.action_id' }])
  for (const id of ['nonsense', '', 'evt_', `${party.wireId}0`]) {
    t.match(await react(another, party, '🎉', 'meta', id), {
      status: 400,
      body: { error: { code: 'VALIDATION_ERROR', details: [{ field: 'body.action_id' }] } },
    })
  }
  t.equal((await react(another, party, '🎉', 'meta', party.id)).status, 201, 'a bare UUID is an id')
  t.equal((await react(another, party, '🎉', 'comment', uuidOf('comment', idIn(path)))).status, 201)
})

t.test('any other emoji is refused and changes nothing', async (t) => {
  const party = await event()
  await react(another, party, '🎉')
  for (const emoji of ['👍', '👏🏽', '❤️‍🔥', '👨‍👩‍👧', '🇯🇵', '', 'x'.repeat(1000), '🎉🎉']) {
    t.match(await react(another, party, emoji), {
      status: 400,
      body: { error: { code: 'VALIDATION_ERROR', details: [{ field: 'body.emoji' }] } },
    })
  }
  t.strictSame((await shown(another, party)).counts, { ...NONE, '🎉': 1 })
})

t.test('a reaction is removed by its user alone, where it is', async (t) => {
  const party = await event()
  const comment = idIn(await posted(another, at(party)))
  const { reaction_id: id } = (await react(another, party, '🎉', 'comment', comment)).data
  for (const who of [owner, admin, member, stranger, people.platformAdmin]) {
    isMissing(t, await remove(who, party, id, 'comment'), 'another user')
  }
  isMissing(t, await remove(another, party, id), 'another kind of target')
  isMissing(t, await remove(another, party, id, 'message'), 'a message')
  isMissing(t, await remove(another, await event(), id, 'comment'), 'another event')
  await call(another, 'DELETE', `${at(party)}/${comment}`)
  t.equal((await remove(another, party, id, 'comment')).status, 204, 'also from what is gone')
})

t.test('who may not see the event may not react', async (t) => {
  const draft = await event('draft')
  for (const who of [member, owner, admin]) t.equal((await react(who, draft, '🎉')).status, 201)
  for (const who of [another, stranger, people.platformAdmin]) isMissing(t, await react(who, draft, '🎉'), 'a draft')
  t.strictSame((await shown(member, draft)).counts, { ...NONE, '🎉': 3 })
})

t.test('an archived event keeps its reactions', async (t) => {
  const party = await event()
  const { reaction_id: id } = (await react(another, party, '🎉')).data
  await sql(`update events set status = 'archived', archived_at = now() where id = $1`, [party.id])
  for (const answer of [
    await react(another, party, '🎉'),
    await react(another, party, '😂'),
    await react(owner, party, '🎉'),
    await remove(another, party, id),
  ]) {
    t.match(answer, { status: 422, code: 'EVENT_ARCHIVED' })
  }
  t.strictSame(await shown(another, party), { counts: { ...NONE, '🎉': 1 }, mine: '🎉' })
})

t.test('the reaction of a user who leaves stays', async (t) => {
  const leaver = await aMember(api, orgId)
  const party = await event()
  const { reaction_id: id } = (await react(leaver, party, '🎉')).data
  await sql('delete from memberships where org_id = $1 and user_id = $2', [orgId, leaver.id])
  isMissing(t, await remove(leaver, party, id), 'no member')
  isMissing(t, await react(leaver, party, '😂'), 'no member')
  t.strictSame((await shown(owner, party)).counts, { ...NONE, '🎉': 1 })
  await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [orgId, leaver.id])
  t.match(await react(leaver, party, '😂'), { status: 200, data: { reaction_id: id, counts: { ...NONE, '😂': 1 } } })
})

t.test('an administrator of the platform learns why someone may do what with a reaction', async (t) => {
  const { reaction_id: resource_id } = (await react(another, await event(), '🎉')).data
  const explain = async (who: Person) => {
    const json = { user_id: who.wireId, org_id: org, action: 'reaction.remove', resource_id }
    return (await call(people.platformAdmin, 'POST', '/admin/permissions/explain', { json })).data
  }
  t.match(await explain(another), { allowed: true, facts: { reaction_giver: true } })
  t.match(await explain(owner), { allowed: false, reason: 'rule_not_met', facts: { organization_admin: true } })
})

t.test('a key makes one reaction of two requests, and stores the status', async (t) => {
  const party = await event()
  const ask = (emoji: string, key: string) =>
    call(another, 'POST', `/api/orgs/${org}/events/${party.wireId}/reactions/meta`, {
      json: { action_id: party.wireId, emoji },
      headers: { 'idempotency-key': key },
    })
  const [one, two] = [newUuid(), newUuid()]
  const first = await ask('🎉', one)
  const changed = await ask('😂', two)
  t.strictSame([first.status, changed.status], [201, 200])
  for (const [answer, again] of [
    [first, await ask('🎉', one)],
    [changed, await ask('😂', two)],
  ] as const) {
    t.strictSame([again.status, again.data], [answer.status, answer.data])
  }
  t.equal((await told(first.data.reaction_id)).length, 2)
  t.equal((await shown(another, party)).mine, '😂')
})
