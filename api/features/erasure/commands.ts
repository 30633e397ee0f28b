import { timingSafeEqual } from 'node:crypto'
import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { type FieldIssue, notFound, Problem } from '../../../lib/contract/problem.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import { insertAudit, type Origin } from '../../audit/queries.ts'
import { unauthorized } from '../../auth/verify-token.ts'
import type { Database, Tx } from '../../db/db.ts'
import { followToken, ledgerName } from '../../personal/ledger-name.ts'
import type { Actor } from '../../requests/actor.ts'
import type { Context } from '../../requests/context.ts'
import { type StepDone, toStored } from './erasure.ts'
import {
  close,
  type ErasureRow,
  endMembership,
  findErasure,
  findSteps,
  insertErasure,
  lockAccount,
  lockMembership,
  type NewErasure,
  type Owned,
  organizationsOf,
  promoteSuccessor,
} from './queries.ts'

/** The user joined an organization while this transaction waited. Nothing was changed: start again. */
class MembershipsChanged extends Error {}
const TRIES = 3

/**
 * Closes an account and begins its erasure, in one transaction: from its commit on no one signs in with it, and the worker
 * carries out the rest, whatever happens to this process. Of two requests the second finds the first.
 */
export async function requestErasure(
  { db, key }: { db: Database; key: string },
  { actor, context }: { actor: Actor; context: Context },
  { userId, reason }: { userId: Uuid; reason: string | null },
): Promise<{ row: ErasureRow; isNew: boolean }> {
  const isOwn = userId === actor.userId
  const wanted: NewErasure = {
    id: newUuid(),
    userId,
    askedBy: isOwn ? 'user' : 'administrator',
    administratorId: isOwn ? null : actor.userId,
    // What users write about themselves would only have to be erased.
    reason: isOwn ? null : reason,
  }
  for (let tried = 1; ; tried++) {
    try {
      return await db.inTransaction({ user: userId }, async (tx) => {
        const made = await closeAccount(tx, wanted, key, { context })
        await context.remember(tx, made.isNew ? 201 : 200, toStored(made.row))
        if (made.isNew) failpoint('erasure.closing')
        return made
      })
    } catch (error) {
      if (!(error instanceof MembershipsChanged) || tried === TRIES) throw error
    }
  }
}

/** What a closed account may still ask for: the erasure that it requested itself, whose answer may have been lost. */
export async function findOwnErasure(db: Database, userId: Uuid, wanted: Uuid): Promise<ErasureRow> {
  const row = wanted === userId ? await db.read({}, (tx) => findErasure(tx, { userId })) : undefined
  if (row?.askedBy !== 'user') throw unauthorized('revoked')
  return row
}

/** `request`: refuses the last owner of an organization. Without one, after a restore, another member becomes the owner. */
export async function closeAccount(
  tx: Tx,
  wanted: NewErasure,
  key: string,
  request?: { context: Origin },
): Promise<{ row: ErasureRow; isNew: boolean }> {
  const { userId } = wanted
  const orgIds = await organizationsOf(tx, userId)
  const owned: Owned[] = []
  for (const orgId of orgIds) owned.push(await lockMembership(tx, orgId, userId))
  const account = await lockAccount(tx, userId)
  if (!account) throw notFound('body.user_id')
  if (account.isClosed) {
    const row = await findErasure(tx, { userId })
    if (row) return { row, isNew: false }
    throw new Error('an account is closed without an erasure')
  }
  if ((await organizationsOf(tx, userId)).join() !== orgIds.join()) throw new MembershipsChanged()
  // No one could take over an organization that has no other member.
  const orphaned = owned.filter(({ isLastOwner, others }) => isLastOwner && others > 0)
  if (request && orphaned.length > 0) throw lastOwner(orphaned)
  for (const { orgId } of orphaned) await promoteSuccessor(tx, orgId, userId)
  for (const orgId of orgIds) await endMembership(tx, orgId, userId)
  await close(tx, userId)
  const soleOwnerOf = owned.filter(({ isLastOwner, others }) => isLastOwner && others === 0).map(({ orgId }) => orgId)
  const row = await insertErasure(tx, { ...wanted, soleOwnerOf }, ledgerName(key, userId))
  await audit(tx, row, 'request', request?.context ?? null)
  return { row, isNew: true }
}

const lastOwner = (orphaned: readonly Owned[]) =>
  new Problem('CONFLICT', 'An organization needs at least one owner; make another member an owner first', {
    details: orphaned.map(
      ({ orgId, name }): FieldIssue => ({
        field: 'body.user_id',
        issue: 'is the last owner of an organization',
        org_id: formatId('organization', orgId),
        org_name: name,
      }),
    ),
  })

/** Without a name: the log stays. */
export const audit = (tx: Tx, row: ErasureRow, operation: 'request' | 'complete', context: Origin | null) =>
  insertAudit(tx, {
    orgId: null,
    actorId: operation === 'request' ? (row.administratorId ?? (row.askedBy === 'user' ? row.userId : null)) : null,
    action: 'GDPR_ANONYMIZE',
    resourceId: row.userId,
    result: 'success',
    context,
    details: { operation, anonymization_id: formatId('anonymization', row.id), asked_by: row.askedBy },
  })

/** Of an erasure, for administrators and for who has the token of its answer. Everyone else gets 404. */
export async function showErasure(
  { db, key }: { db: Database; key: string },
  id: Uuid,
  who: { platformAdmin: boolean; token: string | undefined },
): Promise<{ row: ErasureRow; steps: StepDone[] }> {
  if (!who.platformAdmin && !isToken(followToken(key, id), who.token)) throw notFound()
  return db.read({}, async (tx) => {
    const row = await findErasure(tx, { id })
    if (!row) throw notFound()
    return { row, steps: await findSteps(tx, id) }
  })
}

function isToken(wanted: string, given: string | undefined): boolean {
  const [a, b] = [Buffer.from(wanted), Buffer.from(given ?? '')]
  return a.length === b.length && timingSafeEqual(a, b)
}
