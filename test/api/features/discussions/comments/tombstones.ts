import t, { type Test } from 'tap'
import { listComments } from '../../../../../api/features/discussions/comments/queries.ts'
import { newUuid } from '../../../../../lib/contract/ids.ts'
import { type Person, startTestApi, uuidOf } from '../../../../support/api.ts'
import { aMediaItem, anAlbum, idIn, threadsIn } from '../../../../support/comments.ts'
import type { MadeEvent } from '../../../../support/events.ts'
import { insertMany, planOf, vacuum } from '../../../../support/explain.ts'
import { inTurn } from '../../../../support/in-turn.ts'

/** Deleted comments: not found, unless a request asks for those that have replies. */
const api = await startTestApi(t)
const { people, org, call, database } = api
const { owner, admin, member, another } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)
const { event, at, post, posted, react } = threadsIn(api, { org, orgId, owner: member })

const uuid = (path: string) => uuidOf('comment', idIn(path))
const get = (who: Person, path: string) => call(who, 'GET', path)
const remove = (path: string, who = another) => call(who, 'DELETE', path)
/** With those that are deleted. */
const DELETED = 'include_deleted=true'
const getAny = (who: Person, path: string) => get(who, `${path}?${DELETED}`)
const listed = async (who: Person, path: string) => (await getAny(who, path)).data.comments
const live = async (who: Person, path: string) => (await get(who, path)).data.comments
const below = (party: MadeEvent, path: string) => at(party, 'comment', idIn(path))
const isMissing = (t: Test, { status, code }: { status: number; code: string | undefined }, what: string) =>
  t.strictSame([status, code], [404, 'NOT_FOUND'], what)

// First: many inserts at once leave pages that no vacuum marks before they are used.
t.test('a page reads no deleted comments without replies, however many there are', async (t) => {
  const party = await event()
  // Of 5,000 deleted comments, every 125th has a reply. They are newer than the comments that are not deleted.
  await insertMany(
    database,
    `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body, created_at)
      select gen_random_uuid(), $1, $2, 'meta', $2, 'event', $3, n::text, now() - n * interval '1 second'
      from generate_series(1, 5500) n`,
    [orgId, party.id, another.id],
  )
  await sql(
    `insert into comments (id, org_id, event_id, target_type, target_id, audience, author_id, body)
      select gen_random_uuid(), org_id, event_id, 'comment', id, 'event', author_id, '' from comments
      where event_id = $1 and body::int % 125 = 0 and body::int <= 5000`,
    [party.id],
  )
  await sql(
    `update comments set deleted_at = now(), deleted_by = author_id
      where event_id = $1 and target_type = 'meta' and body::int <= 5000`,
    [party.id],
  )
  await vacuum(database, 'comments')
  const thread = { orgId, eventId: party.id, callerId: another.id, type: 'meta', ids: [party.id] } as const
  const middle = { at: new Date(Date.now() - 3_750_000).toISOString(), id: newUuid() }
  const plans = [
    { after: undefined, withDeleted: true, index: 'comments_listed' },
    { after: middle, withDeleted: true, index: 'comments_listed' },
    { after: undefined, withDeleted: false, index: 'comments_live' },
    { after: middle, withDeleted: false, index: 'comments_live' },
  ]
  for (const { index, ...wanted } of plans) {
    const nodes = await planOf(database, orgId, (tx) =>
      listComments(tx, { ...thread, sees: ['event'], limit: 21, ...wanted }),
    )
    // `r` are replies.
    const [page, ...others] = nodes.filter((node) => node['Relation Name'] === 'comments' && node.Alias !== 'r')
    t.match(page, { 'Index Name': index, 'Actual Rows': 21 })
    t.equal(page?.['Rows Removed by Filter'] ?? 0, 0)
    t.strictSame(others, [])
    const replies = nodes.filter((node) => node.Alias === 'r' && node['Relation Name'] === 'comments')
    t.match(replies, [{ 'Node Type': 'Index Only Scan', 'Index Name': 'comments_listed', 'Heap Fetches': 0 }])
  }
  const { comments, next_cursor } = (await get(owner, `${at(party)}?limit=30&${DELETED}`)).data
  t.strictSame([comments.length, comments.filter(({ deleted }: { deleted: boolean }) => deleted).length], [30, 30])
  t.equal((await get(owner, `${at(party)}?limit=30&cursor=${next_cursor}`)).code, 'INVALID_CURSOR', 'of another list')
  const next = (await get(owner, `${at(party)}?limit=30&${DELETED}&cursor=${next_cursor}`)).data.comments
  t.equal(next.filter(({ deleted }: { deleted: boolean }) => deleted).length, 10, 'then come the others')
})

/** `P` posts the comment, `R` and `S` reply to it; small letters delete what the capital made. */
const HISTORIES: [steps: string, is: 'live' | 'tombstone' | 'gone', replies: number][] = [
  ['P', 'live', 0],
  ['PR', 'live', 1],
  ['PRr', 'live', 0],
  ['Pp', 'gone', 0],
  ['PRp', 'tombstone', 1],
  ['PRSp', 'tombstone', 2],
  ['PRSrp', 'tombstone', 1],
  ['PRSpr', 'tombstone', 1],
  ['PRrp', 'gone', 0],
  ['PRpr', 'gone', 0],
  ['PRSprs', 'gone', 0],
  ['PRSrps', 'gone', 0],
  ['PRSrsp', 'gone', 0],
]
const THREADS: [what: string, open: (party: MadeEvent) => Promise<string>][] = [
  ['an event', async (party) => at(party)],
  [
    'a media item',
    async (party) => {
      const photo = await aMediaItem(api, { orgId, uploader: member })
      await anAlbum(api, party, { orgId, owner: member, media: [photo] })
      return at(party, 'media', photo)
    },
  ],
]
for (const [what, open] of THREADS) {
  t.test(`a deleted comment on ${what} is found exactly by those who ask, as long as it has replies`, async (t) => {
    for (const [steps, is, replies] of HISTORIES) {
      const party = await event()
      const thread = await open(party)
      const made: Record<string, string> = {}
      for (const step of steps) {
        const before = made[step.toUpperCase()]
        if (before) t.equal((await remove(before)).status, 204, `${steps}: ${step}`)
        else made[step] = await posted(another, step === 'P' ? thread : below(party, made['P'] ?? ''))
      }
      const path = made['P'] ?? ''
      const [shown, ...others] = await listed(owner, thread)
      t.strictSame(others, [])
      const one = await getAny(owner, path)
      t.equal((await listed(owner, below(party, path))).length, replies, steps)
      if (is === 'gone') {
        t.equal(shown, undefined, steps)
        isMissing(t, one, steps)
        continue
      }
      t.strictSame(shown, one.data, steps)
      t.match(shown, { comment_id: idIn(path), deleted: is === 'tombstone', reply_count: replies }, steps)
      if (is === 'live') {
        t.strictSame([(await get(owner, path)).data, await live(owner, thread)], [shown, [shown]], steps)
        continue
      }
      isMissing(t, await get(owner, path), steps)
      isMissing(t, await get(owner, `${path}?include_deleted=false`), steps)
      t.strictSame(await live(owner, thread), [], steps)
    }
  })
}

t.test('a deleted comment says nothing of what it said', async (t) => {
  const party = await event()
  const photo = await aMediaItem(api, { orgId, uploader: another })
  const path = await posted(another, at(party), { body: 'x', media_ids: [photo], mentions: [owner.wireId] })
  await call(another, 'PATCH', path, { json: { body: `@${admin.wireId} secret` } })
  const { data: reaction } = await react(owner, party, '🎉', 'comment', idIn(path))
  await posted(owner, below(party, path))
  const before = (await get(owner, path)).data
  t.match(before, { edited: true, deleted: false, media_ids: [photo] })
  await call(member, 'DELETE', path, { json: { reason: 'Names a guest' } })
  t.strictSame((await getAny(owner, path)).data, {
    ...before,
    ...{ author_name: null, body: '', media_ids: [], mentions: [], edited: false, deleted: true },
    can: [],
  })
  t.match(before.my_reaction, { reaction_id: reaction.reaction_id })
  t.notMatch(JSON.stringify((await getAny(owner, at(party))).body), /secret|guest/)
  isMissing(t, await get(owner, at(party, 'media', photo)), 'what was attached to it')
  for (const [what, answer] of [
    ['an edit', await call(another, 'PATCH', path, { json: { body: 'Back' } })],
    ['another deletion', await remove(path)],
    ['a reply', await post(owner, below(party, path))],
    ['a reaction', await react(admin, party, '🎉', 'comment', idIn(path))],
  ] as const) {
    isMissing(t, answer, what)
  }
  const reactions = `/api/orgs/${org}/events/${party.wireId}/reactions/comment`
  t.equal((await call(owner, 'DELETE', `${reactions}/${reaction.reaction_id}`)).status, 204)
  t.match((await getAny(owner, path)).data, { reaction_counts: { '🎉': 0 }, my_reaction: null })
})

t.test('deleted comments keep their place in the pages', async (t) => {
  const party = await event()
  const paths: string[] = []
  for (let n = 0; n < 6; n++) paths.push(await posted(another, at(party), { body: `${n}` }))
  for (const path of paths.filter((_, n) => n % 2 === 0)) {
    await posted(owner, below(party, path))
    await remove(path)
  }
  await remove(paths[3] ?? '')
  for (const [query, wanted] of [
    [`&${DELETED}`, [5, 4, 2, 1, 0]],
    ['', [5, 1]],
  ] as const) {
    const ids: string[] = []
    let cursor = ''
    do {
      const { data } = await get(owner, `${at(party)}?limit=2${query}${cursor && `&cursor=${cursor}`}`)
      t.ok(data.comments.length === 2 || !data.has_more)
      for (const { comment_id } of data.comments) ids.push(comment_id)
      cursor = data.next_cursor ?? ''
    } while (cursor)
    t.strictSame(
      ids,
      wanted.map((n) => idIn(paths[n] ?? '')),
    )
  }
  t.match(await get(owner, `${at(party)}?include_deleted=yes`), { status: 400, code: 'VALIDATION_ERROR' })
})

t.test('a deleted comment of a private album is there for those who see the album', async (t) => {
  const party = await event()
  const photo = await aMediaItem(api, { orgId, uploader: member })
  await anAlbum(api, party, { orgId, owner: member, visibility: 'private', media: [photo] })
  const path = await posted(member, at(party, 'media', photo))
  await posted(owner, below(party, path))
  // From here on all can see the media item, and what is said about it outside the album.
  await posted(another, at(party), { body: 'x', media_ids: [photo] })
  t.equal((await remove(path, member)).status, 204)
  t.match(await listed(admin, at(party, 'media', photo)), [{ comment_id: idIn(path), deleted: true, reply_count: 1 }])
  t.strictSame(await listed(another, at(party, 'media', photo)), [])
  isMissing(t, await getAny(another, path), 'for others')
})

const row = (path: string) => ({ text: 'select from comments where id = $1 for update', values: [uuid(path)] })

for (const order of ['comment first', 'reply first'] as const) {
  t.test(`the comment and its last reply are deleted at once, ${order}: nothing is left`, async (t) => {
    const party = await event()
    const path = await posted(another, at(party))
    const reply = await posted(owner, below(party, path))
    const both = [() => remove(path), () => remove(reply, owner)]
    const answers = await inTurn(database, row(path), ...(order === 'comment first' ? both : both.toReversed()))
    t.strictSame(
      answers.map(({ status }) => status),
      [204, 204],
    )
    t.strictSame(await listed(admin, at(party)), [])
  })
}

t.test('the last two replies are deleted at once: nothing is left', async (t) => {
  const party = await event()
  const path = await posted(another, at(party))
  const replies = [await posted(another, below(party, path)), await posted(another, below(party, path))]
  await remove(path)
  const answers = await inTurn(database, row(path), ...replies.map((reply) => () => remove(reply)))
  t.strictSame(
    answers.map(({ status }) => status),
    [204, 204],
  )
  t.strictSame(await listed(admin, at(party)), [])
})

t.test('a deletion of the comment that waits for a reply leaves it in its place', async (t) => {
  const party = await event()
  const path = await posted(another, at(party))
  const [reply, deleted] = await inTurn(
    database,
    row(path),
    () => post(owner, below(party, path)),
    () => remove(path),
  )
  t.strictSame([reply?.status, deleted?.status], [201, 204])
  t.match(await listed(admin, at(party)), [{ deleted: true, reply_count: 1 }])
})

t.test('replies, their deletions and those of their comments at once: the list has what has replies', async (t) => {
  const party = await event()
  const paths = await Promise.all(Array.from({ length: 8 }, () => posted(another, at(party))))
  const early = await Promise.all(
    paths.flatMap((path) => [posted(owner, below(party, path)), posted(owner, below(party, path))]),
  )
  const answers = await Promise.all([
    ...early.flatMap((reply, n) => (n % 4 === 3 ? [] : [remove(reply, owner), remove(reply, owner)])),
    ...paths.flatMap((path, n) => [remove(path), n % 3 ? post(owner, below(party, path)) : remove(path)]),
  ])
  for (const { status, code } of answers) t.ok([201, 204, 404].includes(status), `${status} ${code}`)
  const left = await Promise.all(
    paths.map(async (path) => [idIn(path), (await listed(owner, below(party, path))).length] as const),
  )
  const shown: { comment_id: string; deleted: boolean; reply_count: number }[] = await listed(owner, at(party))
  t.ok(shown.length >= 4, 'those of which one reply was left alone')
  t.ok(shown.every(({ deleted }) => deleted))
  t.strictSame(
    Object.fromEntries(shown.map((c) => [c.comment_id, c.reply_count])),
    Object.fromEntries(left.filter(([, replies]) => replies > 0)),
  )
})
