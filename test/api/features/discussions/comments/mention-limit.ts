import t from 'tap'
import { MENTION_LIMIT } from '../../../../../api/limits/classes.ts'
import { type Person, startTestApi, uuidOf } from '../../../../support/api.ts'
import { aMediaItem, idIn, threadsIn } from '../../../../support/comments.ts'
import { inTurn } from '../../../../support/in-turn.ts'
import { aMember } from '../../../../support/organizations.ts'

/** Each mention is a notice to another user: they are counted, and not only the comments that have them. */
const api = await startTestApi(t, { settings: { RATE_LIMIT_FACTOR: '1' } })
const { people, org, call, database } = api
const { owner, member } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)
const { event, at, post, posted } = threadsIn(api, { org, orgId, owner: member })
const readers = (await Promise.all(Array.from({ length: 101 }, () => aMember(api, orgId)))).map(({ wireId }) => wireId)
const party = await event()

const mentioning = (who: Person, count: number, more: object = {}) =>
  post(who, at(party), { body: 'x', mentions: readers.slice(0, count), ...more })
const edit = (who: Person, path: string, json: object) => call(who, 'PATCH', path, { json })
const commentsBy = async (who: Person) =>
  (await sql('select count(*)::int as n from comments where author_id = $1', [who.id]))[0]?.n
const noticesBy = async (who: Person) =>
  (
    await sql(`select count(*)::int as n from outbox where type = 'USER_MENTIONED' and payload->>'author_id' = $1`, [
      who.wireId,
    ])
  )[0]?.n
/** Of an author who has mentioned so many. */
async function having(count: number): Promise<Person> {
  const author = await aMember(api, orgId)
  for (let left = count; left > 0; left -= 100) {
    t.equal((await mentioning(author, Math.min(left, 100))).status, 201)
  }
  return author
}

t.test('an author tells 300 users an hour, whatever the number of comments', async (t) => {
  t.equal(MENTION_LIMIT.quota, 300)
  const author = await having(300)
  const refused = await mentioning(author, 1)
  t.match(refused, { status: 429, code: 'RATE_LIMITED' })
  const { retry_after: seconds } = refused.body.error
  t.ok(seconds > 3000 && seconds <= 3600, `${seconds}`)
  t.equal(refused.headers.get('retry-after'), String(seconds))
  t.strictSame([await commentsBy(author), await noticesBy(author)], [3, 300], 'nothing was written')
  t.equal((await mentioning(author, 0)).status, 201, 'a comment without mentions')
  t.equal(
    (await post(author, at(party), { body: 'x', mentions: [author.wireId] })).status,
    201,
    'nor is the author told',
  )
  t.equal((await mentioning(owner, 100)).status, 201, 'another author')
  // As if an hour had passed.
  await sql(`update rate_limits set expire = 1 where key like 'mention:%'`)
  t.equal((await mentioning(author, 100)).status, 201)
})

t.test('the limit is one number: 299 and 2 are too many', async (t) => {
  const author = await having(299)
  t.equal((await mentioning(author, 2)).status, 429)
  t.equal((await mentioning(author, 1)).status, 201, 'the refused ones did not count')
})

t.test('an edit counts those whom it tells', async (t) => {
  const author = await having(200)
  const path = await posted(author, at(party), { body: 'x', mentions: readers.slice(0, 99) })
  t.equal((await edit(author, path, { body: 'y' })).status, 200)
  t.equal((await edit(author, path, { mentions: readers.slice(0, 50) })).status, 200)
  t.equal((await edit(author, path, { mentions: readers.slice(0, 99) })).status, 200, 'those were told before')
  t.equal((await edit(author, path, { mentions: readers.slice(0, 100) })).status, 200)
  t.match(await edit(author, path, { body: 'z', mentions: readers.slice(1, 101) }), { status: 429 })
  t.match((await call(author, 'GET', path)).data, { body: 'y', mentions: readers.slice(0, 100) }, 'nothing changed')
  t.equal((await edit(author, path, { body: 'z' })).status, 200)
  t.equal(await noticesBy(author), 300)
})

t.test('a comment that is refused for another reason counts nothing', async (t) => {
  const author = await having(250)
  const gone = await aMediaItem(api, { orgId, uploader: author })
  await sql('update media set deleted_at = now(), deleted_by = $2 where id = $1', [uuidOf('media', gone), author.id])
  t.match(await mentioning(author, 50, { media_ids: [gone] }), { status: 422, code: 'MEDIA_NOT_AVAILABLE' })
  t.equal((await mentioning(author, 50)).status, 201)
})

t.test('of two at once that are too many together one is refused', async (t) => {
  const author = await having(240)
  const path = await posted(author, at(party), { body: 'x', mentions: readers.slice(0, 10) })
  const [one, other] = await inTurn(
    database,
    { text: `select from comments where id = $1 for update`, values: [uuidOf('comment', idIn(path))] },
    () => post(author, at(party, 'comment', idIn(path)), { body: 'x', mentions: readers.slice(0, 30) }),
    () => edit(author, path, { mentions: readers.slice(50, 90) }),
  )
  t.strictSame([one?.status, other?.status], [201, 429])
  const both = await Promise.all([mentioning(author, 15), mentioning(author, 15)])
  t.strictSame(both.map(({ status }) => status).sort(), [201, 429])
  t.equal(await noticesBy(author), 295)
})
