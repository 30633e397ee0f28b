import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { aPerson, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { type Followed, follow } from '../../../support/event-stream.ts'
import { eventually } from '../../../support/eventually.ts'

const api = await startTestApi(t)
const { admin, worker } = api.database
const ours = uuidOf('organization', api.org)
const theirs = uuidOf('organization', api.otherOrg)

const bump = (...orgs: Uuid[]) =>
  worker.inTransaction({}, async (tx) => {
    for (const org of orgs) await tx.execute(`select bump_feed('${org}')`)
  })
/** Left after each test. */
const opened: Followed[] = []
t.afterEach(() => {
  for (const one of opened.splice(0)) one.leave()
})
async function open(who: Person, since?: string): Promise<Followed> {
  const one = await follow(`${api.publicUrl}/v1/api/users/me/feed/changes`, {
    token: who.token,
    ...(since && { headers: { 'last-event-id': since } }),
  })
  opened.push(one)
  return one
}
const organizationsOf = (event: { data: string } | undefined) => JSON.parse(event?.data ?? '{}').org_ids as string[]
const joins = (user: Uuid, org: Uuid) =>
  admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [org, user])
const leaves = (user: Uuid, org: Uuid) =>
  admin.query('delete from memberships where org_id = $1 and user_id = $2', [org, user])
/** An open stream takes some 18 KiB. */
const KEPT_BYTES = 8192
/** Bytes of the heap in use after a garbage collection. */
function collected(): number {
  setFlagsFromString('--expose-gc')
  runInNewContext('gc')()
  return process.memoryUsage().heapUsed
}
const changes = ({ events }: Followed) => events.filter(({ event }) => event === 'changed').length
/** A change that everyone in the organization has been told of: whatever came before has been told too. */
async function settled(...streams: Followed[]): Promise<void> {
  const before = streams.map(changes)
  await bump(ours)
  await eventually('all to be told', () => streams.every((one, n) => changes(one) > (before[n] ?? 0)))
}

t.test('tells the members of an organization at once that something changed, and no one else', async (t) => {
  const [member, another, stranger] = [api.people.member, api.people.another, api.people.stranger]
  const streams = await Promise.all([member, another, stranger].map((who) => open(who)))
  const [mine, friend, foreign] = streams as [Followed, Followed, Followed]
  // What set the test up may still be told of behind it.
  t.match(mine.text, /^retry: \d+\nid: \S+\n\n/, 'a position, which fires no event')
  await settled(mine, friend)
  // A slow machine needs more than one try.
  await eventually('a change that both are told of within a second', async () => {
    const before = [mine, friend].map(changes)
    const at = performance.now()
    await bump(ours)
    await eventually('the event', () => [mine, friend].every((one, n) => changes(one) > (before[n] ?? 0)))
    return performance.now() - at < 1000
  })
  t.strictSame(organizationsOf(mine.events.at(-1)), [api.org])
  t.notOk(
    foreign.events.some((event) => organizationsOf(event).includes(api.org)),
    'nothing of others',
  )
  await bump(theirs)
  t.strictSame(organizationsOf(await foreign.next('changed')), [api.otherOrg])
})

t.test('tells one reader of many changes at most four times a second', async (t) => {
  const mine = await open(api.people.member)
  await settled(mine)
  const before = changes(mine)
  const at = performance.now()
  for (let n = 0; n < 60; n++) await bump(ours)
  await settled(mine)
  const seconds = (performance.now() - at) / 1000
  t.ok(changes(mine) - before <= 4 * seconds + 2, `${changes(mine) - before} events in ${seconds} s`)
})

t.test('goes on where a client was: at once what changed meanwhile, and nothing if nothing did', async (t) => {
  const who = await aPerson(api)
  const [one, two] = [newUuid(), newUuid()]
  for (const org of [one, two]) {
    await admin.query('insert into organizations (id, name) values ($1, $2)', [org, 'Of two'])
    await joins(who.id, org)
  }
  const first = await open(who)
  const start = first.lastId
  first.leave()
  const unchanged = await open(who, start)
  t.strictSame(unchanged.events, [])
  unchanged.leave()

  await bump(one)
  const resumed = await open(who, start)
  t.strictSame(organizationsOf(resumed.events[0]), [formatId('organization', one)], 'with the first bytes')
  t.not(resumed.lastId, start)
  await bump(two)
  await eventually('the second', () => changes(resumed) === 2)
  resumed.leave()
  t.strictSame((await open(who, resumed.lastId)).events, [], 'the id of an event is the position behind it')
  t.strictSame(organizationsOf((await open(who, start)).events[0]).length, 2)
})

t.test('says reset for a position that it does not know, or that is too old', async (t) => {
  const mine = await open(api.people.member)
  const old = Buffer.from(mine.lastId, 'base64url')
  old.writeUInt8((old.readUInt8(5) + 1) % 256, 5)
  for (const since of ['nonsense', '7', old.toString('base64url'), 'x'.repeat(9000), `${mine.lastId.slice(0, -2)}AA`]) {
    const one = await open(api.people.member, since)
    t.match(one.events, [{ event: 'reset', data: '{}', id: /./ }], since.slice(0, 20))
    one.leave()
  }
})

t.test('an organization that is left ends the stream, and the client is told to read anew', async (t) => {
  const who = await aPerson(api)
  await joins(who.id, ours)
  const mine = await open(who)
  await settled(mine)
  const at = performance.now()
  await leaves(who.id, ours)
  t.match(await mine.next('bye'), { data: '{"reason":"access"}' })
  t.ok(performance.now() - at < 10_000, 'not only when its life ends')
  await bump(ours)
  const again = await open(who, mine.lastId)
  t.match(again.events, [{ event: 'reset' }])
  const other = await open(api.people.member)
  await settled(other)
  t.equal(changes(again), 0, 'who left hears nothing more')
  // Joining shows without a new connection.
  await joins(who.id, ours)
  t.strictSame(organizationsOf(await again.next('changed')), [api.org])
  const before = changes(again)
  await bump(ours)
  await eventually('a change of the organization that was joined', () => changes(again) > before)
})

t.test('a sign-out ends the streams of that user on every replica', async (t) => {
  const who = await aPerson(api)
  await joins(who.id, ours)
  const [mine, other] = [await open(who), await open(api.people.another)]
  const at = performance.now()
  // As another replica does it.
  await admin.query(`update users set tokens_not_before = now() + interval '1 second' where id = $1`, [who.id])
  t.match(await mine.next('bye'), { data: '{"reason":"revoked"}' })
  t.ok(performance.now() - at < 10_000, 'not only when its life ends')
  t.equal((await api.call(who, 'GET', '/api/users/me')).status, 401, 'and the token is refused here at once')
  await settled(other)
  t.notOk(other.isOver)
})

t.test('a connection to the database that was lost loses no change', async (t) => {
  const mine = await open(api.people.member)
  await settled(mine)
  const before = changes(mine)
  // Changes while nobody listens: the notification is not sent, as it would not be heard.
  await admin.query(
    `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = 'keepsake_api listen' and datname = current_database()`,
  )
  await admin.query('update feed_versions set n = n + 1 where org_id = $1', [ours])
  await eventually('the change that was not notified', () => changes(mine) > before)
  t.equal(mine.isOver, false)
})

const openNow = async () => {
  const text = await fetch(`${api.metricsUrl}/metrics`).then((r) => r.text())
  return Number(/^event_streams_open (\d+)/m.exec(text)?.[1])
}

t.test('a user who opens ever more streams has five, and the streams of others go on', async (t) => {
  const greedy = await aPerson(api)
  await joins(greedy.id, ours)
  const other = await open(api.people.another)
  await settled(other)
  const before = await openNow()
  const streams = await Promise.all(Array.from({ length: 40 }, () => open(greedy)))
  const isReplaced = (one: Followed) => one.events.some(({ event }) => event === 'replaced')
  await eventually('the oldest to be replaced', () => streams.filter(isReplaced).length === 35)
  await eventually('their end', async () => (await openNow()) === before + 5)
  const left = streams.filter((one) => !isReplaced(one))
  await settled(other, ...left)
  t.notOk(other.isOver, 'of others none')
  t.equal((await api.call(api.people.another, 'GET', '/api/users/me')).status, 200)
  t.strictSame(
    streams.filter(isReplaced).map(({ isOver }) => isOver),
    Array(35).fill(true),
  )
})

t.test('hundreds of streams opened and left leave nothing behind', async (t) => {
  const people = await Promise.all(Array.from({ length: 40 }, () => aPerson(api)))
  await Promise.all(people.map(({ id }) => joins(id, ours)))
  const used: number[] = []
  for (let round = 0; round < 4; round++) {
    const streams = await Promise.all(people.flatMap((who) => Array.from({ length: 5 }, () => open(who))))
    t.equal(await openNow(), 200)
    await settled(...streams)
    for (const one of streams) one.leave()
    await eventually('all of them gone', async () => (await openNow()) === 0)
    // What `afterEach` would hold of them.
    opened.length = 0
    used.push(collected())
  }
  const [, second = 0, , fourth = 0] = used
  t.ok((fourth - second) / 400 < KEPT_BYTES, `${(fourth - second) / 400} bytes more for each of them`)
})

t.test('a replica that stops sends its streams away, and waits for none of them as it does for requests', async (t) => {
  const streams = await Promise.all(Array.from({ length: 5 }, () => open(api.people.owner)))
  const at = performance.now()
  await api.close()
  const took = performance.now() - at
  // For requests a minute.
  t.ok(took < 30_000, `${took} ms`)
  for (const one of streams) t.match(await one.next('bye'), { data: '{"reason":"drain"}' })
})
