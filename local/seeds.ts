import { findUser, upsertUser } from '../api/auth/queries.ts'
import type { Database } from '../api/db/db.ts'
import { addMemberIn, createOrganization } from '../api/features/organizations/commands.ts'
import { findMembership } from '../api/permissions/queries.ts'
import { formatId, type Uuid } from '../lib/contract/ids.ts'
import type { Role } from '../lib/contract/roles.ts'
import type { Demo } from './demo-file.ts'
import type { IdentityUser } from './identity-provider.ts'
import type { AccountName, Settings } from './settings.ts'

interface Person {
  name: string
  email: string
  platformAdmin?: boolean
  /** The index of the organization, and the role in it. */
  member?: { of: number; role: Role }
}

const ORGANIZATIONS = ['Class of 1994', 'Lake House Friends'] as const
const PEOPLE: Record<AccountName, Person> = {
  owner: { name: 'Jonas Weber', email: 'owner@keepsake.example', member: { of: 0, role: 'owner' } },
  member: { name: 'Mira Okafor', email: 'member@keepsake.example', member: { of: 0, role: 'member' } },
  admin: { name: 'Tomás Silva', email: 'admin@keepsake.example', member: { of: 0, role: 'admin' } },
  outsider: { name: 'Ines Duarte', email: 'outsider@keepsake.example', member: { of: 1, role: 'member' } },
  platform_admin: { name: 'Priya Raman', email: 'platform-admin@keepsake.example', platformAdmin: true },
}
const NAMES = Object.keys(PEOPLE) as AccountName[]

/** The accounts of the identity provider. */
export const identityUsers = (settings: Settings): IdentityUser[] =>
  NAMES.map((name) => ({
    ...settings.accounts[name],
    email: PEOPLE[name].email,
    name: PEOPLE[name].name,
    roles: PEOPLE[name].platformAdmin ? ['ROLE_ADMIN'] : [],
  }))

/**
 * Creates two organizations and the people where they are missing. Can be repeated and interrupted; what has become of a
 * person since is kept: another role, a membership that ended, an account that was erased.
 */
export async function seed(db: Database, settings: Settings): Promise<Pick<Demo, 'organizations' | 'accounts'>> {
  const organizations = await Promise.all(ORGANIZATIONS.map((name) => organizationCalled(db, name)))
  const entries: [AccountName, Demo['accounts'][AccountName]][] = []
  for (const name of NAMES) {
    const { id, password } = settings.accounts[name]
    const { email, name: displayName, member } = PEOPLE[name]
    const orgId = member && organizations[member.of]?.id
    const membership = orgId && { orgId, role: member.role }
    await ensurePerson(db, { id, issuer: settings.issuer, email, displayName, membership })
    const role = orgId && (await db.read({}, (tx) => findMembership(tx, orgId, id)))?.role
    entries.push([
      name,
      {
        email,
        password,
        user_id: formatId('user', id),
        name: displayName,
        organizations: role ? [{ org_id: formatId('organization', orgId), role }] : [],
      },
    ])
  }
  return {
    organizations: organizations.map((o) => ({ org_id: formatId('organization', o.id), name: o.name })),
    accounts: Object.fromEntries(entries) as Demo['accounts'],
  }
}

async function organizationCalled(db: Database, name: string): Promise<{ id: Uuid; name: string }> {
  // The oldest: an administrator may have created another one of the same name.
  const { rows } = await db.pool.query<{ id: Uuid }>(
    'select id from organizations where name = $1 order by created_at, id limit 1',
    [name],
  )
  const id = rows[0]?.id ?? (await createOrganization(db, name)).orgId
  return { id, name }
}

interface NewPerson {
  id: Uuid
  issuer: string
  email: string
  displayName: string
  membership: { orgId: Uuid; role: Role } | undefined
}

/**
 * Creates the row that the first sign-in would create, with the membership. Both at once: of a person who is known, a
 * missing membership has ended.
 */
const ensurePerson = (db: Database, { id, issuer, email, displayName, membership }: NewPerson): Promise<void> =>
  db.inTransaction({}, async (tx) => {
    if (await findUser(tx, id, null)) return
    await upsertUser(tx, { userId: id, issuer, subject: id, email, displayName, issuedAt: 0 })
    if (!membership) return
    const user = formatId('user', id)
    await addMemberIn(tx, { ...membership, user, issuer: undefined, isErased: async () => false })
  })
