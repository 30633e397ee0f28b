import fc from 'fast-check'
import { newSlug } from '../../api/features/invitations/slug.ts'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { aPerson, type Person, type TestApi } from './api.ts'

/** Users, organizations, events and invitations at random, and what each user may see of them. Numbers are taken modulo. */
export interface Shape {
  users: number
  organizations: number
  members: { user: number; organization: number; role: Role; hasLeft: boolean }[]
  events: {
    organization: number
    owner: number
    status: 'draft' | 'active' | 'archived'
    participants: { user: number; status: Participation }[]
    invitations: { user: number; by: number; channel: Channel; status: Stored | 'expired' }[]
  }[]
}
type Role = 'owner' | 'admin' | 'member'
type Participation = 'invited' | 'accepted' | 'declined'
type Channel = 'email' | 'phone_number' | 'uuid'
type Stored = 'pending' | 'accepted' | 'declined' | 'revoked'

const number = fc.nat(11)
export const shape: fc.Arbitrary<Shape> = fc.record({
  users: fc.integer({ min: 2, max: 5 }),
  organizations: fc.integer({ min: 1, max: 3 }),
  members: fc.array(
    fc.record({
      user: number,
      organization: number,
      role: fc.constantFrom('owner', 'admin', 'member', 'member'),
      hasLeft: fc.oneof({ weight: 3, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
    }),
    { maxLength: 14, size: 'max' },
  ),
  events: fc.array(
    fc.record({
      organization: number,
      owner: number,
      status: fc.constantFrom('draft', 'active', 'archived'),
      participants: fc.array(fc.record({ user: number, status: fc.constantFrom('invited', 'accepted', 'declined') }), {
        maxLength: 4,
        size: 'max',
      }),
      invitations: fc.array(
        fc.record({
          user: number,
          by: number,
          channel: fc.constantFrom('email', 'phone_number', 'uuid'),
          status: fc.constantFrom('pending', 'accepted', 'declined', 'revoked', 'expired'),
        }),
        { maxLength: 3, size: 'max' },
      ),
    }),
    { maxLength: 5, size: 'max' },
  ),
})

interface User extends Person {
  name: string
  email: string
  phone: string
}
interface Organization {
  id: Uuid
  wireId: string
  name: string
}
interface Membership {
  user: User
  organization: Organization
  role: Role
  hasLeft: boolean
}
interface Event {
  id: Uuid
  wireId: string
  organization: Organization
  owner: User
  status: 'draft' | 'active' | 'archived'
  title: string
  description: string
  place: string
  participants: { user: User; status: Participation }[]
  invitations: Invitation[]
}
interface Invitation {
  id: Uuid
  wireId: string
  slug: string
  message: string
  to: User
  by: User
  channel: Channel
  status: Stored | 'expired'
}

const pick = <T>(list: readonly T[], n: number): T => list[n % list.length] as T
const unique = <T>(list: readonly T[], key: (one: T) => string): T[] => [
  ...new Map(list.toReversed().map((one) => [key(one), one])).values(),
]
const latestFirst = <T extends { id: Uuid }>(list: readonly T[]) => list.toSorted((a, b) => (a.id < b.id ? 1 : -1))
const digits = () => newUuid().replace(/\D/g, '').padEnd(10, '7').slice(-10)

async function build(api: TestApi, given: Shape) {
  const users = await Promise.all(
    Array.from({ length: given.users }, async (): Promise<User> => {
      const person = await aPerson(api)
      const word = newUuid()
      return { ...person, name: `Name ${word}`, email: `mail-${word}@example.org`, phone: `+49${digits()}` }
    }),
  )
  const organizations = Array.from({ length: given.organizations }, (): Organization => {
    const id = newUuid()
    return { id, wireId: formatId('organization', id), name: `Organization ${id}` }
  })
  const members = unique(
    given.members.map(({ user, organization, ...rest }): Membership => {
      return { ...rest, user: pick(users, user), organization: pick(organizations, organization) }
    }),
    ({ user, organization }) => `${user.id} ${organization.id}`,
  )
  const everIn = (organization: Organization) =>
    members.filter((one) => one.organization === organization).map(({ user }) => user)

  const events = given.events.flatMap(({ owner: n, participants, invitations, ...one }): Event[] => {
    const organization = pick(organizations, one.organization)
    const owners = everIn(organization)
    if (owners.length === 0) return []
    const [id, owner] = [newUuid(), pick(owners, n)]
    const others = participants.map(({ user, status }) => {
      const who = pick(users, user)
      // Nobody accepts without becoming a member.
      return { user: who, status: owners.includes(who) || status !== 'accepted' ? status : ('invited' as const) }
    })
    const made = invitations.map(({ user, by, channel, status }): Invitation => {
      const [id, to] = [newUuid(), pick(users, user)]
      const texts = { slug: newSlug(), message: `Message ${id}` }
      return { ...texts, id, wireId: formatId('invitation', id), to, by: pick(owners, by), channel, status }
    })
    const texts = { title: `Title ${id}`, description: `Description ${id}`, place: `Place ${id}` }
    return [
      {
        ...{ id, wireId: formatId('event', id), organization, owner, status: one.status, ...texts },
        participants: unique([{ user: owner, status: 'accepted' as const }, ...others], ({ user }) => user.id),
        invitations: unique(made, ({ to, channel }) => `${channel} ${to.id}`),
      },
    ]
  })
  return { users, organizations, members, events }
}
type Built = Awaited<ReturnType<typeof build>>

/** All rows at one moment, so that lists are in the order of ids. */
const AT = '2024-05-06T07:08:09Z'

async function store({ database: { admin } }: TestApi, { users, organizations, members, events }: Built) {
  const insert = (table: string, columns: string, rows: object[]) =>
    admin.query(
      `insert into ${table} (${columns}) select ${columns} from jsonb_populate_recordset(null::${table}, $1::jsonb)`,
      [JSON.stringify(rows)],
    )
  await admin.query(
    `update users set display_name = given.display_name, email = given.email
       from jsonb_populate_recordset(null::users, $1::jsonb) given where given.id = users.id`,
    [JSON.stringify(users.map(({ id, name, email }) => ({ id, display_name: name, email })))],
  )
  await insert('organizations', 'id, name', organizations)
  const rowOf = ({ user, organization, role }: Membership) => ({ org_id: organization.id, user_id: user.id, role })
  await insert(
    'memberships',
    'org_id, user_id, role, joined_at',
    members.map((one) => ({ ...rowOf(one), joined_at: AT })),
  )
  await insert(
    'events',
    'id, org_id, owner_id, title, description, location_name, status, start_at, created_at, version, updated_at',
    events.map(({ id, organization, owner, title, description, place, status }) => ({
      ...{ id, org_id: organization.id, owner_id: owner.id, title, description, location_name: place, status },
      ...{ start_at: AT, created_at: AT, updated_at: AT, version: 1 },
    })),
  )
  await insert(
    'event_participants',
    'event_id, org_id, user_id, status, joined_at, created_at',
    events.flatMap(({ id, organization, participants }) =>
      participants.map(({ user, status }) => ({
        ...{ event_id: id, org_id: organization.id, user_id: user.id, status, created_at: AT },
        joined_at: status === 'accepted' ? AT : null,
      })),
    ),
  )
  await insert(
    'invitations',
    `id, org_id, event_id, slug, email, phone_number, user_id, message, status, token_expires_at, invited_by, responded_by,
      responded_at, generation, version, created_at, updated_at`,
    events.flatMap((event) => event.invitations.map((one) => invitationRow(event, one))),
  )
  for (const { user, organization } of members.filter(({ hasLeft }) => hasLeft)) {
    await admin.query('delete from memberships where org_id = $1 and user_id = $2', [organization.id, user.id])
  }
}

const isAnswered = (status: string) => status === 'accepted' || status === 'declined'

function invitationRow(event: Event, { id, slug, message, to, by, channel, status }: Invitation) {
  return {
    ...{ id, slug, message, org_id: event.organization.id, event_id: event.id, invited_by: by.id },
    email: channel === 'email' ? to.email : null,
    phone_number: channel === 'phone_number' ? to.phone : null,
    user_id: channel === 'uuid' ? to.id : null,
    status: status === 'expired' ? 'pending' : status,
    token_expires_at: status === 'expired' ? AT : '2999-01-01T00:00:00Z',
    responded_by: isAnswered(status) ? to.id : null,
    responded_at: isAnswered(status) ? AT : null,
    ...{ generation: 1, version: 1, created_at: AT, updated_at: AT },
  }
}

export type Society = ReturnType<typeof modelOf>

/** What each user may see, by the rules of the specification alone. Undefined is what does not exist for them. */
function modelOf({ users, organizations, members, events }: Built) {
  const present = members.filter(({ hasLeft }) => !hasLeft)
  const membership = (user: User, organization: Organization) =>
    present.find((one) => one.user === user && one.organization === organization)
  const nameIn = (organization: Organization, user: User) => (membership(user, organization) ? user.name : null)
  const manages = (user: User, { organization, owner }: Event) => {
    const role = membership(user, organization)?.role
    return role !== undefined && (role !== 'member' || user === owner)
  }
  const sees = (user: User, event: Event) =>
    membership(user, event.organization) !== undefined && (event.status !== 'draft' || manages(user, event))
  const hasLeft = (user: User, organization: Organization) =>
    members.some((one) => one.hasLeft && one.user === user && one.organization === organization)
  const participantsOf = ({ organization, participants }: Event) =>
    latestFirst(
      participants
        .filter(({ user }) => !hasLeft(user, organization))
        .map(({ user, status }) => ({ id: user.id, user, status })),
    )
  const invitationOf = (user: User, { status: state, invitations }: Event) =>
    invitations.find(
      ({ channel, to, status }) => state === 'active' && channel === 'uuid' && to === user && status === 'pending',
    )
  const shownTo = (user: User, event: Event) => {
    const participants = participantsOf(event)
    return {
      ...{ event_id: event.wireId, org_id: event.organization.wireId, status: event.status },
      ...{ title: event.title, description: event.description, location_name: event.place },
      owner_id: event.owner.wireId,
      host_name: nameIn(event.organization, event.owner),
      participant_count: participants.filter(({ status }) => status === 'accepted').length,
      my_participation: participants.find((one) => one.user === user)?.status ?? null,
      my_invitation_id: invitationOf(user, event)?.wireId ?? null,
    }
  }
  const via = (user: User, other: User) =>
    organizations
      .filter((organization) => membership(user, organization) && membership(other, organization))
      .toSorted((a, b) => (a.id < b.id ? -1 : 1))

  function connection(user: User, other: User) {
    const shared = via(user, other).map(({ id, name }) => ({ org_id: id, org_name: name }))
    if (shared.length === 0 && user !== other) return undefined
    return { user_id: other.id, display_name: other.name, connected_via: shared }
  }

  return {
    users,
    organizations,
    events,
    /** Everything by which somebody or something could be recognised. */
    marks: [
      ...users.flatMap(({ id, wireId, name, email, phone }) => [id, wireId, name, email, phone]),
      ...organizations.flatMap(({ id, wireId, name }) => [id, wireId, name]),
      ...events.flatMap(({ id, wireId, title, description, place, invitations }) => [
        ...[id, wireId, title, description, place],
        ...invitations.flatMap((one) => [one.id, one.wireId, one.slug, one.message]),
      ]),
    ],
    me: (user: User) => ({
      ...{ user_id: user.wireId, display_name: user.name, email: user.email },
      organizations: via(user, user).map(({ wireId, name, ...organization }) => {
        const role = present.find((one) => one.user === user && one.organization.id === organization.id)?.role
        return { org_id: wireId, name, role }
      }),
    }),
    membersOf(user: User, organization: Organization, isWanted: (other: User) => boolean = () => true) {
      if (!membership(user, organization)) return undefined
      const listed = latestFirst(
        present
          .filter((one) => one.organization === organization && isWanted(one.user))
          .map((one) => ({ id: one.user.id, user_id: one.user.id, display_name: one.user.name, role: one.role })),
      ).map(({ id: _, ...one }) => one)
      return { org_id: organization.id, org_name: organization.name, members: listed, total_count: listed.length }
    },
    connection,
    connected(user: User) {
      const others = users.filter((other) => other !== user).toSorted((a, b) => (a.id < b.id ? -1 : 1))
      const connected = others.flatMap((other) => connection(user, other) ?? [])
      return { members: connected, total_count: connected.length }
    },
    eventsIn(user: User, organization: Organization, status?: string) {
      if (!membership(user, organization)) return undefined
      const here = events.filter((event) => event.organization === organization && sees(user, event))
      const wanted = latestFirst(here).filter((event) => status === undefined || event.status === status)
      return { events: wanted.map((event) => shownTo(user, event)) }
    },
    event: (user: User, event: Event) => (sees(user, event) ? shownTo(user, event) : undefined),
    participants(user: User, event: Event) {
      if (!sees(user, event)) return undefined
      const listed = participantsOf(event).map((one) => ({
        ...{ user_id: one.user.wireId, status: one.status },
        display_name: nameIn(event.organization, one.user),
      }))
      return { participants: listed, total: listed.length }
    },
    invitations(user: User, event: Event) {
      if (!manages(user, event)) return undefined
      const listed = latestFirst(event.invitations).map(({ wireId, slug, channel, status, message, to, by }) => ({
        ...{ invitation_id: wireId, slug, channel, status, message, invited_by: by.wireId },
        responded_by: isAnswered(status) ? to.wireId : null,
        invitee: {
          email: channel === 'email' ? 'm***@example.org' : null,
          phone_number: channel === 'phone_number' ? `${to.phone.slice(0, 3)}********${to.phone.slice(-2)}` : null,
          user_id: channel === 'uuid' ? to.wireId : null,
          display_name: channel === 'uuid' ? nameIn(event.organization, to) : null,
        },
      }))
      return { invitations: listed }
    },
    bySlug: (event: Event, { wireId, status }: Invitation) =>
      event.status === 'draft' || status === 'revoked'
        ? undefined
        : {
            invitation_id: wireId,
            title: event.title,
            host_name: nameIn(event.organization, event.owner),
            message: null,
          },
  }
}

export async function aSociety(api: TestApi, given: Shape): Promise<Society> {
  const built = await build(api, given)
  await store(api, built)
  return modelOf(built)
}
