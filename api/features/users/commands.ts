import type { Uuid } from '../../../lib/contract/ids.ts'
import { type FieldIssue, notFound, Problem } from '../../../lib/contract/problem.ts'
import type { ApiConfig } from '../../config.ts'
import type { Database, Tx } from '../../db/db.ts'
import type { ApiDeps } from '../../deps.ts'
import type { Actor } from '../../requests/actor.ts'
import { type PageWanted, pageOf } from '../../requests/page.ts'
import { timestamp } from '../../requests/schemas.ts'
import { exceededQuota, type QuotaName, type Quotas, type Usage } from './policy.ts'
import { connectionsOf } from './present.ts'
import {
  countConnectedMembers,
  findAccount,
  findSharedOrganizations,
  findUsage,
  listConnectedMembers,
  listOwnOrganizations,
} from './queries.ts'
import type { ConnectedMembers, Connection, Me } from './user.ts'

export const quotasOf = (config: Pick<ApiConfig, 'USER_QUOTA_BYTES' | 'MAX_OPEN_UPLOADS'>): Quotas => ({
  storedBytes: config.USER_QUOTA_BYTES,
  openUploads: config.MAX_OPEN_UPLOADS,
})

/** The caller's account, in one round trip to the database. Changes nothing. */
export async function showMe(db: Database, quotas: Quotas, { userId, platformAdmin }: Actor): Promise<Me> {
  const [account, organizations] = await db.readAtOnce({ user: userId }, (tx) =>
    Promise.all([findAccount(tx, userId), listOwnOrganizations(tx, userId)]),
  )
  if (!account) throw notFound()
  return {
    user_id: userId,
    display_name: account.displayName,
    email: account.email,
    organizations: organizations.map(({ orgId, name, role, joinedAt }) => ({
      org_id: orgId,
      name,
      role,
      joined_at: timestamp(joinedAt),
    })),
    storage: { used_bytes: account.storedBytes, quota_bytes: quotas.storedBytes },
    platform_admin: platformAdmin,
  }
}

/** How the caller is connected with a user. Users without a common organization get the same 404 as unknown ids. */
export async function showConnections(db: Database, { userId: caller }: Caller, userId: Uuid): Promise<Connection> {
  const [rows, account] = await db.read({ user: caller }, (tx) =>
    Promise.all([
      findSharedOrganizations(tx, userId),
      // The caller is there even without an organization.
      userId === caller ? findAccount(tx, userId) : undefined,
    ]),
  )
  const [connection] = connectionsOf(rows)
  if (connection) return connection
  if (!account) throw notFound()
  return { user_id: userId, display_name: account.displayName, connected_via: [] }
}

/** Lists the users who share an organization with the caller, each once, in order of id. */
export function listConnected(
  { db, cursors }: Pick<ApiDeps, 'db' | 'cursors'>,
  { userId: caller }: Caller,
  query: { limit: number; cursor?: string | undefined },
): Promise<ConnectedMembers> {
  const page = pageOf(cursors, { list: 'listConnectedMembers', caller }, query)
  return db.read({ user: caller }, async (tx) => {
    const list = async ({ after, limit }: PageWanted) => {
      const rows = await listConnectedMembers(tx, { after: after?.id ?? NIL, limit })
      return connectionsOf(rows).map((connection) => ({ ...connection, id: connection.user_id, createdAt: '' }))
    }
    const show = ({ id: _, createdAt: __, ...connection }: Awaited<ReturnType<typeof list>>[number]) => connection
    const [members, total] = await Promise.all([page('members', list, show, () => 0), countConnectedMembers(tx)])
    return { ...members, total_count: total }
  })
}

type Caller = { userId: Uuid }
/** Before every id of a user. */
const NIL = '00000000-0000-0000-0000-000000000000'

/**
 * Throws QUOTA_EXCEEDED when `more` would exceed the user's quotas. A call before a change only saves work; a call
 * after the change, in the same transaction and with nothing more to add, is exact.
 */
export async function requireQuota(
  tx: Tx,
  userId: Uuid,
  quotas: Quotas,
  more: Partial<Usage>,
  field: string,
): Promise<void> {
  const usage = await findUsage(tx, userId)
  const exceeded = exceededQuota(usage, quotas, more)
  if (!exceeded) return
  const { message, issue } = WORDS[exceeded]
  const details: FieldIssue[] = [{ field, issue, quota: QUOTA_CODES[exceeded], limit: quotas[exceeded] }]
  throw new Problem('QUOTA_EXCEEDED', message, { details })
}

/** Names of the quotas for clients. */
const QUOTA_CODES: Record<QuotaName, string> = { storedBytes: 'storage', openUploads: 'open_uploads' }

const WORDS: Record<QuotaName, { message: string; issue: string }> = {
  storedBytes: {
    message: 'Your storage does not have enough free space',
    issue: 'exceeds the remaining quota',
  },
  openUploads: {
    message: 'You have too many open uploads. Finish or abort some of them.',
    issue: 'would exceed the number of open uploads',
  },
}
