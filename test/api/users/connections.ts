import fc from 'fast-check'
import t, { type Test } from 'tap'
import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { aPerson, type Person, startTestApi } from '../../support/api.ts'
import { aMember, anOrganization, join, type TestOrganization } from '../../support/organizations.ts'

const api = await startTestApi(t)
const { call, database } = api

const connections = (who: Person, of: string) => call(who, 'GET', `/api/users/${of}/connections`)
const connected = (who: Person, query: Record<string, string> = {}) =>
  call(who, 'GET', `/api/users/me/connected-members?${new URLSearchParams(query)}`)
const shown = ({ id, name }: TestOrganization) => ({ org_id: id, org_name: name })

t.test('shows the organizations that two users share, in the order in which the caller joined', async (t) => {
  const [choir, club, foreign] = [
    await anOrganization(api, 'Choir'),
    await anOrganization(api, 'Club'),
    await anOrganization(api, 'Secret society'),
  ]
  const ann = await aMember(api, club.id, { name: 'Ann', at: '2020-01-01T00:00:00Z' })
  const ben = await aMember(api, choir.id, { name: 'Ben', at: '2000-01-01T00:00:00Z' })
  await join(api, choir.id, ann.id, 'member', '2021-01-01T00:00:00Z')
  await join(api, club.id, ben.id)
  await join(api, foreign.id, ben.id)
  const expected = { user_id: ben.id, display_name: 'Ben', connected_via: [shown(club), shown(choir)] }
  for (const id of [ben.wireId, ben.id, ben.id.toUpperCase()]) {
    t.match(await connections(ann, id), { status: 200, data: expected })
  }
  t.strictSame((await connections(ann, ben.id)).data, expected, 'and nothing more')
  t.strictSame((await connected(ann)).data, { members: [expected], total_count: 1, next_cursor: null, has_more: false })

  await database.admin.query('delete from memberships where org_id = $1 and user_id = $2', [club.id, ann.id])
  t.strictSame((await connections(ann, ben.id)).data.connected_via, [shown(choir)], 'as of the next request')
  await database.admin.query('delete from memberships where user_id = $1', [ann.id])
  t.equal((await connections(ann, ben.id)).status, 404)
  t.equal((await connections(ben, ann.id)).status, 404)
  t.match((await connected(ann)).data, { members: [], total_count: 0 })
})

t.test('`me` is the caller, with all their organizations, even with none', async (t) => {
  const loner = await aPerson(api)
  t.match(await connections(loner, 'me'), {
    status: 200,
    data: { user_id: loner.id, display_name: null, connected_via: [] },
  })
  t.match((await connected(loner)).data, { members: [], total_count: 0, has_more: false })
  const org = await anOrganization(api, 'Only')
  await join(api, org.id, loner.id)
  for (const me of ['me', loner.id, loner.wireId]) {
    t.strictSame((await connections(loner, me)).data.connected_via, [shown(org)])
  }
  t.match((await connected(loner)).data, { members: [], total_count: 0 }, 'nobody is connected with themselves')
})

t.test('a user without a common organization is there no more than one that does not exist', async (t) => {
  const org = await anOrganization(api)
  const ann = await aMember(api, org.id)
  const stranger = await aMember(api, (await anOrganization(api)).id)
  const answers = await Promise.all(
    [stranger.id, stranger.wireId, newUuid(), 'ME', 'nonsense', formatId('organization', org.id)].map((id) =>
      connections(ann, id),
    ),
  )
  for (const { status, body } of answers) {
    t.equal(status, 404)
    t.strictSame({ ...body.error, request_id: '' }, { ...answers[0]?.body.error, request_id: '' })
  }
})

t.test('a cursor of one caller is none for another', async (t) => {
  const org = await anOrganization(api)
  const [ann, ben] = [await aMember(api, org.id), await aMember(api, org.id)]
  await aMember(api, org.id)
  const { next_cursor: cursor } = (await connected(ann, { limit: '1' })).data
  t.equal((await connected(ann, { cursor })).status, 200)
  t.equal((await connected(ben, { cursor })).code, 'INVALID_CURSOR')
})

interface Shape {
  users: number
  organizations: number
  /** Who is in which, by their numbers. */
  members: [user: number, organization: number][]
  limit: number
}
const shape: fc.Arbitrary<Shape> = fc
  .record({ users: fc.integer({ min: 1, max: 6 }), organizations: fc.integer({ min: 0, max: 4 }) })
  .chain(({ users, organizations }) =>
    fc.record({
      users: fc.constant(users),
      organizations: fc.constant(organizations),
      members:
        organizations === 0
          ? fc.constant([])
          : fc.uniqueArray(fc.tuple(fc.nat(users - 1), fc.nat(organizations - 1)), {
              maxLength: 14,
              selector: (pair) => pair.join(),
            }),
      limit: fc.integer({ min: 1, max: 3 }),
    }),
  )

const sorted = <T>(list: readonly T[], by: (item: T) => string) =>
  [...list].sort((a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0))

/** The users and organizations of a shape, and what each user should see of them according to the shape alone. */
async function populate({ users: many, organizations: some, members }: Shape) {
  const users: (Person & { name: string })[] = []
  for (let n = 0; n < many; n++) {
    const person = await aPerson(api)
    users.push({ ...person, name: `User ${person.id}` })
    await database.admin.query('update users set display_name = $2 where id = $1', [person.id, `User ${person.id}`])
  }
  const organizations: TestOrganization[] = []
  for (let n = 0; n < some; n++) organizations.push(await anOrganization(api, `Organization ${newUuid()}`))
  // All at one moment, so that the order of joining is the order of ids.
  const at = '2024-05-06T07:08:09Z'
  for (const [u, o] of members) await join(api, organizations[o]?.id as Uuid, users[u]?.id as Uuid, 'member', at)
  const isIn = (u: number, o: number) => members.some(([user, org]) => user === u && org === o)
  const membersOf = (o: number) => users.filter((_, u) => isIn(u, o))
  const via = (a: number, b: number) =>
    sorted(
      organizations.filter((_, o) => isIn(a, o) && isIn(b, o)),
      ({ id }) => id,
    ).map(shown)
  const view = (a: number, b: number) => {
    const { id = '', name = '' } = users[b] ?? {}
    return { user_id: id, display_name: name, connected_via: via(a, b) }
  }
  return { users, organizations, isIn, membersOf, view }
}

async function allConnected(who: Person, limit: number) {
  const seen: { user_id: string }[] = []
  const totals = new Set<number>()
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { data } = await connected(who, { limit: String(limit), ...(cursor && { cursor }) })
    seen.push(...data.members)
    totals.add(data.total_count)
    cursor = data.next_cursor
  }
  return { seen, totals: [...totals] }
}

type World = Awaited<ReturnType<typeof populate>>

async function seesConnections(t: Test, { users, view }: World, a: number, limit: number): Promise<void> {
  const caller = users[a] as Person
  const others = users.map((_, b) => view(a, b)).filter((_, b) => b !== a)
  const near = others.filter(({ connected_via: via }) => via.length > 0)
  const listed = await allConnected(caller, limit)
  t.strictSame(listed, { seen: sorted(near, (one) => one.user_id), totals: [near.length] })
  t.strictSame((await connections(caller, 'me')).data, view(a, a))
  for (const other of others) {
    const { status, data } = await connections(caller, other.user_id)
    t.strictSame([status, data], near.includes(other) ? [200, other] : [404, undefined])
  }
}

async function seesMembers(t: Test, { users, organizations, isIn, membersOf }: World, a: number): Promise<void> {
  for (const [o, org] of organizations.entries()) {
    const { status, data } = await call(users[a], 'GET', `/api/organizations/${org.id}/members`)
    if (!isIn(a, o)) {
      t.strictSame([status, data], [404, undefined])
      continue
    }
    const there = membersOf(o).map(({ id, name }) => `${id} ${name}`)
    const seen = data.members.map((m: { user_id: string; display_name: string }) => `${m.user_id} ${m.display_name}`)
    t.strictSame([status, seen.sort(), data.org_name, data.total_count], [200, there.sort(), org.name, there.length])
  }
}

t.test('of any users and organizations, each sees exactly what is shared with them', async (t) => {
  await fc.assert(
    fc.asyncProperty(shape, async (given) => {
      const world = await populate(given)
      for (const a of world.users.keys()) {
        await seesConnections(t, world, a, given.limit)
        await seesMembers(t, world, a)
      }
    }),
    { numRuns: 25 },
  )
})
