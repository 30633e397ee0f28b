import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { insertNew } from '../../../../api/features/invitations/commands.ts'
import { newSlug } from '../../../../api/features/invitations/slug.ts'
import { type Answer, aPerson, type Person, startApiOn, startTestApi } from '../../../support/api.ts'
import { ask } from '../../../support/ask.ts'
import { eventually } from '../../../support/eventually.ts'
import { inTurn } from '../../../support/in-turn.ts'
import { asInvitation, invitationWorld, type MadeInvitation } from '../../../support/invitations.ts'

/** What several do at once with one invitation, on two replicas. */
const api = await startTestApi(t)
const { database, identity } = api
const settings = { LINK_KEYS: JSON.stringify(api.config.LINK_KEYS) }
const replica = await startApiOn(t, { database, identity, settings })
const world = invitationWorld(api)
const { member, another } = api.people

const respondAt = async (port: number, who: Person, made: MadeInvitation, response: string) => {
  const path = `/v1/api/invitations/${made.wireId}/respond`
  const headers = { authorization: `Bearer ${who.token}` }
  return ask(port, { method: 'POST', path, headers, body: { response, token: made.token } })
}

/** As clients do that are told that the server is busy, which changes nothing: on a slow machine some wait for too long. */
async function respondUntilAnswered(...given: Parameters<typeof respondAt>) {
  for (;;) {
    const answer = await respondAt(...given)
    if (answer.status !== 503) return answer
    await sleep(200)
  }
}

/** Resolves when so many transactions wait for a lock. */
const untilWaiting = (count: number) =>
  eventually(`${count} wait for a lock`, async () => {
    const { rowCount } = await database.admin.query(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return rowCount === count
  })

/** Runs `work` while another transaction holds what `hold` locks, until so many wait. */
async function whileHeld<T>(hold: string, values: unknown[], work: () => Promise<T>, waiting = 1): Promise<T> {
  const client = await database.admin.connect()
  try {
    await client.query('begin')
    await client.query(hold, values)
    const done = work()
    await untilWaiting(waiting)
    await client.query('commit')
    return await done
  } finally {
    client.release()
  }
}

t.test('of 200 responses at once exactly one counts', async (t) => {
  const at = await world.event()
  const made = await world.invite(at)
  const guests = await Promise.all(Array.from({ length: 20 }, () => aPerson(api)))
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, n) =>
      respondUntilAnswered(
        n % 2 ? api.port : replica.port,
        guests[n % guests.length] ?? member,
        made,
        n % 3 ? 'accept' : 'decline',
      ),
    ),
  )
  const counted = answers.filter(({ status }) => status === 200)
  t.equal(counted.length, 1)
  for (const { status, json } of answers.filter((one) => one.status !== 200)) {
    t.strictSame([status, json.error.code], [409, 'INVITATION_ALREADY_USED'])
  }
  const { status, responded_by } = await world.row(made)
  t.equal(counted[0]?.json.data.status, status)
  const joined = (await Promise.all(guests.map(async (one) => ((await world.isMember(one)) ? one.id : [])))).flat()
  t.strictSame(joined, status === 'accepted' ? [responded_by] : [])
})

t.test('who is removed while they accept does not take part', async (t) => {
  const at = await world.event()
  const headers = { authorization: `Bearer ${member.token}` }
  for (const isAcceptedFirst of [true, false]) {
    const invitee = await aPerson(api)
    const made = await world.invite(at, { uuid: invitee.wireId })
    const path = `/v1/api/orgs/${api.org}/events/${at.wireId}/participants/${invitee.wireId}`
    const accept = () => respondAt(api.port, invitee, made, 'accept')
    const remove = () => ask(replica.port, { method: 'DELETE', path, headers })
    // Both have read by then that the invitation is open.
    const invitation = { text: 'select from invitations where id = $1 for update', values: [made.id] }
    const answers = await inTurn<{ status: number }>(
      database,
      invitation,
      ...(isAcceptedFirst ? [accept, remove] : [remove, accept]),
    )
    const statuses = answers.map(({ status }) => status)
    t.strictSame(statuses, isAcceptedFirst ? [200, 204] : [204, 404])
    t.equal(await world.participation(at, invitee), undefined)
  }
})

t.test('of many invitations of one invitee at once exactly one is made', async (t) => {
  const at = await world.event()
  for (const json of [{ email: world.newEmail() }, { phone_number: '+491701234567' }, { uuid: another.wireId }]) {
    const answers = await Promise.all(Array.from({ length: 20 }, () => world.tryInvite(at, json)))
    const codes = answers.map(({ status, code }) => code ?? status).sort()
    t.strictSame(codes, [201, ...Array(19).fill('ALREADY_INVITED')])
  }
})

t.test('a reissue and a response at once: the one that is later finds what the other did', async (t) => {
  const at = await world.event()
  for (let round = 0; round < 15; round++) {
    const made = await world.invite(at)
    const guest = await aPerson(api)
    const [reissued, answered] = await Promise.all([
      world.reissue(member, made),
      world.respond(guest, made, { token: made.token }),
    ])
    const outcome = `${reissued.code ?? reissued.status} ${answered.code ?? answered.status}`
    t.ok(['200 NOT_FOUND', 'INVALID_STATE_TRANSITION 200'].includes(outcome), outcome)
    const { status, generation } = await world.row(made)
    t.strictSame([status, generation], answered.status === 200 ? ['accepted', 1] : ['pending', 2])
    if (reissued.status !== 200) continue
    const { token } = asInvitation(reissued.data)
    t.equal((await respondAt(replica.port, guest, made, 'accept')).status, 404, 'the old token is dead everywhere')
    t.equal((await respondAt(replica.port, guest, { ...made, token }, 'accept')).status, 200)
  }
})

t.test('an archive in progress is waited for, and then nothing changes', async (t) => {
  const archive = `update events set status = 'archived' where id = $1`
  const attempts: ((made: MadeInvitation) => Promise<Answer>)[] = [
    (made) => world.respond(another, made, { token: made.token }),
    (made) => world.reissue(member, made),
  ]
  for (const attempt of attempts) {
    const at = await world.event()
    const made = await world.invite(at)
    const { status, code } = await whileHeld(archive, [at.id], () => attempt(made))
    t.strictSame([status, code], [422, 'EVENT_ARCHIVED'])
    t.match(await world.row(made), { status: 'pending', generation: 1 })
  }
  const at = await world.event()
  t.equal((await whileHeld(archive, [at.id], () => world.tryInvite(at))).code, 'EVENT_ARCHIVED')
})

t.test('a response in progress is waited for by the archive', async (t) => {
  const at = await world.event()
  const made = await world.invite(at)
  const hold = 'select from invitations where id = $1 for update'
  let archived: Promise<unknown> = Promise.resolve()
  const work = async () => {
    const answering = world.respond(another, made, { token: made.token })
    await untilWaiting(1)
    archived = world.setStatus(at, 'archived')
    return answering
  }
  const answer = await whileHeld(hold, [made.id], work, 2)
  await archived
  t.strictSame([answer.status, await world.participation(at, another)], [200, 'accepted'])
})

t.test('someone who leaves and accepts at once is a member with a participation, or neither', async (t) => {
  const leave = (who: Person) =>
    database.admin.query('delete from memberships where org_id = $1 and user_id = $2', [world.orgId, who.id])
  for (let round = 0; round < 15; round++) {
    const at = await world.event()
    const guest = await aPerson(api)
    await database.admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [
      world.orgId,
      guest.id,
    ])
    const made = await world.invite(at, round % 2 ? { uuid: guest.wireId } : undefined)
    const [answer] = await Promise.all([world.respond(guest, made, { token: made.token }), leave(guest)])
    t.equal(answer.status, 200)
    t.equal(await world.participation(at, guest), (await world.isMember(guest)) ? 'accepted' : undefined)
  }
})

t.test('a leave in progress is waited for, and the acceptance joins anew', async (t) => {
  const at = await world.event()
  const guest = await aPerson(api)
  await database.admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'admin')`, [
    world.orgId,
    guest.id,
  ])
  const made = await world.invite(at, { uuid: guest.wireId })
  const leave = 'delete from memberships where org_id = $1 and user_id = $2'
  const answer = await whileHeld(leave, [world.orgId, guest.id], () => world.respond(guest, made, {}))
  t.equal(answer.status, 200)
  const { rows } = await database.admin.query('select role from memberships where user_id = $1', [guest.id])
  t.strictSame([rows, await world.participation(at, guest)], [[{ role: 'member' }], 'accepted'])
})

t.test('someone who accepts two invitations at once joins once', async (t) => {
  const at = await world.event()
  const guest = await aPerson(api)
  const made = await Promise.all([world.invite(at), world.invite(at), world.invite(at, { uuid: guest.wireId })])
  const answers = await Promise.all(made.map((one) => world.respond(guest, one, { token: one.token })))
  for (const { status } of answers) t.equal(status, 200)
  const { rows } = await database.admin.query(
    `select (select count(*)::int from outbox where type = 'MemberJoined' and aggregate_id = $1::uuid) as told,
      (select count(*)::int from audit_log where action = 'MEMBER_INVITE' and resource_id = $1::uuid::text) as audited`,
    [guest.id],
  )
  t.strictSame([rows, await world.participation(at, guest)], [[{ told: 1, audited: 1 }], 'accepted'])
})

t.test('a slug that is taken is drawn again', async (t) => {
  const at = await world.event()
  const taken = (await world.invite(at)).slug
  const free = newSlug()
  const insert = (slugs: string[]) =>
    database.db.inTransaction({ org: world.orgId }, (tx) =>
      insertNew(
        { tx },
        {
          orgId: world.orgId,
          eventId: at.id,
          email: world.newEmail(),
          phoneNumber: null,
          userId: null,
          message: null,
          invitedBy: member.id,
        },
        () => slugs.shift() ?? taken,
      ),
    )
  t.equal((await insert([taken, taken, free])).slug, free)
  await t.rejects(insert([]), /no slug/)
})

t.test('an archive that waits gets its turn before those who respond after it', async (t) => {
  const at = await world.event()
  const made = await world.invite(at)
  const guest = await aPerson(api)
  // Others may share this lock: a response that did not queue would be answered while the archive waits.
  const shared = { text: 'select from events where id = $1 for share', values: [at.id] }
  const path = `/api/orgs/${api.org}/events/${at.wireId}/archive`
  const [archived, responded] = await inTurn<{ status: number }>(
    database,
    shared,
    () => api.call(member, 'POST', path),
    () => respondAt(api.port, guest, made, 'accept'),
  )
  t.strictSame([archived?.status, responded?.status], [200, 422])
})
