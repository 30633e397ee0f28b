import { parseId, type Uuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import { insertAudit } from '../audit/queries.ts'
import { isIdentifier, userIdOf } from '../auth/verify-token.ts'
import type { Database, Tx } from '../db/db.ts'
import { tidyText } from '../http/text.ts'
import { leavesNoOwner, type Role } from './policy.ts'
import {
  countOwners,
  ensureUser,
  findMembership,
  findUserById,
  findUsersByEmail,
  insertMembership,
  insertOrganization,
  lockOrganization,
  type Member,
  updateRole,
} from './queries.ts'

/** What administrators do from the command line, as keepsake_worker: the API's own role may only read memberships. */
const BY_ADMIN = { actorId: null, context: null, result: 'success' } as const

export function createOrganization(db: Database, name: string): Promise<{ orgId: Uuid; name: string }> {
  const tidied = tidyText(name, { min: 1, max: 200 })
  if ('issue' in tidied) throw new Problem('VALIDATION_ERROR', `The name of the organization ${tidied.issue}`)
  const { text } = tidied
  return db.inTransaction({}, async (tx) => {
    const orgId = await insertOrganization(tx, text)
    await insertAudit(tx, {
      ...BY_ADMIN,
      orgId,
      action: 'ADMIN_ACTION',
      resourceType: 'organization',
      resourceId: orgId,
      details: { operation: 'create' },
    })
    return { orgId, name: text }
  })
}

export interface AddMember {
  orgId: Uuid
  /** `usr_…`, a UUID, an e-mail address, or the subject at the identity provider. */
  user: string
  role: Role
  /** Whose subject that is. */
  issuer: string | undefined
}

/** Adding somebody who has the role already is success; another role is a CONFLICT, since it would be a change. */
export function addMember(db: Database, command: AddMember): Promise<Member & { added: boolean }> {
  return db.inTransaction({}, async (tx) => {
    await lockOrFail(tx, command.orgId)
    const userId =
      (await findUser(tx, command.user, command.issuer)) ?? (await makeUser(tx, command.user, command.issuer))
    const member = { orgId: command.orgId, userId, role: command.role }
    const known = await findMembership(tx, command.orgId, userId)
    if (known?.role === command.role) return { ...known, added: false }
    if (known) throw new Problem('CONFLICT', `That user is a member already, as ${known.role}; change the role instead`)
    await insertMembership(tx, member)
    await insertAudit(tx, {
      ...BY_ADMIN,
      orgId: command.orgId,
      action: 'MEMBER_INVITE',
      resourceType: 'user',
      resourceId: userId,
      details: { operation: 'add', role: command.role },
    })
    return { ...member, added: true }
  })
}

export function changeRole(db: Database, command: AddMember): Promise<Member> {
  return db.inTransaction({}, async (tx) => {
    const { orgId, role } = command
    await lockOrFail(tx, orgId)
    const userId = await findUser(tx, command.user, command.issuer)
    if (!userId) throw new Problem('NOT_FOUND', 'There is no such user')
    const known = await findMembership(tx, orgId, userId)
    if (!known) throw new Problem('NOT_FOUND', 'That user is no member of this organization')
    if (known.role === role) return known
    if (leavesNoOwner({ from: known.role, to: role, owners: await countOwners(tx, orgId) })) {
      throw new Problem('CONFLICT', 'An organization keeps at least one owner; make somebody else owner first')
    }
    await updateRole(tx, { orgId, userId, role })
    await insertAudit(tx, {
      ...BY_ADMIN,
      orgId,
      action: 'ADMIN_ACTION',
      resourceType: 'user',
      resourceId: userId,
      details: { operation: 'change role', from: known.role, to: role },
    })
    return { orgId, userId, role }
  })
}

async function lockOrFail(tx: Tx, orgId: Uuid): Promise<void> {
  if (!(await lockOrganization(tx, orgId))) throw new Problem('NOT_FOUND', 'There is no such organization')
}

async function findUser(tx: Tx, text: string, issuer: string | undefined): Promise<Uuid | undefined> {
  const id = parseId('user', text)
  const known = id && (await findUserById(tx, id))
  if (known) return known
  if (text.startsWith('usr_')) throw new Problem('NOT_FOUND', 'There is no such user')
  if (text.includes('@')) return userByEmail(tx, text)
  return issuer === undefined ? undefined : findUserById(tx, userIdOf(issuer, text))
}

/** Somebody who has not signed in yet is known by nothing but the subject that the identity provider gives them. */
async function makeUser(tx: Tx, subject: string, issuer: string | undefined): Promise<Uuid> {
  if (!isIdentifier(subject)) throw new Problem('VALIDATION_ERROR', 'A subject has 1 to 255 characters')
  if (issuer === undefined) {
    throw new Problem('VALIDATION_ERROR', 'Nobody like that has signed in: set AUTH_ISSUER to add them by subject')
  }
  const id = userIdOf(issuer, subject)
  await ensureUser(tx, { id, issuer, subject })
  return id
}

async function userByEmail(tx: Tx, email: string): Promise<Uuid> {
  const [user, another] = await findUsersByEmail(tx, email)
  if (another) throw new Problem('CONFLICT', 'Several users have this e-mail address; name one by id')
  if (user) return user
  throw new Problem(
    'NOT_FOUND',
    'No user with this verified e-mail address has signed in yet; name the user by subject',
  )
}
