import t, { type Test } from 'tap'
import { runCommandLine } from '../../../../api/command-line.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { fakeMp4, formOf, type Person, startApiOn, startTestApi } from '../../../support/api.ts'
import {
  aMember,
  anOrganization,
  atOnce,
  join,
  rolesIn,
  type TestOrganization,
} from '../../../support/organizations.ts'

const api = await startTestApi(t)
const { call, people, database, identity } = api
const { admin } = database

const pathOf = (org: TestOrganization, who: Person | 'me') =>
  `/api/organizations/${org.wireId}/members/${who === 'me' ? who : who.wireId}`
const change = (as: Person, org: TestOrganization, who: Person | 'me', role: string) =>
  call(as, 'PATCH', pathOf(org, who), { json: { role } })
const remove = (as: Person, org: TestOrganization, who: Person | 'me') => call(as, 'DELETE', pathOf(org, who))

/** An organization with two owners, an administrator and two members. */
async function aClub() {
  const org = await anOrganization(api)
  const of = (role: string) => aMember(api, org.id, { role })
  const club = {
    org,
    owner: await of('owner'),
    second: await of('owner'),
    admin: await of('admin'),
    member: await of('member'),
    another: await of('member'),
  }
  return club
}
const auditOf = async (orgId: Uuid) =>
  (
    await admin.query(
      `select actor_id, action, resource_type, resource_id, details from audit_log
        where org_id = $1 and action <> 'ACCESS_DENIED' order by occurred_at, id`,
      [orgId],
    )
  ).rows

t.test('an administrator changes a role, which counts from the next request on and is audited once', async (t) => {
  const { org, admin: boss, member, another } = await aClub()
  t.equal((await change(member, org, another, 'admin')).status, 404)
  const { status, data } = await change(boss, org, member, 'admin')
  t.equal(status, 200)
  t.match(data, { user_id: member.id, display_name: null, joined_at: /^\d{4}-\d\d-\d\d$/, role: 'admin' })
  t.equal((await change(boss, org, member, 'admin')).status, 200, 'a repeat succeeds')
  t.equal((await change(member, org, another, 'admin')).status, 200)
  t.equal((await change(another, org, 'me', 'member')).status, 200, 'also one’s own')
  const entry = (actor: Person, of: Person, from: string, to: string) => ({
    actor_id: actor.id,
    action: 'ADMIN_ACTION',
    resource_type: 'user',
    resource_id: of.id,
    details: { operation: 'change role', from, to },
  })
  t.strictSame(await auditOf(org.id), [
    entry(boss, member, 'member', 'admin'),
    entry(member, another, 'member', 'admin'),
    entry(another, another, 'admin', 'member'),
  ])
})

t.test('an administrator neither touches an owner nor makes one, and the refusal is audited', async (t) => {
  const { org, owner, second, admin: boss, member } = await aClub()
  const before = await rolesIn(api, org.id)
  for (const role of ['owner', 'admin', 'member']) t.equal((await change(boss, org, owner, role)).status, 404, role)
  for (const who of [member, 'me'] as const) t.equal((await change(boss, org, who, 'owner')).status, 404)
  t.equal((await remove(boss, org, owner)).status, 404)
  t.strictSame(await rolesIn(api, org.id), before)
  const { rows } = await admin.query(
    `select details ->> 'permission' as permission, resource_type, resource_id from audit_log
      where action = 'ACCESS_DENIED' and org_id = $1 and actor_id = $2 order by occurred_at limit 1`,
    [org.id, boss.id],
  )
  t.match(rows, [{ permission: 'member.change_role', resource_type: 'membership', resource_id: owner.id }])
  t.equal((await change(owner, org, member, 'owner')).status, 200)
  t.equal((await change(member, org, second, 'member')).status, 200, 'owners do')
})

t.test('members change and remove nobody, and what is no role is refused', async (t) => {
  const { org, owner, member, another } = await aClub()
  t.equal((await change(member, org, 'me', 'admin')).status, 404)
  t.equal((await remove(member, org, another)).status, 404)
  t.equal((await remove(member, org, owner)).status, 404)
  for (const json of [{}, { role: null }, { role: 'king' }, { role: 'Owner' }, { role: ['admin'] }]) {
    t.equal((await call(owner, 'PATCH', pathOf(org, member), { json })).code, 'VALIDATION_ERROR')
  }
  const ghost = { ...people.member, wireId: formatId('user', newUuid()) }
  for (const who of [ghost, people.stranger]) {
    t.equal((await change(owner, org, who, 'admin')).status, 404)
    t.equal((await remove(owner, org, who)).status, 404)
  }
})

t.test('the last owner stays one', async (t) => {
  const { org, owner, second } = await aClub()
  t.equal((await remove(owner, org, second)).status, 204)
  for (const role of ['admin', 'member']) {
    const { status, code } = await change(owner, org, 'me', role)
    t.strictSame([status, code], [409, 'CONFLICT'])
  }
  t.strictSame((await remove(owner, org, 'me')).status, 409)
  t.strictSame((await remove(owner, org, owner)).status, 409)
  t.equal((await change(owner, org, 'me', 'owner')).status, 200)
  t.equal((await rolesIn(api, org.id))[owner.id], 'owner')
})

t.test('a member who leaves has no access on any replica from then on; their uploads stay', async (t) => {
  const replica = await startApiOn(t, { database, identity })
  const { org, owner, member, another } = await aClub()
  const elsewhere = (who: Person, path: string) =>
    fetch(`${replica.publicUrl}/v1${path}`, { headers: { authorization: `Bearer ${who.token}` } })
  const { data } = await call(member, 'POST', `/api/media/${org.wireId}/single`, { form: formOf(fakeMp4(100)) })
  const media = `/api/media/${org.wireId}/${data.media_id}`
  for (const who of [member, another]) t.equal((await elsewhere(who, media)).status, 200)

  t.equal((await remove(member, org, 'me')).status, 204)
  t.equal((await remove(owner, org, another)).status, 204)
  for (const who of [member, another]) {
    t.equal((await elsewhere(who, media)).status, 404)
    t.equal((await call(who, 'GET', media)).status, 404)
    t.equal((await remove(who, org, 'me')).status, 404, 'a repeat finds no organization')
    t.strictSame((await call(who, 'GET', '/api/users/me')).data.organizations, [])
  }
  t.equal((await elsewhere(owner, media)).status, 200)
  t.equal((await remove(owner, org, another)).status, 404)
  const ended = (actor: Person, of: Person, operation: string) => ({
    actor_id: actor.id,
    action: 'ADMIN_ACTION',
    resource_type: 'user',
    resource_id: of.id,
    details: { operation, role: 'member' },
  })
  t.strictSame((await auditOf(org.id)).slice(1), [
    ended(member, member, 'leave'),
    ended(owner, another, 'remove member'),
  ])
})

async function anEvent(orgId: Uuid, owner: Person): Promise<Uuid> {
  const id = newUuid()
  await admin.query(
    `insert into events (id, org_id, owner_id, title, start_at, status) values ($1, $2, $3, 'Reunion', now(), 'active')`,
    [id, orgId, owner.id],
  )
  return id
}
const takePart = (orgId: Uuid, eventId: Uuid, who: Person) =>
  admin.query(
    `insert into event_participants (event_id, user_id, org_id, status, joined_at) values ($1, $2, $3, 'accepted', now())`,
    [eventId, who.id, orgId],
  )
const participationsOf = async (who: Person) =>
  (await admin.query('select org_id from event_participants where user_id = $1', [who.id])).rows.map((r) => r.org_id)

t.test('participation ends with the membership, in this organization alone', async (t) => {
  const [here, there] = [await aClub(), await aClub()]
  const { member } = here
  await join(api, there.org.id, member.id)
  for (const { org, owner } of [here, there, here]) await takePart(org.id, await anEvent(org.id, owner), member)
  t.equal((await remove(member, here.org, 'me')).status, 204)
  t.strictSame(await participationsOf(member), [there.org.id])
})

/** Owners of an organization, whatever happened to them; every one of these races has to leave at least one. */
const ownersIn = async (org: TestOrganization) =>
  Object.entries(await rolesIn(api, org.id)).filter(([, role]) => role === 'owner').length
const lockOwners = (org: TestOrganization) => ({
  text: `select from memberships where org_id = $1 and role = 'owner' order by user_id limit 1 for update`,
  values: [org.id],
})

async function cli(...args: string[]): Promise<number> {
  const terminal = { out: () => {}, err: () => {} }
  return runCommandLine(args, terminal, { DATABASE_URL: database.url })
}
type Club = Awaited<ReturnType<typeof aClub>>
type Race = [name: string, left: (club: Club) => Promise<number>, right: (club: Club) => Promise<number>, Outcome[]]
type Outcome = [left: number, right: number]

const statusOf = async (answer: Promise<{ status: number }>) => (await answer).status
const demoteFirst = ({ org, owner }: Club) => cli('member', 'role', org.wireId, owner.wireId, 'member')
/** Each with all outcomes that are right, in either order. */
const RACES: Race[] = [
  [
    'the last two owners leave',
    ({ org, owner }) => statusOf(remove(owner, org, 'me')),
    ({ org, second }) => statusOf(remove(second, org, 'me')),
    [
      [204, 409],
      [409, 204],
    ],
  ],
  [
    'the last two owners demote each other: the second is no owner any more',
    ({ org, owner, second }) => statusOf(change(owner, org, second, 'member')),
    ({ org, owner, second }) => statusOf(change(second, org, owner, 'member')),
    [
      [200, 404],
      [404, 200],
    ],
  ],
  [
    'one of the last two owners leaves, the other steps down',
    ({ org, owner }) => statusOf(remove(owner, org, 'me')),
    ({ org, second }) => statusOf(change(second, org, 'me', 'admin')),
    [
      [204, 409],
      [409, 200],
    ],
  ],
  [
    'the last two owners remove each other',
    ({ org, owner, second }) => statusOf(remove(owner, org, second)),
    ({ org, owner, second }) => statusOf(remove(second, org, owner)),
    [
      [204, 404],
      [404, 204],
    ],
  ],
  [
    'the command line demotes one of the last two owners, the other leaves',
    demoteFirst,
    ({ org, second }) => statusOf(remove(second, org, 'me')),
    [
      [0, 409],
      [3, 204],
    ],
  ],
  [
    'the command line demotes an owner whom the other one demotes',
    demoteFirst,
    ({ org, owner, second }) => statusOf(change(second, org, owner, 'member')),
    [[0, 200]],
  ],
  [
    'the command line demotes an owner who makes another owner',
    demoteFirst,
    ({ org, owner, member }) => statusOf(change(owner, org, member, 'owner')),
    [
      [0, 200],
      [0, 404],
    ],
  ],
  [
    'an owner leaves while an owner demotes them',
    ({ org, owner }) => statusOf(remove(owner, org, 'me')),
    ({ org, owner, second }) => statusOf(change(second, org, owner, 'admin')),
    [
      [204, 200],
      [204, 404],
    ],
  ],
  [
    'an administrator is removed while they change a role',
    ({ org, owner, admin: boss }) => statusOf(remove(owner, org, boss)),
    ({ org, admin: boss, member }) => statusOf(change(boss, org, member, 'admin')),
    [
      [204, 200],
      [204, 404],
    ],
  ],
  [
    'a member leaves while an owner makes them an owner',
    ({ org, member }) => statusOf(remove(member, org, 'me')),
    ({ org, owner, member }) => statusOf(change(owner, org, member, 'owner')),
    [
      [204, 200],
      [204, 404],
    ],
  ],
  [
    'a member is removed twice',
    ({ org, owner, member }) => statusOf(remove(owner, org, member)),
    ({ org, second, member }) => statusOf(remove(second, org, member)),
    [
      [204, 404],
      [404, 204],
    ],
  ],
]

async function race(t: Test, [name, left, right, outcomes]: Race): Promise<void> {
  const club = await aClub()
  const run = [() => left(club), () => right(club)]
  const [a = 0, b = 0] = await atOnce(api, lockOwners(club.org), run)
  t.ok(
    outcomes.some(([x, y]) => x === a && y === b),
    `${name}: ${a} and ${b}`,
  )
  t.ok((await ownersIn(club.org)) >= 1)
  const audited = (await auditOf(club.org.id)).length
  const done = [a, b].filter((status) => [0, 200, 204].includes(status)).length
  // A change to the role that the user has by then is none.
  t.ok(audited === done || (name.includes('whom the other one demotes') && audited === 1), `${audited} entries`)
}
for (const one of RACES) {
  t.test(`at once: ${one[0]}`, async (t) => {
    await race(t, one)
    await race(t, [one[0], one[2], one[1], one[3].map(([a, b]): Outcome => [b, a])])
  })
}

t.test('a member who leaves while their invitation is accepted waits for it, and neither waits for ever', async (t) => {
  const { org, owner, member } = await aClub()
  const event = await anEvent(org.id, owner)
  await takePart(org.id, event, member)
  // The order of an accepted response: the membership first, then the participant.
  const [left] = await atOnce(
    api,
    { text: 'select from memberships where org_id = $1 and user_id = $2 for share', values: [org.id, member.id] },
    [() => remove(member, org, 'me')],
    {
      text: 'select from event_participants where event_id = $1 and user_id = $2 for update',
      values: [event, member.id],
    },
  )
  t.equal(left?.status, 204)
  t.strictSame(await participationsOf(member), [])
})

t.test('a dry run explains a decision on a member', async (t) => {
  const { org, owner, admin: boss, member } = await aClub()
  const explain = async (who: Person, action: string, of: Person) => {
    const json = { user_id: who.wireId, org_id: org.wireId, action, resource_id: of.wireId }
    return (await call(people.platformAdmin, 'POST', '/admin/permissions/explain', { json })).data
  }
  t.match(await explain(boss, 'member.remove', owner), {
    allowed: false,
    reason: 'rule_not_met',
    facts: { role: 'admin', oneself: false, organization_admin: true, role_not_above: false },
  })
  t.match(await explain(boss, 'member.change_role', member), { allowed: true })
  t.match(await explain(boss, 'member.remove', people.stranger), { reason: 'no_such_resource' })
})
