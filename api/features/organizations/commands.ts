import { parseId, type Uuid } from '../../../lib/contract/ids.ts'
import { invalid, Problem } from '../../../lib/contract/problem.ts'
import type { Role } from '../../../lib/contract/roles.ts'
import { insertAudit } from '../../audit/queries.ts'
import { isIdentifier, userIdOf } from '../../auth/verify-token.ts'
import type { Database, Tx } from '../../db/db.ts'
import { findMembership, type Member } from '../../permissions/queries.ts'
import { requireState } from '../../permissions/state.ts'
import { type Change, changesOf } from '../../requests/change.ts'
import { found } from '../../requests/found.ts'
import type { Write } from '../../requests/request.ts'
import { tidyText } from '../../requests/text.ts'
import { isLastOwner, type memberActions, type organizationActions, unlessLastOwner } from './policy.ts'
import {
  deleteMembership,
  ensureUser,
  findListedMember,
  findOrganization,
  findUserById,
  findUsersByEmail,
  insertMembership,
  insertOrganization,
  isLongerThanPolicy,
  type ListedMember,
  lockMembers,
  lockOrganization,
  type OrganizationRow,
  setEventRetention,
  updateRole,
} from './queries.ts'

/** Commands of administrators run as keepsake_worker: the role of the API changes no organization. */
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
  /** The identity provider of the subject. */
  issuer: string | undefined
  /** Whether a user of whom there is no row was erased, and the row lost with a restored backup. */
  isErased(tx: Tx, userId: Uuid): Promise<boolean>
}

/** Announces a new member, however the user became one. */
export function announceJoined(
  announce: Change['announce'],
  { orgId, userId }: Pick<Member, 'orgId' | 'userId'>,
  joinedAt: Date,
): Promise<void> {
  const ids = { org_id: orgId, user_id: userId }
  // A membership has no versions.
  return announce('MemberJoined', { id: userId, orgId, version: 1 }, { ...ids, joined_at: joinedAt.toISOString() })
}

/** Succeeds if the user has the role already. Another role is a CONFLICT: `changeRole` changes roles. */
export const addMember = (db: Database, command: AddMember): Promise<Member & { added: boolean }> =>
  db.inTransaction({}, (tx) => addMemberIn(tx, command))

export async function addMemberIn(tx: Tx, command: AddMember): Promise<Member & { added: boolean }> {
  await lockOrFail(tx, command.orgId)
  const userId = (await findUser(tx, command.user, command.issuer)) ?? (await makeUser(tx, command))
  const member = { orgId: command.orgId, userId, role: command.role }
  const { isNew, role, joinedAt } = await insertMembership(tx, member)
  if (!isNew && role === command.role) return { ...member, added: false }
  if (!isNew) throw new Problem('CONFLICT', `The user is already a member, as ${role}; change the role instead`)
  const { announce } = changesOf(tx, { orgId: command.orgId, ...BY_ADMIN })
  await announceJoined(announce, member, joinedAt)
  await insertAudit(tx, {
    ...BY_ADMIN,
    orgId: command.orgId,
    action: 'MEMBER_INVITE',
    resourceType: 'user',
    resourceId: userId,
    details: { operation: 'add', role: command.role },
  })
  return { ...member, added: true }
}

export function changeRole(db: Database, command: Omit<AddMember, 'isErased'>): Promise<Member> {
  return db.inTransaction({}, async (tx) => {
    const { orgId, role } = command
    await lockOrFail(tx, orgId)
    const userId = await findUser(tx, command.user, command.issuer)
    if (!userId) throw new Problem('NOT_FOUND', 'There is no such user')
    // Members change roles as well, through the API, which cannot lock the organization.
    const locked = await lockMembers(tx, orgId, [userId])
    const known = locked.find((member) => member.userId === userId)
    if (!known) throw new Problem('NOT_FOUND', 'The user is not a member of this organization')
    if (known.role === role) return known
    requireState(unlessLastOwner, withOwners(locked, known))
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

/** `locked` is the result of `lockMembers`. */
const withOwners = <T extends { role: Role }>(locked: readonly Member[], target: T) => ({
  ...target,
  isLastOwner: isLastOwner(target, locked.filter(({ role }) => role === 'owner').length),
})

type MemberChange = Pick<
  Write<typeof memberActions.changeRole | typeof memberActions.remove>,
  'tx' | 'orgId' | 'actor' | 'admit'
>

/** The caller decides as the member that they are now: a role may have ended while this transaction waited. */
async function lockForChange({ tx, orgId, actor, admit }: MemberChange, userId: Uuid) {
  const locked = await lockMembers(tx, orgId, [actor.userId, userId])
  const find = (id: Uuid) => locked.find((member) => member.userId === id)
  admit(find(actor.userId))
  return { target: { ...withOwners(locked, found(find(userId))), id: userId } }
}

/** For a member with permission. No effect if the user has the role already. */
export async function changeMember(
  request: Write<typeof memberActions.changeRole>,
  { userId, role }: { userId: Uuid; role: Role },
): Promise<ListedMember> {
  const { tx, orgId, permit, ready, audit } = request
  // Before the lock, as `lockPermitted` has it, and on what is locked.
  const known = { ...found(await findMembership(tx, orgId, userId)), id: userId }
  for (const one of [known, { ...known, role }]) permit(one)
  const { target } = await lockForChange(request, userId)
  permit(target)
  permit({ ...target, role })
  if (target.role !== role) {
    ready(target)
    await updateRole(tx, { orgId, userId, role })
    await audit('ADMIN_ACTION', { id: userId }, { operation: 'change role', from: target.role, to: role })
  }
  return found(await findListedMember(tx, orgId, userId))
}

/**
 * Sets for how many years the organization keeps archived events. Never shorter than the policy in force: a value that is not
 * longer is refused, and one that a later policy outlasts has no effect.
 */
export async function changeOrganization(
  { tx, orgId, audit }: Write<typeof organizationActions.update>,
  years: number | null,
): Promise<OrganizationRow> {
  if (years !== null && !(await isLongerThanPolicy(tx, years)))
    throw invalid([{ field: 'body.event_retention_years', issue: 'must be longer than the installation keeps events' }])
  const before = await setEventRetention(tx, orgId, years)
  if (before !== years) {
    await audit(
      'ADMIN_ACTION',
      { id: orgId },
      { operation: 'set event retention', from: before, to: years },
      'organization',
    )
  }
  return found(await findOrganization(tx, orgId))
}

/** What features above this one add to it: the pending invitations to a user, who is removed, and the user's uploads. */
export interface AboveOrganizations {
  endUploads(tx: Tx, orgId: Uuid, userId: Uuid): Promise<void>
  lockInvitationsOf(tx: Tx, orgId: Uuid, userId: Uuid): Promise<Uuid[]>
  revokeInvitations(tx: Tx, ids: Uuid[]): Promise<void>
}

/**
 * Ends a membership, and with it what the user takes part in. Media items stay: they were shared with the organization.
 * Uploads that are not finished end: from now on the user can neither send their chunks nor abort them. Who is removed
 * cannot come back with an invitation from before; who leaves may.
 */
export async function removeMember(
  request: Write<typeof memberActions.remove>,
  userId: Uuid,
  above: AboveOrganizations,
): Promise<void> {
  const { tx, orgId, actor, permit, ready, audit } = request
  const isLeaving = userId === actor.userId
  const invitations = isLeaving ? [] : await lockInvitations(request, userId, above)
  const { target } = await lockForChange(request, userId)
  permit(target)
  ready(target)
  await above.revokeInvitations(tx, invitations)
  await above.endUploads(tx, orgId, userId)
  await deleteMembership(tx, { orgId, userId })
  await audit(
    'ADMIN_ACTION',
    { id: userId },
    {
      operation: isLeaving ? 'leave' : 'remove member',
      role: target.role,
      ...(invitations.length > 0 && { revoked_invitations: invitations.length }),
    },
  )
}

/**
 * Before the memberships, in the order of the locks. The decision on the locked memberships follows; the one here keeps a
 * caller without permission from locking anything.
 */
async function lockInvitations(
  { tx, orgId, permit }: Write<typeof memberActions.remove>,
  userId: Uuid,
  above: AboveOrganizations,
): Promise<Uuid[]> {
  permit({ ...found(await findMembership(tx, orgId, userId)), id: userId })
  return above.lockInvitationsOf(tx, orgId, userId)
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

/** A user who has not signed in yet is known only by the subject at the identity provider. */
async function makeUser(
  tx: Tx,
  { user: subject, issuer, isErased }: Pick<AddMember, 'user' | 'issuer' | 'isErased'>,
): Promise<Uuid> {
  if (!isIdentifier(subject)) throw new Problem('VALIDATION_ERROR', 'A subject has 1 to 255 characters')
  if (issuer === undefined) {
    throw new Problem('VALIDATION_ERROR', 'No such user has signed in; set AUTH_ISSUER to add a user by subject')
  }
  const id = userIdOf(issuer, subject)
  if (await isErased(tx, id)) throw new Problem('CONFLICT', 'This account was erased, and cannot be added again')
  await ensureUser(tx, { id, issuer, subject })
  return id
}

async function userByEmail(tx: Tx, email: string): Promise<Uuid> {
  const [user, another] = await findUsersByEmail(tx, email)
  if (another) throw new Problem('CONFLICT', 'Several users have this e-mail address; use the id of one')
  if (user) return user
  throw new Problem(
    'NOT_FOUND',
    'No user with this verified e-mail address has signed in yet; use the subject of the user',
  )
}
