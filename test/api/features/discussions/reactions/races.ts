import t from 'tap'
import { EMOJIS } from '../../../../../api/features/reaction-counts/emoji.ts'
import { type Person, startTestApi, uuidOf } from '../../../../support/api.ts'
import { idIn, threadsIn } from '../../../../support/comments.ts'
import type { MadeEvent } from '../../../../support/events.ts'
import { eventually } from '../../../../support/eventually.ts'
import { inTurn } from '../../../../support/in-turn.ts'
import { aMember } from '../../../../support/organizations.ts'
import { whileHeld } from '../../../../support/while-held.ts'

/** Reactions at once. The database must hold nothing but what the answers say. */
const api = await startTestApi(t)
const { people, org, call, database } = api
const { owner, member, another } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)
const { event, at, posted, react } = threadsIn(api, { org, orgId, owner: member })
const many = await Promise.all(Array.from({ length: 20 }, () => aMember(api, orgId)))

const remove = (who: Person, party: MadeEvent, id: string, type = 'meta') =>
  call(who, 'DELETE', `/api/orgs/${org}/events/${party.wireId}/reactions/${type}/${id}`)
const archive = (party: MadeEvent) => call(member, 'POST', `/api/orgs/${org}/events/${party.wireId}/archive`)
const shown = async (party: MadeEvent) =>
  (await call(owner, 'GET', `/api/orgs/${org}/events/${party.wireId}`)).data.reaction_counts
const rowOf = ({ id }: MadeEvent) => ({ text: 'select from events where id = $1 for update', values: [id] })
/** What the rows say. */
const rowsOf = async ({ id }: MadeEvent) => {
  const rows = await sql('select id, emoji, version from reactions where event_id = $1', [id])
  const counts = Object.fromEntries(EMOJIS.map((emoji) => [emoji, rows.filter((row) => row.emoji === emoji).length]))
  return { rows, counts }
}
const told = ({ wireId }: MadeEvent) =>
  sql(
    `select aggregate_id as id, aggregate_version as version, payload->>'emoji' as emoji from outbox
      where type = 'reaction_added' and payload->>'event_id' = $1 order by aggregate_id, aggregate_version`,
    [wireId],
  )

t.test('200 at once: counts are the rows, and every change was told once', async (t) => {
  const party = await event()
  const comment = idIn(await posted(another, at(party)))
  const known = new Map<Person, string>()
  for (const who of many.slice(0, 10)) known.set(who, (await react(who, party, '🎉')).data.reaction_id)
  const requests = Array.from({ length: 200 }, (_, i) => {
    const who = many[i % many.length] as Person
    const emoji = EMOJIS[(i * 7) % EMOJIS.length] ?? '🎉'
    if (i % 5 === 4) return () => react(who, party, emoji, 'comment', comment)
    return i % 5 === 3 && known.has(who)
      ? () => remove(who, party, known.get(who) ?? '')
      : () => react(who, party, emoji)
  })
  // All of them wait for one event: on a busy machine some wait too long, and a phone tries those again.
  const insistently = async (request: (typeof requests)[number]) => {
    for (;;) {
      const answer = await request()
      if (answer.status !== 503) return answer
    }
  }
  const answers = await Promise.all(requests.map(insistently))
  for (const { status, code } of answers) t.ok([200, 201, 204, 404].includes(status), `${status} ${code}`)
  const { data } = await call(owner, 'GET', `${at(party)}/${comment}`)
  const [meta, onComment] = [await shown(party), data.reaction_counts]
  const { rows } = await rowsOf(party)
  for (const emoji of EMOJIS) {
    t.equal(meta[emoji] + onComment[emoji], rows.filter((row) => row.emoji === emoji).length, emoji)
  }
  const pairs = await sql(`select user_id || ' ' || target_id as pair from reactions where event_id = $1`, [party.id])
  t.equal(new Set(pairs.map(({ pair }) => pair)).size, rows.length, 'one for each user and target')
  const made = answers.filter(({ status }) => status === 201).length
  const removed = answers.filter(({ status }) => status === 204).length
  t.equal(rows.length, known.size + made - removed)
  const events = await told(party)
  for (const [i, { id, version, emoji }] of events.entries()) {
    const before = events[i - 1]
    t.equal(version, before?.id === id ? before.version + 1 : 1, 'no version is missing or told twice')
    if (before?.id === id) t.not(emoji, before.emoji, 'a change')
  }
  for (const row of rows) {
    t.match(events.filter(({ id }) => id === row.id).at(-1), { version: row.version, emoji: row.emoji })
  }
})

t.test('one user, all emojis at once: one reaction, each change counts once', async (t) => {
  const party = await event()
  const answers = await Promise.all(
    Array.from({ length: 24 }, (_, i) => react(another, party, EMOJIS[i % EMOJIS.length] ?? '🎉')),
  )
  t.strictSame(answers.map(({ status }) => status).sort(), [...Array(23).fill(200), 201])
  t.equal(new Set(answers.map(({ data }) => data.reaction_id)).size, 1)
  for (const { data } of answers) t.equal(data.counts[data.emoji], 1, 'counts have the caller’s own')
  const { rows, counts } = await rowsOf(party)
  t.strictSame([rows.length, await shown(party)], [1, counts])
  t.equal((await told(party)).length, rows[0]?.version)
})

t.test('one user, one emoji, many times at once: one is new, and it is told once', async (t) => {
  const party = await event()
  const answers = await Promise.all(Array.from({ length: 20 }, () => react(another, party, '🔥')))
  t.strictSame(answers.map(({ status }) => status).sort(), [...Array(19).fill(200), 201])
  for (const { data } of answers) t.strictSame(data, answers[0]?.data)
  t.match(await told(party), [{ version: 1, emoji: '🔥' }])
  t.equal((await told(party)).length, 1)
})

t.test('of removals at once one removes', async (t) => {
  const party = await event()
  const { reaction_id: id } = (await react(another, party, '🔥')).data
  const answers = await Promise.all(Array.from({ length: 8 }, () => remove(another, party, id)))
  t.strictSame(answers.map(({ status }) => status).sort(), [204, ...Array(7).fill(404)])
  const audits = await sql(`select from audit_log where resource_id = $1 and action = 'REACTION_DELETE'`, [
    uuidOf('reaction', id),
  ])
  t.equal(audits.length, 1)
})

t.test('a reaction that waits for an archive is refused, and one that an archive waits for counts', async (t) => {
  const [late, early] = [await event(), await event()]
  const { reaction_id: id } = (await react(owner, late, '🔥')).data
  const [archived, refused, kept] = await inTurn(
    database,
    rowOf(late),
    () => archive(late),
    () => react(another, late, '🔥'),
    () => remove(owner, late, id),
  )
  t.strictSame(
    [archived, refused, kept].map((answer) => answer?.status),
    [200, 422, 422],
  )
  t.strictSame([refused?.code, kept?.code], ['EVENT_ARCHIVED', 'EVENT_ARCHIVED'])
  t.equal((await rowsOf(late)).rows.length, 1)
  const [reacted, afterwards] = await inTurn(
    database,
    rowOf(early),
    () => react(another, early, '🔥'),
    () => archive(early),
  )
  t.strictSame([reacted?.status, afterwards?.status], [201, 200])
  t.equal((await shown(early))['🔥'], 1)
})

t.test('reactions of others to the same target do not wait for one that is not finished', async (t) => {
  const party = await event()
  const unfinished = {
    text: `with held as (select id, org_id from events where id = $1 for share)
      insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji)
      select gen_random_uuid(), org_id, id, 'meta', id, $2, '🔥' from held`,
    values: [party.id, owner.id],
  }
  const answer = await whileHeld(database, unfinished, async (holder) => {
    const meanwhile = await react(another, party, '🔥')
    await holder.query('commit')
    return meanwhile
  })
  t.match(answer, { status: 201, data: { counts: { '🔥': 1 } } })
  t.equal((await shown(party))['🔥'], 2)
})

t.test('an archive gets through while many react without a pause', async (t) => {
  const party = await event()
  let [answered, isOver] = [0, false]
  const reacting = Promise.all(
    many.map(async (who) => {
      for (let n = 0; !isOver; n++) {
        const { status, code } = await react(who, party, EMOJIS[n % EMOJIS.length] ?? '🔥')
        if (status >= 400) return code
        answered++
      }
      return 'never refused'
    }),
  )
  await eventually('everyone to react', () => answered > 5 * many.length)
  const { status } = await archive(party)
  isOver = status !== 200
  t.equal(status, 200)
  t.strictSame(
    await reacting,
    many.map(() => 'EVENT_ARCHIVED'),
  )
})
