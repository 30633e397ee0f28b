import t from 'tap'
import { insertNew } from '../../../../api/features/invitations/commands.ts'
import { tellInvitees } from '../../../../api/features/invitations/notify.ts'
import { changesOf } from '../../../../api/requests/change.ts'
import { type Answer, aPerson, type Person, startTestApi } from '../../../support/api.ts'
import type { MadeEvent } from '../../../support/events.ts'
import { eventually } from '../../../support/eventually.ts'
import { waitingIn } from '../../../support/in-turn.ts'
import { invitationWorld, type MadeInvitation } from '../../../support/invitations.ts'

/** Who is told of an invitation, and how often. */
const api = await startTestApi(t)
const { db, admin } = api.database
const world = invitationWorld(api)
const { member, another } = api.people

const activate = async (at: MadeEvent, times = 1) => {
  await world.setStatus(at, 'active')
  for (let n = 0; n < times; n++) {
    await db.inTransaction({ org: world.orgId }, (tx) =>
      tellInvitees(changesOf(tx, { orgId: world.orgId, actorId: member.id, context: null }), {
        id: at.id,
        orgId: world.orgId,
      }),
    )
  }
}
const toldOf = async (at: MadeEvent) =>
  (await world.announced('InvitationDue', at)).map(({ invitation_id, generation }) => [invitation_id, generation])
const due = (one: MadeInvitation, generation = 1) => [one.wireId, generation]
const sorted = (list: unknown[][]) => [...list].sort()

t.test('at activation everyone is told once, however often it is repeated', async (t) => {
  const at = await world.event('draft')
  const made = [
    await world.invite(at),
    await world.invite(at, { phone_number: '+491701234567' }),
    await world.invite(at, { uuid: another.wireId }),
  ]
  t.strictSame(await toldOf(at), [], 'no one is told of a draft')
  await activate(at, 3)
  t.strictSame(sorted(await toldOf(at)), sorted(made.map((one) => due(one))))
  const [told] = await world.announced('InvitationDue', at)
  t.match(told, { event_id: at.wireId, org_id: api.org })
  t.strictSame(Object.keys(told).sort(), ['event_id', 'generation', 'invitation_id', 'org_id'])
  for (const one of made) t.match(await world.row(one), { told_generation: 1, generation: 1, version: 2 })
})

t.test('many activations at once tell everyone once', async (t) => {
  const at = await world.event('draft')
  const made = [await world.invite(at), await world.invite(at)]
  await Promise.all(Array.from({ length: 10 }, () => activate(at)))
  t.strictSame(sorted(await toldOf(at)), sorted(made.map((one) => due(one))))
})

t.test('an invitation whose token has expired is told with another one', async (t) => {
  const at = await world.event('draft')
  const [old, fresh] = [await world.invite(at), await world.invite(at)]
  await world.expire(old)
  await activate(at)
  t.strictSame(sorted(await toldOf(at)), sorted([due(old, 2), due(fresh)]))
  const { rows } = await admin.query(
    `select token_expires_at > now() + interval '59 minutes' as lives, generation, told_generation from invitations where id = $1`,
    [old.id],
  )
  t.strictSame(rows, [{ lives: true, generation: 2, told_generation: 2 }])
  await world.expire(old)
  await activate(at)
  t.equal((await toldOf(at)).length, 2, 'who was told is not told again')
})

t.test('an invitation to an active event is told at once, and nothing else with it', async (t) => {
  const at = await world.event('active')
  const made = await world.invite(at)
  t.strictSame(await toldOf(at), [due(made)])
  const second = await world.invite(at)
  t.strictSame(sorted(await toldOf(at)), sorted([due(made), due(second)]))
  await activate(at)
  t.equal((await toldOf(at)).length, 2)
})

t.test('a reissue is told while the event is active', async (t) => {
  const at = await world.event('draft')
  const made = await world.invite(at)
  await world.reissue(member, made)
  t.strictSame(await toldOf(at), [])
  await activate(at)
  t.strictSame(await toldOf(at), [due(made, 2)])
  await world.reissue(member, made)
  t.strictSame(await toldOf(at), [due(made, 2), due(made, 3)])
  await activate(at)
  t.equal((await toldOf(at)).length, 2)
})

t.test('a person who is invited as a user and by address is told once', async (t) => {
  const email = world.newEmail()
  const person = await aPerson(api)
  await admin.query('update users set email = $2 where id = $1', [person.id, email.toUpperCase()])
  const both = async (at: MadeEvent) => [
    await world.invite(at, { email }),
    await world.invite(at, { uuid: person.wireId }),
  ]
  const later = await world.event('draft')
  const [, asUser] = await both(later)
  await activate(later, 2)
  t.strictSame(await toldOf(later), asUser && [due(asUser)])
  const now = await world.event('active')
  const [byEmail] = await both(now)
  t.strictSame(await toldOf(now), byEmail && [due(byEmail)])
})

t.test('a person whom two hosts invite at once, as a user and by address, is told once', async (t) => {
  const at = await world.event('active')
  const [person, email] = [await aPerson(api), world.newEmail()]
  await admin.query('update users set email = $2 where id = $1', [person.id, email])
  const none = { email: null, phoneNumber: null, userId: null }
  const inviteAs = (target: Partial<Record<keyof typeof none, string>>, then: () => unknown) =>
    db.inTransaction({ org: world.orgId }, async (tx) => {
      const { orgId } = world
      await insertNew({ tx }, { orgId, eventId: at.id, ...none, ...target, message: null, invitedBy: member.id })
      await tellInvitees(changesOf(tx, { orgId, actorId: member.id, context: null }), { id: at.id, orgId })
      await then()
    })
  const [hasTold, mayEnd] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const first = inviteAs({ userId: person.id }, () => {
    hasTold.resolve()
    return mayEnd.promise
  })
  await hasTold.promise
  let isOver = false
  const second = inviteAs({ email }, () => {
    isOver = true
  })
  await eventually('the other one to wait', async () => isOver || (await waitingIn(api.database)) > 0)
  mayEnd.resolve()
  await Promise.all([first, second])
  t.equal((await toldOf(at)).length, 1)
})

t.test('an invitation that was answered is not told', async (t) => {
  const at = await world.event('active')
  const made = await world.invite(at)
  await world.respond(another, made, { token: made.token })
  await admin.query('update invitations set told_generation = null where id = $1', [made.id])
  await admin.query('delete from outbox')
  await activate(at)
  t.strictSame(await toldOf(at), [])
})

t.test('a person who has declined, or whose link has expired, is told of another invitation', async (t) => {
  const email = world.newEmail()
  const person = await aPerson(api)
  await admin.query('update users set email = $2 where id = $1', [person.id, email])
  const at = await world.event('active')
  const first = await world.invite(at, { uuid: person.wireId })
  await world.respond(person, first, { response: 'decline' })
  const second = await world.invite(at, { uuid: person.wireId })
  t.strictSame(sorted(await toldOf(at)), sorted([due(first), due(second)]))
  await world.expire(second)
  const third = await world.invite(at, { email })
  t.strictSame(sorted(await toldOf(at)), sorted([due(first), due(second), due(third)]))
  await world.respond(person, third, {})
  await world.invite(at, { email })
  t.equal((await toldOf(at)).length, 3, 'who takes part is not told again')
})

t.test('who takes part no more is told of another invitation', async (t) => {
  const participants = (at: MadeEvent, who: string) => `/api/orgs/${at.org}/events/${at.wireId}/participants/${who}`
  const ends: Record<string, (person: Person, at: MadeEvent) => Promise<Answer>> = {
    'left the event': (person, at) => api.call(person, 'DELETE', participants(at, 'me')),
    'was removed from the event': (person, at) => api.call(member, 'DELETE', participants(at, person.wireId)),
    'left the organization': (person) => api.call(person, 'DELETE', `/api/organizations/${api.org}/members/me`),
    'was removed from the organization': (person) =>
      api.call(api.people.owner, 'DELETE', `/api/organizations/${api.org}/members/${person.wireId}`),
  }
  for (const [what, end] of Object.entries(ends)) {
    const person = await aPerson(api)
    const at = await world.event('active')
    const first = await world.invite(at, { uuid: person.wireId })
    t.equal((await world.respond(person, first, {})).status, 200, what)
    t.equal((await end(person, at)).status, 204, what)
    const second = await world.invite(at, { uuid: person.wireId })
    t.strictSame(sorted(await toldOf(at)), sorted([due(first), due(second)]), what)
    t.equal((await world.respond(person, second, {})).status, 200, what)
    const email = world.newEmail()
    await admin.query('update users set email = $2 where id = $1', [person.id, email])
    await world.invite(at, { email })
    t.equal((await toldOf(at)).length, 2, `${what}, and takes part again`)
  }
})

t.test('a link that someone else has used tells that person, and not the invitee', async (t) => {
  const [mums, dads] = [world.newEmail(), world.newEmail()]
  const [mum, dad] = [await aPerson(api), await aPerson(api)]
  for (const [person, email] of [
    [mum, mums],
    [dad, dads],
  ] as const)
    await admin.query('update users set email = $2 where id = $1', [person.id, email])
  const at = await world.event('active')
  const first = await world.invite(at, { email: mums })
  t.equal((await world.respond(dad, first, { token: first.token })).status, 200)
  const second = await world.invite(at, { email: mums })
  t.strictSame(sorted(await toldOf(at)), sorted([due(first), due(second)]))
  await world.invite(at, { email: dads })
  t.equal((await toldOf(at)).length, 2, 'who used it takes part')
  await world.invite(at, { uuid: mum.wireId })
  t.equal((await toldOf(at)).length, 2, 'the invitee can still respond to the second')
})

t.test('an invitation that was left to another one does not count as told', async (t) => {
  const email = world.newEmail()
  const person = await aPerson(api)
  await admin.query('update users set email = $2 where id = $1', [person.id, email])
  const at = await world.event('draft')
  const [first, left] = [await world.invite(at, { uuid: person.wireId }), await world.invite(at, { email })]
  await activate(at, 2)
  t.strictSame(await toldOf(at), [due(first)])
  t.equal((await world.respond(person, first, { response: 'decline' })).status, 200)
  await activate(at)
  t.strictSame(await toldOf(at), [due(first)], 'nor is it told because the other one was declined')
  const second = await world.invite(at, { uuid: person.wireId })
  t.strictSame(sorted(await toldOf(at)), sorted([due(first), due(second)]))
  t.equal((await world.respond(person, second, { response: 'decline' })).status, 200)
  t.equal((await world.reissue(member, left)).status, 200)
  t.equal((await toldOf(at)).length, 3)
  await world.invite(at, { uuid: person.wireId })
  t.equal((await toldOf(at)).length, 3, 'a reissue tells of it: from then on it counts')

  const now = await world.event('active')
  await world.invite(now, { uuid: person.wireId })
  t.equal((await world.respond(person, await world.invite(now, { email }), {})).status, 200)
  await world.invite(now, { email })
  t.equal((await toldOf(now)).length, 1, 'who has accepted it takes part')
})
