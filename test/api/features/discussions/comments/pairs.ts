import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { listComments } from '../../../../../api/features/discussions/comments/queries.ts'
import type { ItemIds } from '../../../../../api/features/media/pairing-plan.ts'
import { countReactions, findReactions } from '../../../../../api/features/reaction-counts/target-queries.ts'
import { formatId, newUuid, type Uuid } from '../../../../../lib/contract/ids.ts'
import { albumWorld } from '../../../../support/albums.ts'
import { type Person, startTestApi, uuidOf } from '../../../../support/api.ts'
import { anAlbum, idIn, threadsIn } from '../../../../support/comments.ts'
import type { MadeEvent } from '../../../../support/events.ts'
import { planOf, vacuum } from '../../../../support/explain.ts'
import { whileHeld } from '../../../../support/while-held.ts'

/** A Live Photo is one target of comments and reactions, also of those from before its halves were paired. */
const api = await startTestApi(t)
const { people, org, call, database } = api
const { owner, admin, member, another } = people
const orgId = uuidOf('organization', org)
const { upload, add, sql } = albumWorld(api)
const { event, at, post, posted, react } = threadsIn(api, { org, orgId, owner: member })

interface Halves {
  party: MadeEvent
  image: string
  video: string
}
type Half = 'image' | 'video'
const HALVES: readonly Half[] = ['image', 'video']

/** Two halves in the album of an event that are to be paired by `pair`, e.g. by an earlier version of the API. */
async function unpaired(o: { visibility?: string } = {}): Promise<Halves> {
  const [party, image, video] = [await event(), await upload('image'), await upload('video')]
  await anAlbum(api, party, { orgId, owner: member, ...o, media: [image, video] })
  return { party, image, video }
}
const pair = async ({ image, video }: Halves) => {
  for (const [one, other] of [
    [image, video],
    [video, image],
  ] as const) {
    await sql('update media set paired_media_id = $2 where id = $1', [uuidOf('media', one), uuidOf('media', other)])
  }
}
const paired = async () => {
  const halves = await unpaired()
  await pair(halves)
  return halves
}
const thread = (halves: Halves, half: Half) => at(halves.party, 'media', halves[half])
const like = (who: Person, halves: Halves, half: Half, emoji = '🔥') =>
  react(who, halves.party, emoji, 'media', halves[half])
const unlike = (who: Person, { party }: Halves, id: string) =>
  call(who, 'DELETE', `/api/orgs/${org}/events/${party.wireId}/reactions/media/${id}`)
const bodies = async (path: string, query = '') =>
  (await call(another, 'GET', `${path}${query}`)).data.comments.map(({ body }: { body: string }) => body)
const rowsOf = ({ party }: Halves) =>
  sql('select id, target_id, user_id, emoji from reactions where event_id = $1', [party.id])
const told = async ({ party }: Halves, type: string) =>
  (
    await sql(`select payload from outbox where type = $1 and payload ->> 'event_id' = $2 order by id`, [
      type,
      party.wireId,
    ])
  ).map(({ payload }) => payload)
const isMissing = (t: Test, { status, code }: { status: number; code: string | undefined }, what: string) =>
  t.strictSame([status, code], [404, 'NOT_FOUND'], what)

// First: many inserts at once leave pages that no vacuum marks before they are used.
t.test('both halves are read by two ranges of an index', async (t) => {
  const halves = await paired()
  const ids = HALVES.map((half) => uuidOf('media', halves[half])) as [Uuid, Uuid]
  await sql(
    `insert into comments (id, org_id, event_id, target_type, target_id, media_id, audience, author_id, body, created_at)
      select gen_random_uuid(), $1, $2, 'media', half, half, 'album', $4, '', now() - n * interval '1 minute'
      from generate_series(1, 2000) n, lateral (select ($3::uuid[])[1 + n % 2] as half) one`,
    [orgId, halves.party.id, ids, another.id],
  )
  // Of 600 users a hundred react to both halves; and then to 20 other things each, so that an index is worth it.
  await sql(
    `insert into users (id, issuer, subject) select gen_random_uuid(), 'test', 'reader ' || n from generate_series(1, 600) n`,
  )
  await sql(
    `with readers as (select id, row_number() over () as n from users where subject like 'reader %')
      insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji, audience)
      select gen_random_uuid(), $1::uuid, $2::uuid, 'media', half, id, '🔥', 'event' from readers, unnest($3::uuid[]) half
        where n <= 100 or ($3::uuid[])[1 + n % 2] = half
      union all
      select gen_random_uuid(), $1::uuid, $2::uuid, 'comment', gen_random_uuid(), id, '🔥', 'event'
        from readers, generate_series(1, 20)`,
    [orgId, halves.party.id, ids],
  )
  await vacuum(database, 'comments', 'reactions')
  const thread = { orgId, eventId: halves.party.id, callerId: another.id, type: 'media' } as const
  const cursor = { at: new Date(Date.now() - 1_600 * 60_000).toISOString(), id: newUuid() }
  const asked: [of: ItemIds, after: typeof cursor | undefined][] = [
    [ids, undefined],
    [ids, cursor],
    [[ids[0]], undefined],
    [[ids[1]], cursor],
  ]
  for (const [of, after] of asked) {
    const nodes = await planOf(database, orgId, (tx) =>
      listComments(tx, { ...thread, ids: of, sees: ['event', 'album'], limit: 21, after }),
    )
    // `r` are replies.
    const pages = nodes.filter((node) => node['Relation Name'] === 'comments' && node.Alias !== 'r')
    t.strictSame(
      pages.map((node) => node['Index Name']),
      of.map(() => 'comments_live'),
    )
    for (const page of pages) t.ok(page['Actual Rows'] <= 21, `${page['Actual Rows']} rows`)
  }
  const nodes = await planOf(database, orgId, (tx) =>
    countReactions(tx, { eventId: halves.party.id, targetType: 'media', ids, sees: ['event', 'album'] }),
  )
  const scans = nodes.filter((node) => node['Relation Name'] === 'reactions' && node['Actual Loops'] === 1)
  t.strictSame(
    scans.map((node) => [node['Node Type'], node['Index Name'], node['Actual Rows'], node['Heap Fetches']]),
    Array(2).fill(['Index Only Scan', 'reactions_of_target', 350, 0]),
  )
  // One read for a thread: the same two ranges for the counts, and two look-ups for the caller.
  const ofThread = await planOf(database, orgId, (tx) =>
    findReactions(tx, {
      eventId: halves.party.id,
      targetType: 'media',
      ids,
      sees: ['event', 'album'],
      userId: another.id,
    }),
  )
  const reads = ofThread.filter((node) => node['Index Name'] !== undefined && node['Actual Loops'] === 1)
  for (const node of reads) t.equal(node['Index Name'], 'reactions_of_target')
  t.strictSame(reads.map((node) => node['Actual Rows']).sort(), [0, 0, 350, 350].sort())
  t.match(await like(owner, halves, 'image', '👏'), { data: { counts: { '🔥': 600, '👏': 1 } } })
})

t.test('what was said about either half is said about the Live Photo', async (t) => {
  const halves = await unpaired()
  const early: string[] = []
  for (const half of [...HALVES, ...HALVES]) {
    early.push(await posted(another, thread(halves, half), { body: `${early.length} ${half}` }))
  }
  const reply = await posted(owner, at(halves.party, 'comment', idIn(early[1] ?? '')), { body: 'Reply' })
  t.strictSame(await bodies(thread(halves, 'image')), ['2 image', '0 image'], 'two threads before')
  await pair(halves)
  const target = { type: 'media', id: halves.image }
  const all = ['5 video', '4 image', '3 video', '2 image', '1 video', '0 image']
  for (const half of HALVES) {
    const path = await posted(another, thread(halves, half), { body: `${early.length} ${half}` })
    early.push(path)
    t.match(await call(owner, 'GET', path), { status: 200, data: { target } })
  }
  for (const half of HALVES) {
    const path = thread(halves, half)
    t.strictSame(await bodies(path), all)
    const { data } = await call(another, 'GET', `${path}?limit=4`)
    t.strictSame(await bodies(path, `?limit=4&cursor=${data.next_cursor}`), all.slice(4), 'the next page')
    for (const one of early) {
      const here = await call(owner, 'GET', `${path}/${idIn(one)}`)
      t.match(here, { status: 200, data: { target, reply_count: one === early[1] ? 1 : 0 } })
    }
  }
  t.match(await call(another, 'GET', reply), { status: 200 })
  t.equal((await post(owner, at(halves.party, 'comment', idIn(early[1] ?? '')))).status, 201, 'another reply')
  const posts = (await told(halves, 'CommentPosted')).filter(({ target_type }) => target_type === 'media')
  t.strictSame(
    posts.slice(-2).map(({ target_id }) => target_id),
    [halves.image, halves.image],
  )
})

t.test('the upload of the image takes along what was said about its video', async (t) => {
  const key = randomUUID()
  const [party, video] = [await event(), await upload('video', key)]
  await anAlbum(api, party, { orgId, owner: member, media: [video] })
  const path = await posted(another, at(party, 'media', video))
  const { reaction_id } = (await react(another, party, '🎉', 'media', video)).data
  const halves = { party, video, image: await upload('image', key) }
  for (const half of HALVES) {
    t.strictSame(await bodies(thread(halves, half)), ['Hello'])
    t.match(await like(another, halves, half, '🎉'), { status: 200, data: { reaction_id, counts: { '🎉': 1 } } })
    t.match(await call(owner, 'GET', `${thread(halves, half)}/${idIn(path)}`), {
      data: { target: { id: halves.image } },
    })
  }
})

t.test('a comment from before is edited and deleted by the path of either half', async (t) => {
  for (const from of HALVES) {
    for (const by of HALVES) {
      const halves = await unpaired()
      const id = idIn(await posted(another, thread(halves, from)))
      isMissing(t, await call(another, 'DELETE', `${thread(halves, from === 'image' ? 'video' : 'image')}/${id}`), from)
      await pair(halves)
      const path = `${thread(halves, by)}/${id}`
      const edited = await call(another, 'PATCH', path, { json: { body: 'Edited' } })
      t.match(edited, { status: 200, data: { body: 'Edited', target: { id: halves.image } } })
      await call(member, 'DELETE', `/api/media/${org}/${halves.image}`)
      isMissing(t, await call(another, 'GET', path), 'the Live Photo was deleted')
      t.equal((await call(another, 'DELETE', path)).status, 204, `from the ${from} by the ${by}`)
    }
  }
})

t.test('a comment goes and comes with the Live Photo', async (t) => {
  const halves = await unpaired()
  await posted(another, thread(halves, 'video'))
  await pair(halves)
  await call(member, 'DELETE', `/api/media/${org}/${halves.video}`)
  for (const half of HALVES) isMissing(t, await call(another, 'GET', thread(halves, half)), half)
  t.equal((await call(member, 'POST', `/api/media/${org}/${halves.image}/restore`)).status, 200)
  for (const half of HALVES) t.strictSame(await bodies(thread(halves, half)), ['Hello'])
})

t.test('an attached half is the Live Photo', async (t) => {
  for (const half of HALVES) {
    const [party, image, video] = [await event(), await upload('image'), await upload('video')]
    const halves = { party, image, video }
    await posted(another, at(party), { body: 'x', media_ids: [halves[half]] })
    await pair(halves)
    for (const one of HALVES) t.equal((await post(owner, thread(halves, one))).status, 201, `${half} by ${one}`)
  }
})

t.test('a user has one reaction to the Live Photo', async (t) => {
  const halves = await paired()
  const first = await like(another, halves, 'video', '🎉')
  t.match(first, { status: 201, data: { counts: { '🎉': 1 } } })
  const again = await like(another, halves, 'image', '🔥')
  const { reaction_id } = first.data
  t.match(again, { status: 200, data: { reaction_id, counts: { '🎉': 0, '🔥': 1 } } })
  t.match(await rowsOf(halves), [{ target_id: uuidOf('media', halves.image), emoji: '🔥' }])
  const about = { target_type: 'media', target_id: halves.image, audience: 'album' }
  t.match(await told(halves, 'reaction_added'), [about, about])
  t.equal((await unlike(another, halves, reaction_id)).status, 204)
  t.strictSame(await rowsOf(halves), [])
})

t.test('one who reacted to both halves before counts once, as the later reaction says', async (t) => {
  for (const [earlier, later] of [HALVES, HALVES.toReversed()] as [Half, Half][]) {
    const halves = await unpaired()
    const first = await like(another, halves, earlier, '🎉')
    const second = await like(another, halves, later, '😂')
    const ofImage = (earlier === 'image' ? first : second).data.reaction_id
    await like(admin, halves, 'video', '😂')
    await like(owner, halves, 'image', '🎉')
    await pair(halves)
    for (const half of HALVES) {
      t.strictSame((await call(another, 'GET', thread(halves, half))).data.target, {
        type: 'media',
        id: halves.image,
        reaction_counts: { '❤️': 0, '😂': 2, '🎉': 1, '😢': 0, '👏': 0, '🔥': 0 },
        my_reaction: { reaction_id: ofImage, emoji: '😂' },
      })
      for (const [who, emoji] of [
        [admin, '😂'],
        [owner, '🎉'],
      ] as const) {
        t.match((await call(who, 'GET', thread(halves, half))).data.target.my_reaction, { emoji })
      }
    }
    t.match(await like(member, halves, 'video', '👏'), {
      status: 201,
      data: { counts: { '🎉': 1, '😂': 2, '👏': 1, '🔥': 0, '😢': 0, '❤️': 0 } },
    })
    t.match(await like(another, halves, 'image', '🔥'), {
      status: 200,
      data: { counts: { '🎉': 1, '😂': 1, '👏': 1, '🔥': 1 } },
    })
    t.equal((await rowsOf(halves)).filter(({ user_id }) => user_id === another.id).length, 1, 'it replaces both')
  }
})

t.test('the same emoji as the later of both is told no more', async (t) => {
  for (const [earlier, later] of [HALVES, HALVES.toReversed()] as [Half, Half][]) {
    const halves = await unpaired()
    await like(another, halves, earlier, '🎉')
    await like(another, halves, later, '😂')
    await pair(halves)
    t.match(await like(another, halves, 'video', '😂'), { status: 200, data: { counts: { '🎉': 0, '😂': 1 } } })
    t.equal((await told(halves, 'reaction_added')).length, 2)
    t.match(await rowsOf(halves), [{ target_id: uuidOf('media', halves.image), emoji: '😂' }])
  }
})

t.test('a removal by the id of either removes both', async (t) => {
  for (const by of HALVES) {
    const halves = await unpaired()
    const ids = {
      image: (await like(another, halves, 'image')).data.reaction_id,
      video: (await like(another, halves, 'video')).data.reaction_id,
    }
    await like(owner, halves, 'video')
    await pair(halves)
    isMissing(t, await unlike(owner, halves, ids[by]), 'of another user')
    t.equal((await unlike(another, halves, ids[by])).status, 204)
    for (const id of Object.values(ids)) isMissing(t, await unlike(another, halves, id), 'it is gone')
    t.match(await rowsOf(halves), [{ user_id: owner.id }])
  }
})

t.test('one user at once to both halves: one reaction', async (t) => {
  for (const before of [false, true]) {
    const halves = await unpaired()
    if (before) for (const half of HALVES) await like(another, halves, half, '👏')
    await pair(halves)
    const emojis = ['🎉', '😂', '🔥', '😢']
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, i) => like(another, halves, HALVES[i % 2] ?? 'image', emojis[i % 4])),
    )
    t.strictSame(answers.map(({ status }) => status).sort(), [...Array(23).fill(200), before ? 200 : 201])
    t.equal(new Set(answers.map(({ data }) => data.reaction_id)).size, 1)
    for (const { data } of answers) t.equal(data.counts[data.emoji], 1)
    t.equal((await rowsOf(halves)).length, 1)
  }
})

t.test('reactions and removals at once leave at most one', async (t) => {
  const halves = await unpaired()
  const ids = await Promise.all(HALVES.map(async (half) => (await like(another, halves, half)).data.reaction_id))
  await pair(halves)
  const answers = await Promise.all(
    Array.from({ length: 24 }, (_, i) =>
      i % 2
        ? like(another, halves, HALVES[i % 4 === 1 ? 0 : 1] ?? 'image', '🎉')
        : unlike(another, halves, ids[i % 4 ? 1 : 0]),
    ),
  )
  for (const { status, code } of answers) t.ok([200, 201, 204, 404].includes(status), `${status} ${code}`)
  t.ok((await rowsOf(halves)).length <= 1)
})

t.test('a reaction to the video that a pairing overtakes counts, once', async (t) => {
  const halves = await unpaired()
  await like(another, halves, 'image', '🎉')
  // As a request does that looked up the video before the halves were paired, and is not finished.
  const unfinished = {
    text: `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji)
      values ($1, $2, $3, 'media', $4, $5, '😂')`,
    values: [newUuid(), orgId, halves.party.id, uuidOf('media', halves.video), another.id],
  }
  await whileHeld(database, unfinished, async (holder) => {
    await pair(halves)
    t.match(await like(owner, halves, 'video', '👏'), { status: 201, data: { counts: { '🎉': 1, '👏': 1 } } })
    await holder.query('commit')
  })
  t.match(await like(admin, halves, 'image', '👏'), { data: { counts: { '🎉': 0, '😂': 1, '👏': 2 } } })
})

t.test('an album with one half has the Live Photo, and a private one keeps it', async (t) => {
  const [party, image, video] = [await event(), await upload('image'), await upload('video')]
  const halves = { party, image, video }
  const album = await anAlbum(api, party, { orgId, owner: member, visibility: 'private' })
  t.equal((await add(formatId('album', album), video)).status, 201)
  const path = await posted(member, thread(halves, 'video'))
  await pair(halves)
  for (const half of HALVES) {
    t.match(await call(owner, 'GET', `${thread(halves, half)}/${idIn(path)}`), { status: 200 })
    isMissing(t, await call(another, 'GET', thread(halves, half)), half)
    isMissing(t, await like(another, halves, half), half)
  }
})
