import fc, { type GeneratorValue } from 'fast-check'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { aPerson, type Person, type TestApi } from './api.ts'

/**
 * A society at random: users, organizations and members. Features add what is theirs (`society.ts` in their folder of
 * test/api/features), and say what each user may see of it, by the rules of the specification and in their own words.
 */
export interface Society {
  api: TestApi
  draw: Draw
  users: User[]
  organizations: Organization[]
  members: Membership[]
  /** Texts without an id in them by which something could be recognized. */
  marks: string[]
  /** Adds rows, before anyone does anything. A table gets all its rows at once, in the order of the first of each. */
  insert(table: string, ...rows: object[]): void
  /** What people then do by the API. */
  act(step: () => Promise<void>): void
  /** What becomes of it afterwards. A step changes the model and the rows. */
  change(step: () => Promise<void>): void
}

export interface User extends Person {
  name: string
  email: string
  phone: string
}
export interface Organization {
  id: Uuid
  wireId: string
  name: string
}
interface Membership {
  user: User
  organization: Organization
  role: 'owner' | 'admin' | 'member'
  hasLeft: boolean
}

/** One request that reads. */
export interface Question {
  /** Its operationId. */
  route: string
  params?: Record<string, string>
  query?: Record<string, string>
  /** What the answer has to say, as far as the model knows it; undefined where there is nothing for the caller. */
  want: object | undefined
  /** What a file may say besides, whose whole text the model does not know. */
  says?: (string | null)[]
  /** The field of a list, which is then asked for page by page. */
  list?: string
}

/** What the `society.ts` of a feature exports as `part`. */
export interface Part {
  /** Makes its share of a society. */
  of?(society: Society): unknown
  /** Every operation of the feature that reads, asked by one user about everything there is. */
  ask?(society: Society, who: User): Question[]
  /** Those that need no token. */
  askAsNobody?(society: Society): Question[]
  /** Those of a platform administrator, who is a member of nothing. */
  askAsAdministrator?(society: Society): Question[]
}

/** Makes the share of a feature when it is first wanted, and so after what it is made of. */
export function madeOnce<T>(make: (society: Society) => T): (society: Society) => T {
  const known = new WeakMap<Society, { made: T }>()
  return (society) => {
    const { made } = known.get(society) ?? { made: make(society) }
    known.set(society, { made })
    return made
  }
}

export type Draw = ReturnType<typeof drawing>

/** Without a bias to small numbers: a small society hides little. */
const number = (max: number) => fc.noBias(fc.nat(max))

function drawing(g: GeneratorValue) {
  const upTo = (max: number) => g(number, max)
  const one = <T>(...list: [T, ...T[]] | T[]): T => list[upTo(list.length - 1)] as T
  const times = <T>(min: number, max: number, make: (n: number) => T): T[] =>
    Array.from({ length: min + upTo(max - min) }, (_, n) => make(n))
  return {
    upTo,
    one,
    times,
    /** One in so many. */
    rarely: (n: number) => upTo(n - 1) === n - 1,
    /** At most so many, in any order. */
    some: <T>(list: readonly T[], max: number): T[] =>
      list.length === 0 ? [] : [...new Set(times(0, max, () => one(...list)))],
  }
}

/** A text like no other. */
export const word = (name: string): string => `${name} ${newUuid()}`
export const latestFirst = <T extends { id: Uuid }>(list: readonly T[]): T[] =>
  list.toSorted((a, b) => (a.id < b.id ? 1 : -1))
/** The first of those with the same key. */
export const unique = <T>(list: readonly T[], key: (one: T) => string): T[] => [
  ...new Map(list.toReversed().map((one) => [key(one), one])).values(),
]
/** All rows are of one moment, so that lists are in the order of ids. */
export const AT = '2024-05-06T07:08:09.000Z'

export const membershipOf = ({ members }: Society, user: User, organization: Organization): Membership | undefined =>
  members.find((one) => one.user === user && one.organization === organization && !one.hasLeft)
export const isMember = (society: Society, user: User, organization: Organization): boolean =>
  membershipOf(society, user, organization) !== undefined
/** Whether the user is an owner or an administrator of the organization. */
export const administers = (society: Society, user: User, organization: Organization): boolean =>
  (membershipOf(society, user, organization)?.role ?? 'member') !== 'member'
/** Names are for those who share the organization. */
export const nameIn = (society: Society, organization: Organization, user: User): string | null =>
  isMember(society, user, organization) ? user.name : null
/** Members, and those who will have left in the end. */
export const everIn = ({ members }: Society, organization: Organization): User[] =>
  members.filter((one) => one.organization === organization).map(({ user }) => user)
/** Organizations that ever had members, each with these. */
export const peopled = (society: Society): { organization: Organization; people: User[] }[] =>
  society.organizations
    .map((organization) => ({ organization, people: everIn(society, organization) }))
    .filter(({ people }) => people.length > 0)

const digits = () => newUuid().replace(/\D/g, '').padEnd(10, '7').slice(-10)

async function aUser(api: TestApi): Promise<User> {
  return {
    ...(await aPerson(api)),
    name: word('Name'),
    email: `mail-${newUuid()}@example.org`,
    phone: `+49${digits()}`,
  }
}

/** A society with what these features add to it, stored. */
export async function aSociety(api: TestApi, g: GeneratorValue, parts: readonly Part[]): Promise<Society> {
  const draw = drawing(g)
  const users = await Promise.all(draw.times(3, 5, () => aUser(api)))
  const organizations = draw.times(1, 3, (): Organization => {
    const id = newUuid()
    return { id, wireId: formatId('organization', id), name: word('Organization') }
  })
  const drawn = draw.times(8, 20, () => ({
    user: draw.one(...users),
    organization: draw.one(...organizations),
    role: draw.rarely(3) ? draw.one('owner' as const, 'admin' as const) : ('member' as const),
    leaves: draw.rarely(5),
  }))
  const members = unique(drawn, ({ user, organization }) => `${user.id} ${organization.id}`)
  const tables = new Map<string, object[]>()
  const [acts, changes]: (() => Promise<void>)[][] = [[], []]
  const society: Society = {
    ...{ api, draw, users, organizations, marks: users.map(({ phone }) => phone) },
    members: members.map(({ leaves: _, ...one }) => ({ ...one, hasLeft: false })),
    insert: (table, ...rows) => void tables.set(table, [...(tables.get(table) ?? []), ...rows]),
    act: (step) => void acts?.push(step),
    change: (step) => void changes?.push(step),
  }
  const sql = (text: string, values: unknown[]) => api.database.admin.query(text, values)
  society.insert('organizations', ...organizations.map(({ id, name }) => ({ id, name })))
  society.insert(
    'memberships',
    ...members.map(({ organization, user, role }) => ({
      ...{ org_id: organization.id, user_id: user.id, role, joined_at: AT },
    })),
  )
  society.change(async () => {
    for (const [n, { user, organization, leaves }] of members.entries()) {
      const member = society.members[n]
      if (!leaves || !member) continue
      member.hasLeft = true
      await sql('delete from memberships where org_id = $1 and user_id = $2', [organization.id, user.id])
    }
  })
  for (const part of parts) part.of?.(society)

  await sql(
    `update users set display_name = given.display_name, email = given.email
       from jsonb_populate_recordset(null::users, $1::jsonb) given where given.id = users.id`,
    [JSON.stringify(users.map(({ id, name, email }) => ({ id, display_name: name, email })))],
  )
  for (const [table, rows] of tables) {
    const columns = Object.keys(rows[0] ?? {}).join(', ')
    const given = `select ${columns} from jsonb_populate_recordset(null::${table}, $1::jsonb)`
    if (rows.length > 0) await sql(`insert into ${table} (${columns}) ${given}`, [JSON.stringify(rows)])
  }
  await Promise.all(acts?.map((step) => step()) ?? [])
  for (const step of changes ?? []) await step()
  return society
}
