import t from 'tap'
import { refuseArchived } from '../../../../api/features/events/policy.ts'
import { findEvent } from '../../../../api/features/events/queries.ts'
import { aPerson, type Person, startTestApi, uuidOf } from '../../../support/api.ts'
import { eventually } from '../../../support/eventually.ts'
import { inTurn as inTurnOn, waitingIn } from '../../../support/in-turn.ts'

/** Two requests on one event at once: a held lock decides who comes first. */
const api = await startTestApi(t)
const { people, org, call, database } = api
const { owner, admin, member } = people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)

const EVENTS = `/api/orgs/${org}/events`
const GIVEN = { title: 'Reunion', start_at: '2027-05-08T16:00:00Z', end_at: '2027-05-08T18:00:00Z' }
const create = async (who: Person = member): Promise<string> =>
  (await call(who, 'POST', EVENTS, { json: GIVEN })).data.event_id
const show = async (id: string) => (await call(member, 'GET', `${EVENTS}/${id}`)).data
const change = (id: string, json: object) => call(member, 'PUT', `${EVENTS}/${id}`, { json })
const activate = (id: string, who = member) => call(who, 'POST', `${EVENTS}/${id}/activate`)
const archive = (id: string, who = member) => call(who, 'POST', `${EVENTS}/${id}/archive`)
const createActive = async () => {
  const id = await create()
  await activate(id)
  return id
}
const published = async (id: string) =>
  (
    await sql('select type, aggregate_version from outbox where aggregate_id = $1 order by aggregate_version', [
      uuidOf('event', id),
    ])
  ).map((row) => row.type)
const audited = async (id: string, action: string) =>
  (await sql('select from audit_log where resource_id = $1 and action = $2', [uuidOf('event', id), action])).length

const waiting = () => waitingIn(database)
/** In this order, decided by a lock on the event. */
const inTurn = <T>(id: string, ...requests: (() => Promise<T>)[]): Promise<T[]> =>
  inTurnOn(
    database,
    { text: 'select from events where id = $1 for update', values: [uuidOf('event', id)] },
    ...requests,
  )

t.test('two activate: both get the active event, and it happens once', async (t) => {
  const id = await create()
  const answers = await inTurn(
    id,
    () => activate(id),
    () => activate(id, admin),
  )
  t.strictSame(
    answers.map(({ status, data }) => [status, data.status]),
    [
      [200, 'active'],
      [200, 'active'],
    ],
  )
  t.equal(answers[0]?.data.activated_at, answers[1]?.data.activated_at)
  t.strictSame(await published(id), ['EventCreated', 'EventActivated'])
  t.equal(await audited(id, 'EVENT_ACTIVATE'), 1)
})

t.test('two archive: both get the archived event, and it happens once', async (t) => {
  const id = await createActive()
  const answers = await inTurn(
    id,
    () => archive(id),
    () => archive(id, owner),
  )
  t.strictSame(
    answers.map(({ status, data }) => [status, data.status]),
    [
      [200, 'archived'],
      [200, 'archived'],
    ],
  )
  t.equal(answers[0]?.data.archived_at, answers[1]?.data.archived_at)
  t.strictSame(await published(id), ['EventCreated', 'EventActivated', 'EventArchived'])
  t.equal(await audited(id, 'EVENT_ARCHIVE'), 1)
})

t.test('a change that waits for an archive is refused: the event is read-only', async (t) => {
  const id = await createActive()
  const [archived, changed] = await inTurn(
    id,
    () => archive(id),
    () => change(id, { title: 'Late' }),
  )
  t.equal(archived?.status, 200)
  t.match(changed, { status: 422, code: 'EVENT_ARCHIVED' })
  t.strictSame(await show(id), archived?.data)
  t.equal(await audited(id, 'EVENT_ACTION'), 0)
})

t.test('an archive that waits for a change archives what it left', async (t) => {
  const id = await createActive()
  const [changed, archived] = await inTurn(
    id,
    () => change(id, { title: 'Just in time' }),
    () => archive(id),
  )
  t.equal(changed?.status, 200)
  t.match(archived, { status: 200, data: { status: 'archived', title: 'Just in time' } })
})

t.test('an activation that waits for an archive of the same event is refused', async (t) => {
  const id = await createActive()
  const [archived, again] = await inTurn(
    id,
    () => archive(id),
    () => activate(id),
  )
  t.equal(archived?.status, 200)
  t.match(again, { status: 422, code: 'INVALID_STATE_TRANSITION' })
})

t.test('two changes of times that fit the event each, but not each other: the second is refused', async (t) => {
  const id = await create()
  const [first, second] = await inTurn(
    id,
    () => change(id, { start_at: '2027-05-08T17:30:00Z' }),
    () => change(id, { end_at: '2027-05-08T17:00:00Z' }),
  )
  t.equal(first?.status, 200)
  t.match(second, { status: 400, code: 'VALIDATION_ERROR', body: { error: { details: [{ field: 'body.end_at' }] } } })
})

t.test('two changes of different fields are both kept', async (t) => {
  const id = await create()
  await inTurn(
    id,
    () => change(id, { title: 'One' }),
    () => change(id, { location_name: 'Two' }),
  )
  t.match(await show(id), { title: 'One', location_name: 'Two' })
  const [row] = await sql('select version from events where id = $1', [uuidOf('event', id)])
  t.equal(row?.version, 3)
})

/** As a feature does that changes what belongs to an event. */
const changeBelongings = (id: string, work: () => Promise<unknown> = async () => {}) =>
  database.db.inTransaction({ org: orgId }, async (tx) => {
    const event = await findEvent(tx, orgId, uuidOf('event', id), { lock: 'share' })
    if (event) refuseArchived(event)
    await work()
  })

t.test('an archive waits for what is being changed in the event', async (t) => {
  const id = await createActive()
  let archiving: ReturnType<typeof archive> | undefined
  await changeBelongings(id, async () => {
    archiving = archive(id)
    await eventually('the archive to wait', async () => (await waiting()) === 1)
    t.equal((await show(id)).status, 'active')
  })
  t.match(await archiving, { status: 200, data: { status: 'archived' } })
})

t.test('what would be changed in the event waits for an archive, and is refused', async (t) => {
  const id = await createActive()
  const [archived, refused] = await inTurn<unknown>(
    id,
    () => archive(id),
    () => changeBelongings(id).catch((error: unknown) => error),
  )
  t.match(archived, { status: 200 })
  t.match(refused, { code: 'EVENT_ARCHIVED' })
})

t.test('changes of what belongs to an event do not wait for each other', async (t) => {
  const id = await createActive()
  await changeBelongings(id, () => changeBelongings(id))
  t.equal((await show(id)).status, 'active')
})

const joins = (user: Person) =>
  sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [orgId, user.id])
const leaves = (user: Person) => sql('delete from memberships where org_id = $1 and user_id = $2', [orgId, user.id])

t.test('an owner who leaves while creating an event creates none', async (t) => {
  const leaver = await aPerson(api)
  await joins(leaver)
  const holder = await database.admin.connect()
  try {
    await holder.query('begin')
    await holder.query('delete from memberships where org_id = $1 and user_id = $2', [orgId, leaver.id])
    const creating = call(leaver, 'POST', EVENTS, { json: GIVEN })
    await eventually('the creation to wait', async () => (await waiting()) === 1)
    await holder.query('commit')
    t.match(await creating, { status: 404, code: 'NOT_FOUND' })
  } finally {
    holder.release()
  }
  t.strictSame(await sql('select from events where owner_id = $1', [leaver.id]), [])
})

t.test('many who create events while they leave: nobody takes part without being a member', async (t) => {
  const leavers = await Promise.all(Array.from({ length: 8 }, () => aPerson(api)))
  for (const leaver of leavers) await joins(leaver)
  const answers = await Promise.all(
    leavers.flatMap((leaver) => [
      call(leaver, 'POST', EVENTS, { json: GIVEN }),
      call(leaver, 'POST', EVENTS, { json: GIVEN }),
      leaves(leaver).then(() => ({ status: 204 })),
    ]),
  )
  for (const { status } of answers) t.ok([201, 204, 404].includes(status), String(status))
  t.strictSame(await sql('select from event_participants where user_id = any($1)', [leavers.map(({ id }) => id)]), [])
})

t.test('everything at once, many times: each step happens once, and nothing changes after the archive', async (t) => {
  const id = await create()
  const activations = Array.from({ length: 10 }, () => () => activate(id))
  const archives = Array.from({ length: 10 }, () => () => archive(id))
  const changes = Array.from({ length: 10 }, (_, i) => () => change(id, { title: `Title ${i}` }))
  const inTurns = activations.flatMap((one, i) => [one, archives[i] ?? one, changes[i] ?? one])
  const answers = await Promise.all(inTurns.map((request) => request()))
  for (const { status, code } of answers) t.ok([200, 422].includes(status), `${status} ${code}`)
  await archive(id)
  const changed = answers.filter((answer, i) => i % 3 === 2 && answer.status === 200).length
  const [row] = await sql('select version, status from events where id = $1', [uuidOf('event', id)])
  t.strictSame(row, { version: 3 + changed, status: 'archived' })
  t.strictSame(await published(id), ['EventCreated', 'EventActivated', 'EventArchived'])
})
