import t, { type Test } from 'tap'
import { formatId, newUuid } from '../../../../../lib/contract/ids.ts'
import { aPerson, type Person, startTestApi, uuidOf } from '../../../../support/api.ts'
import { aMediaItem, idIn, threadsIn } from '../../../../support/comments.ts'
import { aMember } from '../../../../support/organizations.ts'

/** Comments on an event and replies: what they are, and who may do what with them. */
const api = await startTestApi(t)
const { people, org, call, database } = api
const { owner, admin, member, another, stranger } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)
// The event belongs to a member, so that each role is another person.
const { event, at, post, posted } = threadsIn(api, { org, orgId, owner: member })
const author = await aMember(api, orgId, { name: 'Ann' })

const get = (who: Person, path: string) => call(who, 'GET', path)
const edit = (who: Person, path: string, json: object) => call(who, 'PATCH', path, { json })
const remove = (who: Person, path: string, json?: object) => call(who, 'DELETE', path, json && { json })
const told = async (path: string) =>
  (
    await sql(
      `select type, payload, aggregate_version as version from outbox where aggregate_id = $1 order by aggregate_version, type`,
      [uuidOf('comment', idIn(path))],
    )
  ).map((row) => ({ type: row.type, to: row.payload.mentioned_user_id, ...row.payload, version: row.version }))
const mentioned = async (path: string) =>
  (await told(path)).flatMap(({ type, to }) => (type === 'USER_MENTIONED' ? [to] : [])).sort()
const audited = async (id: string, action: string) =>
  sql('select details, actor_id from audit_log where resource_id = $1 and action = $2', [id, action])
const isMissing = (t: Test, { status, code }: { status: number; code: string | undefined }, what?: string) =>
  t.strictSame([status, code], [404, 'NOT_FOUND'], what ?? 'it is missing')

t.test('a comment is what was written, and who wrote it', async (t) => {
  const party = await event()
  const photo = await aMediaItem(api, { orgId, uploader: author })
  const { status, data } = await post(author, at(party), {
    body: '  Do you remember?\r\nI do.\u2003',
    media_ids: [photo],
    mentions: [another.wireId],
    comment_id: 'mine',
  })
  t.equal(status, 201)
  t.match(data, { comment_id: /^cmt_/, created_at: /Z$/ })
  t.strictSame(data, {
    comment_id: data.comment_id,
    event_id: party.wireId,
    target: { type: 'meta', id: party.wireId },
    author_id: author.wireId,
    author_name: 'Ann',
    body: 'Do you remember?\nI do.',
    media_ids: [photo],
    mentions: [another.wireId],
    reply_count: 0,
    edited: false,
    deleted: false,
    created_at: data.created_at,
    updated_at: data.created_at,
    reaction_counts: { '❤️': 0, '😂': 0, '🎉': 0, '😢': 0, '👏': 0, '🔥': 0 },
    my_reaction: null,
    can: ['comment.delete', 'comment.edit'],
  })
  const path = `${at(party)}/${data.comment_id}`
  const forOwner = { ...data, can: ['comment.delete'] }
  t.strictSame((await get(owner, path)).data, forOwner)
  t.strictSame((await get(owner, at(party))).data.comments, [forOwner])
  const about = { comment_id: data.comment_id, event_id: party.wireId, org_id: org, author_id: author.wireId }
  t.match(await told(path), [
    { type: 'CommentPosted', ...about, target_type: 'meta', target_id: party.wireId, audience: 'event', version: 1 },
    { type: 'USER_MENTIONED', ...about, to: another.wireId, excerpt: 'Do you remember?\nI do.', version: 1 },
  ])
  t.strictSame(await audited(uuidOf('comment', data.comment_id), 'COMMENT_CREATE'), [
    { details: { event_id: party.wireId }, actor_id: author.id },
  ])
})

const MARKS = Array.from({ length: 129 }, () => `a${'\u0301\u0316\u0334'.repeat(10)}`).join('')
const BODIES: [what: string, body: string][] = [
  ['HTML', '<script>alert(1)</script><img src=x onerror=alert(1)>&amp;'],
  ['bidi marks', '\u202Eevil\u202C \u2066x\u2069 \u200Fשלום'],
  ['as many combining marks as fit', MARKS],
  ['emojis of several code points', '👨‍👩‍👧 🇯🇵 ❤️ 👏🏽'],
  ['quotation marks and SQL', `'; drop table comments; -- "\\`],
  ['what looks like JSON', '{"a":1}'],
  ['4,000 code points', '😀'.repeat(4000)],
]
for (const [what, body] of BODIES) {
  t.test(`${what} is text`, async (t) => {
    const path = await posted(author, at(await event()), { body })
    t.equal((await get(member, path)).data.body, body.normalize('NFC'))
  })
}

t.test('what is no text is refused', async (t) => {
  const party = await event()
  const half = { bytes: Buffer.from('{"body":"\\ud83d"}'), headers: { 'content-type': 'application/json' } }
  t.match(await call(author, 'POST', at(party), half), { status: 400, code: 'VALIDATION_ERROR' })
  const flood = { body: `a${'\u0301'.repeat(3999)}` }
  t.match(await post(author, at(party), flood), { status: 400, code: 'VALIDATION_ERROR' })
  t.strictSame((await get(author, at(party))).data.comments, [])
})

t.test('replies have one level, and are counted', async (t) => {
  const party = await event()
  const path = await posted(author, at(party))
  const replies = at(party, 'comment', idIn(path))
  const first = await posted(another, replies)
  await posted(author, replies)
  t.match(await post(owner, at(party, 'comment', idIn(first))), {
    status: 400,
    body: { error: { code: 'VALIDATION_ERROR', details: [{ field: 'path.action_id' }] } },
  })
  t.equal((await get(member, path)).data.reply_count, 2)
  t.match((await get(member, replies)).data, { comments: { length: 2 }, has_more: false })
  t.match((await get(member, first)).data, { target: { type: 'comment', id: idIn(path) }, reply_count: 0 })
  t.strictSame((await get(member, at(party, 'comment', idIn(first)))).data.comments, [], 'a reply has no replies')
  t.equal((await get(member, at(party))).data.comments.length, 1, 'replies are not in the list of the event')
  await remove(another, first)
  t.equal((await get(member, path)).data.reply_count, 1)
})

t.test('replies outlive the comment that they answer, which takes no more of them', async (t) => {
  const party = await event()
  const path = await posted(author, at(party))
  const replies = at(party, 'comment', idIn(path))
  const reply = await posted(another, replies)
  t.equal((await remove(author, path)).status, 204)
  t.equal((await get(member, replies)).data.comments.length, 1)
  t.equal((await get(member, reply)).status, 200)
  t.match(await edit(another, reply, { body: 'Still' }), { status: 200, data: { body: 'Still' } })
  isMissing(t, await post(another, replies), 'a new reply')
  t.equal((await remove(another, reply)).status, 204)
  t.equal((await get(member, replies)).data.comments.length, 0)
})

t.test('a comment is where it was posted, and nowhere else', async (t) => {
  const [party, other] = [await event(), await event()]
  const path = await posted(author, at(party))
  const reply = await posted(author, at(party, 'comment', idIn(path)))
  const media = await aMediaItem(api, { orgId, uploader: author })
  for (const elsewhere of [
    at(other),
    at(party, 'meta', other.wireId),
    at(party, 'comment', idIn(path)),
    at(party, 'comment', idIn(reply)),
    at(party, 'media', media),
    at(party, 'message', party.wireId),
    at(party, 'nonsense', party.wireId),
    at(party, 'META'),
    at(party, 'meta', formatId('comment', party.id)),
    at(party, 'meta', formatId('media', party.id)),
    at(party, 'meta', 'nonsense'),
    at(party, 'reactions', 'meta'),
  ]) {
    for (const [method, options] of [
      ['GET', {}],
      ['PATCH', { json: { body: 'Elsewhere' } }],
      ['DELETE', {}],
    ] as const) {
      isMissing(t, await call(author, method, `${elsewhere}/${idIn(path)}`, options), `${method} ${elsewhere}`)
    }
  }
  t.equal((await get(author, at(party, 'meta', party.id))).status, 200, 'a bare UUID is an id')
  t.equal((await get(author, `${at(party)}/${uuidOf('comment', idIn(path))}`)).data.body, 'Hello')
})

t.test('who may see the event may see its comments, and comment', async (t) => {
  const draft = await event('draft')
  const path = await posted(member, at(draft))
  for (const who of [owner, admin, member]) {
    t.equal((await get(who, path)).status, 200)
    t.equal((await post(who, at(draft))).status, 201)
  }
  for (const who of [another, author, stranger, people.platformAdmin]) {
    isMissing(t, await get(who, path))
    isMissing(t, await get(who, at(draft)))
    isMissing(t, await post(who, at(draft)))
    isMissing(t, await edit(who, path, { body: 'Mine' }))
    isMissing(t, await remove(who, path))
  }
})

t.test('only the author edits', async (t) => {
  const path = await posted(author, at(await event()))
  for (const who of [owner, admin, member, another, stranger]) isMissing(t, await edit(who, path, { body: 'Mine' }))
  t.match(await edit(author, path, { body: 'Mine' }), { status: 200, data: { body: 'Mine', edited: true } })
})

t.test('the author, the owner of the event and administrators delete', async (t) => {
  const party = await event()
  for (const who of [author, member, owner, admin]) {
    const path = await posted(author, at(party))
    for (const other of [another, stranger]) isMissing(t, await remove(other, path))
    const { status, body } = await remove(who, path)
    t.strictSame([status, body.length], [204, 0])
    isMissing(t, await get(author, path))
    isMissing(t, await edit(author, path, { body: 'Back' }))
    isMissing(t, await remove(who, path), 'a repeat')
    t.strictSame(await audited(uuidOf('comment', idIn(path)), 'COMMENT_DELETE'), [
      { details: { event_id: party.wireId }, actor_id: who.id },
    ])
  }
  t.strictSame((await get(author, at(party))).data.comments, [])
})

t.test('an author who may not see the event any more may do nothing', async (t) => {
  const former = await aMember(api, orgId, { role: 'admin' })
  const draft = await event('draft')
  const path = await posted(former, at(draft))
  await sql(`update memberships set role = 'member' where org_id = $1 and user_id = $2`, [orgId, former.id])
  isMissing(t, await get(former, path))
  isMissing(t, await edit(former, path, { body: 'Mine' }))
  isMissing(t, await remove(former, path))
})

t.test('the reason of a deletion is in the body or in the query, and the comment stays in the database', async (t) => {
  const party = await event()
  const reasonOf = async (path: string) => {
    const [row] = await sql('select deleted_at, deleted_by, deleted_reason, body from comments where id = $1', [
      uuidOf('comment', idIn(path)),
    ])
    t.match(row, { deleted_at: Date, deleted_by: author.id, body: 'Hello' })
    return row.deleted_reason
  }
  const cases: [query: string, json: object | undefined, reason: string | null][] = [
    ['', undefined, null],
    ['', { reason: ' In error ' }, 'In error'],
    ['?reason=In%20error', undefined, 'In error'],
    ['?reason=query', { reason: 'body' }, 'body'],
    ['?reason=query', { reason: null }, 'query'],
    ['', {}, null],
  ]
  for (const [query, json, reason] of cases) {
    const path = await posted(author, at(party))
    t.equal((await remove(author, `${path}${query}`, json)).status, 204)
    t.equal(await reasonOf(path), reason, `${query} ${JSON.stringify(json)}`)
  }
  const path = await posted(author, at(party))
  t.match(await remove(author, path, { reason: 'x'.repeat(501) }), { status: 400, code: 'VALIDATION_ERROR' })
  t.match(await remove(author, `${path}?reason=${'x'.repeat(501)}`), { status: 400, code: 'VALIDATION_ERROR' })
  t.equal((await get(author, path)).status, 200)
})

const versionsOf = (path: string) =>
  sql('select version, body, media_ids, mentions, written_at from comment_versions where comment_id = $1 order by 1', [
    uuidOf('comment', idIn(path)),
  ])

t.test('every version is kept, and an edit without a change is none', async (t) => {
  const photo = await aMediaItem(api, { orgId, uploader: author })
  const party = await event()
  const path = await posted(author, at(party), { body: 'One', media_ids: [photo], mentions: [owner.wireId] })
  const first = (await get(author, path)).data
  t.strictSame((await edit(author, path, { body: ' One ', media_ids: [photo], mentions: [owner.id] })).data, first)
  t.strictSame(await versionsOf(path), [])
  t.strictSame(await audited(party.id, 'EVENT_ACTION'), [])
  const second = (await edit(author, path, { body: 'Two' })).data
  t.match(second, { body: 'Two', media_ids: [photo], mentions: [owner.wireId], edited: true })
  t.equal(second.created_at, first.created_at)
  t.ok(second.updated_at >= first.updated_at)
  const third = (await edit(author, path, { media_ids: [], mentions: null })).data
  t.match(third, { body: 'Two', media_ids: [], mentions: [] })
  t.strictSame((await get(author, path)).data, third)
  const versions = await versionsOf(path)
  const attachments = { media_ids: [uuidOf('media', photo)], mentions: [owner.id] }
  t.match(versions, [
    { version: 1, body: 'One', ...attachments },
    { version: 2, body: 'Two', ...attachments },
  ])
  t.strictSame(
    versions.map((row) => row.written_at.toISOString()),
    [first.updated_at, second.updated_at],
  )
  t.strictSame(
    (await audited(party.id, 'EVENT_ACTION')).map(({ details }) => details),
    Array.from({ length: 2 }, () => ({ operation: 'edit comment', comment_id: idIn(path) })),
  )
})

const age = (path: string, interval: string) =>
  sql(`update comments set created_at = now() - $2::interval where id = $1`, [uuidOf('comment', idIn(path)), interval])

t.test('after 15 minutes nothing is edited, and everything can be deleted', async (t) => {
  const path = await posted(author, at(await event()))
  await age(path, '14 minutes')
  t.equal((await edit(author, path, { body: 'In time' })).status, 200)
  await age(path, '15 minutes')
  t.match(await edit(author, path, { body: 'Late' }), { status: 422, code: 'COMMENT_EDIT_WINDOW_EXPIRED' })
  t.match(await edit(author, path, { body: 'In time' }), { status: 422 }, 'nor without a change')
  isMissing(t, await edit(another, path, { body: 'Late' }), 'others do not learn of it')
  t.equal((await get(author, path)).data.body, 'In time')
  t.equal((await remove(author, path)).status, 204)
})

t.test('an archived event is read and not changed', async (t) => {
  const party = await event()
  const path = await posted(author, at(party))
  await sql(`update events set status = 'archived', archived_at = now() where id = $1`, [party.id])
  for (const answer of [
    await post(author, at(party)),
    await post(author, at(party, 'comment', idIn(path))),
    await edit(author, path, { body: 'Late' }),
  ]) {
    t.match(answer, { status: 422, code: 'EVENT_ARCHIVED' })
  }
  isMissing(t, await post(author, at(party, 'comment', formatId('comment', newUuid()))))
  isMissing(t, await edit(another, path, { body: 'Mine' }))
  t.match((await get(another, at(party))).data.comments, [{ body: 'Hello', edited: false }])
})

t.test('the same people delete comments of an archived event as of an active one', async (t) => {
  const party = await event()
  for (const who of [owner, admin, member, author]) {
    const [path, own] = [await posted(author, at(party)), await posted(who, at(party))]
    await sql(`update events set status = 'archived', archived_at = now() where id = $1`, [party.id])
    isMissing(t, await remove(another, path), 'a member')
    for (const one of [path, own]) {
      t.equal((await remove(who, one)).status, 204)
      isMissing(t, await get(author, one))
    }
    t.match(await audited(uuidOf('comment', idIn(path)), 'COMMENT_DELETE'), [{ actor_id: who.id }])
    await sql(`update events set status = 'active', archived_at = null where id = $1`, [party.id])
  }
})

t.test('mentions are those of the field and of the body, each once', async (t) => {
  const path = await posted(author, at(await event()), {
    body: `@${another.wireId} and @${member.id} and @${another.id}, not @usr_nobody`,
    mentions: [owner.id, another.wireId, author.wireId],
  })
  const mentions = [owner, another, author, member].map(({ wireId }) => wireId)
  t.strictSame((await get(owner, path)).data.mentions, mentions)
  t.strictSame(await mentioned(path), mentions.filter((id) => id !== author.wireId).sort(), 'the author is not told')
  await edit(author, path, { body: `@${author.wireId} @${admin.wireId}`, mentions: [] })
  t.strictSame((await get(owner, path)).data.mentions, [author.wireId, admin.wireId])
  t.notOk((await mentioned(path)).includes(author.wireId), 'nor of an edit')
})

t.test('only members who can see the event are mentioned', async (t) => {
  const [party, draft] = [await event(), await event('draft')]
  const nobody = formatId('user', newUuid())
  const guest = await aPerson(api)
  for (const wrong of [stranger.wireId, stranger.id, people.platformAdmin.wireId, guest.wireId, nobody]) {
    t.match(await post(author, at(party), { body: 'x', mentions: [owner.wireId, wrong] }), {
      status: 400,
      body: { error: { code: 'VALIDATION_ERROR', details: [{ field: 'body.mentions.1' }] } },
    })
    t.match(await post(author, at(party), { body: `Hello @${wrong}` }), {
      status: 400,
      body: { error: { code: 'VALIDATION_ERROR', details: [{ field: 'body.body' }] } },
    })
  }
  t.match(await post(member, at(draft), { body: 'x', mentions: [another.wireId] }), { status: 400 })
  t.equal((await post(owner, at(draft), { body: 'x', mentions: [admin.wireId, member.wireId] })).status, 201)
  const many = Array.from({ length: 101 }, () => `@${newUuid()}`)
  t.match(await post(author, at(party), { body: many.join(' ') }), { status: 400, code: 'VALIDATION_ERROR' })
  t.strictSame((await get(author, at(party))).data.comments, [], 'nothing was posted')
})

t.test('everyone is told once of a comment, whatever its edits', async (t) => {
  const path = await posted(author, at(await event()), { body: `@${owner.wireId}` })
  const edits: [changes: object, told: Person[]][] = [
    [{ body: `@${owner.wireId} again` }, [owner]],
    [{ mentions: [another.id] }, [owner, another]],
    [{ body: 'Nobody', mentions: [] }, [owner, another]],
    [{ body: `@${another.wireId} @${owner.wireId}` }, [owner, another]],
    [{ mentions: [admin.wireId, owner.wireId] }, [owner, another, admin]],
  ]
  for (const [changes, people] of edits) {
    t.equal((await edit(author, path, changes)).status, 200)
    t.strictSame(await mentioned(path), people.map(({ wireId }) => wireId).sort(), JSON.stringify(changes))
  }
  t.match(await edit(author, path, { mentions: [stranger.wireId] }), { status: 400 })
  t.equal((await told(path)).filter(({ type }) => type === 'CommentPosted').length, 1)
})

t.test('who leaves keeps what was said, without a name, and comes back to it', async (t) => {
  const leaver = await aMember(api, orgId, { name: 'Leaver' })
  const party = await event()
  const path = await posted(leaver, at(party))
  const about = await posted(author, at(party), { body: `@${leaver.wireId}` })
  await sql('delete from memberships where org_id = $1 and user_id = $2', [orgId, leaver.id])
  t.match((await get(owner, path)).data, { author_id: leaver.wireId, author_name: null, body: 'Hello' })
  t.match((await get(owner, about)).data, { mentions: [leaver.wireId] })
  for (const answer of [
    await get(leaver, path),
    await edit(leaver, path, { body: 'Bye' }),
    await remove(leaver, path),
    await post(leaver, at(party)),
  ]) {
    isMissing(t, answer)
  }
  t.match(await edit(author, about, { body: `@${leaver.wireId}!` }), { status: 200 }, 'a mention that was there stays')
  t.match(await edit(author, about, { body: 'x', mentions: [leaver.wireId, stranger.wireId] }), { status: 400 })
  t.equal((await remove(owner, path)).status, 204)
  const other = await posted(author, at(party), { body: 'x' })
  t.match(await edit(author, other, { mentions: [leaver.wireId] }), { status: 400 })
  await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [orgId, leaver.id])
  t.equal((await get(leaver, about)).status, 200)
})

t.test('a comment shows what others think of it, and what the caller thinks', async (t) => {
  const { react } = threadsIn(api, { org, orgId, owner: member })
  const party = await event()
  const path = await posted(author, at(party))
  const { data } = await react(another, party, '🎉', 'comment', idIn(path))
  await react(owner, party, '🎉', 'comment', idIn(path))
  const seen = async (who: Person) => {
    const { reaction_counts: counts, my_reaction: mine } = (await get(who, path)).data
    t.strictSame((await get(who, at(party))).data.comments[0], (await get(who, path)).data)
    return [counts['🎉'], mine]
  }
  t.strictSame(await seen(another), [2, { reaction_id: data.reaction_id, emoji: '🎉' }])
  t.strictSame(await seen(author), [2, null])
})

t.test('pages are those of one thread, also of comments of one moment', async (t) => {
  const [party, other] = [await event(), await event()]
  for (let n = 0; n < 5; n++) await posted(author, at(party), { body: `${n}` })
  const path = await posted(author, at(other))
  for (let n = 0; n < 2; n++) await posted(author, at(other, 'comment', idIn(path)))
  await sql('update comments set created_at = now() where event_id = any($1)', [[party.id, other.id]])
  const page = (thread: string, cursor?: string) =>
    get(owner, `${thread}?limit=2${cursor === undefined ? '' : `&cursor=${cursor}`}`)
  const bodies: string[] = []
  let cursor: string | undefined
  do {
    const { data } = await page(at(party), cursor)
    bodies.push(...data.comments.map(({ body }: { body: string }) => body))
    cursor = data.next_cursor ?? undefined
    if (!cursor) continue
    for (const elsewhere of [at(other), at(other, 'comment', idIn(path))]) {
      t.match(await page(elsewhere, cursor), { status: 400, code: 'INVALID_CURSOR' })
    }
  } while (cursor)
  t.strictSame(bodies.sort(), ['0', '1', '2', '3', '4'])
})

t.test('an administrator of the platform learns why someone may do what with a comment', async (t) => {
  const path = await posted(author, at(await event()))
  const explain = async (who: Person, action: string) => {
    const json = { user_id: who.wireId, org_id: org, action, resource_id: idIn(path) }
    return (await call(people.platformAdmin, 'POST', '/admin/permissions/explain', { json })).data
  }
  t.match(await explain(author, 'comment.edit'), { allowed: true, facts: { author: true } })
  t.match(await explain(another, 'comment.delete'), {
    allowed: false,
    reason: 'rule_not_met',
    facts: { author: false },
  })
  t.match(await explain(member, 'comment.delete'), { allowed: true, facts: { event_owner: true } })
  t.match(await explain(stranger, 'comment.delete'), { allowed: false, reason: 'not_a_member' })
})

t.test('a key makes one comment of two requests', async (t) => {
  const party = await event()
  const headers = { 'idempotency-key': newUuid() }
  const json = { body: 'Once', mentions: [owner.wireId] }
  const first = await call(author, 'POST', at(party), { json, headers })
  const again = await call(author, 'POST', at(party), { json, headers })
  t.strictSame([again.status, again.data], [201, first.data])
  t.equal((await get(author, at(party))).data.comments.length, 1)
  t.strictSame(await mentioned(`${at(party)}/${first.data.comment_id}`), [owner.wireId])
})
