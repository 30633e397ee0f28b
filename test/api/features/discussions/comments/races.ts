import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { findComment } from '../../../../../api/features/discussions/comments/queries.ts'
import { startTestApi, uuidOf } from '../../../../support/api.ts'
import { aMediaItem, idIn, threadsIn } from '../../../../support/comments.ts'
import { eventually } from '../../../../support/eventually.ts'
import { inTurn, waitingIn } from '../../../../support/in-turn.ts'
import { whileHeld } from '../../../../support/while-held.ts'

/** Requests on one comment, or one event, at once: a held lock decides who comes first. */
const api = await startTestApi(t)
const { people, org, call, database } = api
const { owner, member, another } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)
const { event, at, post, posted } = threadsIn(api, { org, orgId, owner: member })

const uuid = (path: string) => uuidOf('comment', idIn(path))
const edit = (path: string, json: object) => call(another, 'PATCH', path, { json })
const remove = (path: string, who = another) => call(who, 'DELETE', path)
const get = (path: string) => call(owner, 'GET', path)
const archive = (id: string) => call(member, 'POST', `/api/orgs/${org}/events/${id}/archive`)
const mentioned = async (path: string) =>
  (
    await sql(`select payload from outbox where aggregate_id = $1 and type = 'USER_MENTIONED' order by id`, [
      uuid(path),
    ])
  ).map(({ payload }) => payload.mentioned_user_id)
const audited = async (id: string, action: string) =>
  (await sql('select from audit_log where resource_id = $1 and action = $2', [id, action])).length

const row = (table: 'events' | 'comments', id: string) => ({
  text: `select from ${table} where id = $1 for update`,
  values: [id],
})

const CHANGES: [what: string, status: number, change: (path: string) => ReturnType<typeof edit>][] = [
  ['a comment', 201, (path) => post(another, path.slice(0, path.lastIndexOf('/')))],
  ['a reply', 201, (path) => post(another, path.replace(/meta\/.*\/comments\//, 'comment/').concat('/comments'))],
  ['an edit', 200, (path) => edit(path, { body: 'Edited' })],
]
for (const [what, status, change] of CHANGES) {
  t.test(`${what} that waits for an archive is refused, and one that an archive waits for counts`, async (t) => {
    const [late, early] = [await event(), await event()]
    const [latePath, earlyPath] = [await posted(another, at(late)), await posted(another, at(early))]
    const count = async (id: string) =>
      sql('select count(*)::int as n, max(version) as v from comments where event_id = $1', [id])
    const before = await count(late.id)
    const [archived, refused] = await inTurn(
      database,
      row('events', late.id),
      () => archive(late.wireId),
      () => change(latePath),
    )
    t.strictSame([archived?.status, refused?.status, refused?.code], [200, 422, 'EVENT_ARCHIVED'])
    t.strictSame(await count(late.id), before)
    const [changed, afterwards] = await inTurn(
      database,
      row('events', early.id),
      () => change(earlyPath),
      () => archive(early.wireId),
    )
    t.strictSame([changed?.status, afterwards?.status], [status, 200])
    t.strictNotSame(await count(early.id), before)
  })
}

t.test('a deletion that waits for an archive counts, and so does one that an archive waits for', async (t) => {
  for (const order of ['archive first', 'deletion first'] as const) {
    const party = await event()
    const path = await posted(another, at(party))
    const both = [() => archive(party.wireId), () => remove(path)]
    const answers = await inTurn(
      database,
      row('events', party.id),
      ...(order === 'archive first' ? both : both.toReversed()),
    )
    t.strictSame(answers.map(({ status }) => status).sort(), [200, 204], order)
    t.equal(await audited(uuid(path), 'COMMENT_DELETE'), 1, order)
  }
})

t.test('a reply that waits for the deletion of its comment finds no comment', async (t) => {
  const party = await event()
  const path = await posted(another, at(party))
  const [deleted, reply] = await inTurn(
    database,
    row('comments', uuid(path)),
    () => remove(path),
    () => post(owner, at(party, 'comment', idIn(path))),
  )
  t.strictSame([deleted?.status, reply?.status], [204, 404])
  t.strictSame((await get(at(party, 'comment', idIn(path)))).data.comments, [])
})

t.test('a deletion that waits for a reply leaves it', async (t) => {
  const party = await event()
  const path = await posted(another, at(party))
  const [reply, deleted] = await inTurn(
    database,
    row('comments', uuid(path)),
    () => post(owner, at(party, 'comment', idIn(path))),
    () => remove(path),
  )
  t.strictSame([reply?.status, deleted?.status], [201, 204])
  t.match((await get(at(party, 'comment', idIn(path)))).data.comments, [{ comment_id: reply?.data.comment_id }])
})

t.test('replies and deletions at once, many times: a comment has the replies that were answered 201', async (t) => {
  const party = await event()
  const paths = await Promise.all(Array.from({ length: 10 }, () => posted(another, at(party))))
  const answers = await Promise.all(
    paths.map(async (path) => {
      const replies = at(party, 'comment', idIn(path))
      const all = await Promise.all([post(owner, replies), remove(path), post(owner, replies), post(owner, replies)])
      return all.map(({ status }) => status)
    }),
  )
  for (const [i, [first, deleted, ...others]] of answers.entries()) {
    t.equal(deleted, 204)
    const made = [first, ...others].filter((status) => status === 201).length
    t.equal([first, ...others].filter((status) => status === 404).length, 3 - made)
    t.equal((await get(at(party, 'comment', idIn(paths[i] ?? '')))).data.comments.length, made)
  }
})

t.test('two edits: the second edits what the first left, and both versions are kept', async (t) => {
  const path = await posted(another, at(await event()), { body: 'One' })
  const [first, second] = await inTurn(
    database,
    row('comments', uuid(path)),
    () => edit(path, { body: 'Two' }),
    () => edit(path, { mentions: [owner.wireId] }),
  )
  t.match(first, { status: 200, data: { body: 'Two', mentions: { length: 0 } } })
  t.match(second, { status: 200, data: { body: 'Two', mentions: [owner.wireId] } })
  t.strictSame(
    (await sql('select version, body from comment_versions where comment_id = $1 order by 1', [uuid(path)])).map(
      ({ version, body }) => [version, body],
    ),
    [
      [1, 'One'],
      [2, 'Two'],
    ],
  )
})

t.test('edits at once that mention the same user: the user is told once', async (t) => {
  const path = await posted(another, at(await event()))
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, i) => edit(path, { body: `${i} ${i % 2 ? `@${owner.wireId}` : ''}` })),
  )
  for (const { status } of answers) t.equal(status, 200)
  t.strictSame(await mentioned(path), [owner.wireId])
  const [made] = await sql('select version from comments where id = $1', [uuid(path)])
  t.equal(made?.version, 13)
})

t.test('an edit that waits for a deletion finds no comment', async (t) => {
  const path = await posted(another, at(await event()))
  const [deleted, edited] = await inTurn(
    database,
    row('comments', uuid(path)),
    () => remove(path),
    () => edit(path, { body: 'Late' }),
  )
  t.strictSame([deleted?.status, edited?.status], [204, 404])
})

t.test('of two deletions one deletes', async (t) => {
  const path = await posted(another, at(await event()))
  const answers = await inTurn(
    database,
    row('comments', uuid(path)),
    () => remove(path),
    () => remove(path, owner),
  )
  t.strictSame(
    answers.map(({ status }) => status),
    [204, 404],
  )
  t.equal(await audited(uuid(path), 'COMMENT_DELETE'), 1)
})

t.test('the window is open until its last microsecond', async (t) => {
  const path = await posted(another, at(await event()))
  const isOpen = (left: string) =>
    database.db.inTransaction({ org: orgId }, async (tx) => {
      await tx.execute(
        `update comments set created_at = now() - interval '15 minutes' + interval '${left}' where id = '${uuid(path)}'`,
      )
      return (await findComment(tx, { orgId, id: uuid(path), callerId: another.id }))?.isPastEdit === false
    })
  t.equal(await isOpen('1 microsecond'), true)
  t.equal(await isOpen('1 millisecond'), true)
  t.equal(await isOpen('0'), false)
  t.equal(await isOpen('-1 microsecond'), false)
})

/** By the clock of the database, from now on. */
const CLOSES = `update comments set created_at = clock_timestamp() - interval '15 minutes' + make_interval(secs => $2)
  where id = $1 returning created_at + interval '15 minutes' as closes`

t.test('edits while the window closes: none counts that began after it', async (t) => {
  const path = await posted(another, at(await event()))
  const refused: string[] = []
  const accepted: string[] = []
  const editOn = async (name: string) => {
    for (let n = 0; ; n++) {
      const { status, code, data } = await edit(path, { body: `${name} ${n}` })
      if (status !== 200) return void refused.push(String(code))
      accepted.push(data.updated_at)
    }
  }
  const editing = Promise.all(['a', 'b', 'c', 'd'].map(editOn))
  await eventually('edits', () => accepted.length >= 4)
  const [made] = await sql(CLOSES, [uuid(path), 0.1])
  await editing
  t.strictSame(refused, Array(4).fill('COMMENT_EDIT_WINDOW_EXPIRED'))
  // Both without their microseconds; the last one is compared with them below.
  for (const time of accepted) t.ok(new Date(time) <= made?.closes, time)
  const [kept] = await sql(
    `select version, updated_at < created_at + interval '15 minutes' as in_time from comments where id = $1`,
    [uuid(path)],
  )
  t.strictSame(kept, { version: 1 + accepted.length, in_time: true })
})

t.test('an edit counts that began in time and had to wait', async (t) => {
  const path = await posted(another, at(await event()))
  const edited = await whileHeld(database, row('comments', uuid(path)), async (holder) => {
    const answer = edit(path, { body: 'In time' })
    await eventually('the edit to wait', async () => (await waitingIn(database)) === 1)
    await holder.query(CLOSES, [uuid(path), 0])
    await holder.query('commit')
    return answer
  })
  t.match(edited, { status: 200, data: { body: 'In time' } })
  t.match(await edit(path, { body: 'Late' }), { status: 422, code: 'COMMENT_EDIT_WINDOW_EXPIRED' })
})

const purgeOf = (media: string) => ({ text: 'delete from media where id = $1', values: [uuidOf('media', media)] })

t.test('a media item that is purged while a comment attaches it is not available', async (t) => {
  const party = await event()
  const photo = await aMediaItem(api, { orgId, uploader: another })
  const answer = await whileHeld(database, purgeOf(photo), async (holder) => {
    const posting = post(another, at(party), { body: 'x', media_ids: [photo] })
    await eventually('the comment to wait', async () => (await waitingIn(database)) === 1)
    await holder.query('commit')
    return posting
  })
  t.match(answer, { status: 422, code: 'MEDIA_NOT_AVAILABLE' })
  t.strictSame((await get(at(party))).data.comments, [])
})

t.test('a media item that is purged while an edit keeps it is left out', async (t) => {
  const [gone, stays] = [
    await aMediaItem(api, { orgId, uploader: another }),
    await aMediaItem(api, { orgId, uploader: another }),
  ]
  const path = await posted(another, at(await event()), { body: 'x', media_ids: [gone, stays] })
  const answer = await whileHeld(database, purgeOf(gone), async (holder) => {
    const editing = edit(path, { media_ids: [stays, gone] })
    await eventually('the edit to wait', async () => (await waitingIn(database)) === 1)
    await holder.query('commit')
    return editing
  })
  t.match(answer, { status: 200, data: { media_ids: [stays] } })
})

/** A busy machine may let a request wait too long for a lock, which is 503 and changes nothing: it is sent again. */
async function untilAnswered(request: () => ReturnType<typeof edit>): ReturnType<typeof edit> {
  const answer = await request()
  if (answer.status !== 503) return answer
  await sleep(200)
  return untilAnswered(request)
}

t.test('everything at once, many times: nothing deadlocks, and nothing changes after the archive', async (t) => {
  const party = await event()
  const paths = await Promise.all(Array.from({ length: 4 }, () => posted(another, at(party))))
  const photos = await Promise.all(Array.from({ length: 4 }, () => aMediaItem(api, { orgId, uploader: another })))
  const requests = Array.from({ length: 48 }, (_, i) => {
    const path = paths[i % 4] ?? ''
    const media_ids = i % 8 < 4 ? photos : photos.toReversed()
    if (i === 40) return () => archive(party.wireId)
    return [
      () => edit(path, { body: `${i}`, media_ids }),
      () => post(owner, at(party, 'comment', idIn(path)), { body: 'x', media_ids }),
      () => post(owner, at(party), { body: `@${another.wireId}`, media_ids }),
      () => (i > 30 ? remove(path) : call(another, 'DELETE', `/api/media/${org}/${photos[i % 4]}`)),
    ][Math.floor(i / 4) % 4] as () => ReturnType<typeof edit>
  })
  const answers = await Promise.all(requests.map(untilAnswered))
  for (const { status, code } of answers) t.ok([200, 201, 204, 404, 422].includes(status), `${status} ${code}`)
  t.notMatch(JSON.stringify(api.logged), /40P01|deadlock/)
  const posts = answers.filter(({ status, data }) => status === 201 && data.comment_id).length
  const [made] = await sql('select count(*)::int as n from comments where event_id = $1', [party.id])
  t.equal(made?.n, 4 + posts)
  t.match(await post(owner, at(party)), { status: 422, code: 'EVENT_ARCHIVED' })
})
