import { formatId, type Uuid } from '../../lib/contract/ids.ts'
import { type FieldIssue, Problem } from '../../lib/contract/problem.ts'
import type { ApiConfig } from '../config.ts'
import type { Database, Tx } from '../db/db.ts'
import { timestamp } from '../http/schemas.ts'
import { notFound } from '../http/validate.ts'
import { exceededQuota, type QuotaName, type Quotas, type Usage } from './policy.ts'
import { findAccount, findUsage, listOwnOrganizations } from './queries.ts'
import type { Me } from './user.ts'

export const quotasOf = (config: Pick<ApiConfig, 'USER_QUOTA_BYTES' | 'MAX_OPEN_UPLOADS'>): Quotas => ({
  storedBytes: config.USER_QUOTA_BYTES,
  openUploads: config.MAX_OPEN_UPLOADS,
})

/** The caller's account, in one round trip to the database. Changes nothing. */
export async function showMe(db: Database, quotas: Quotas, userId: Uuid): Promise<Me> {
  const [account, organizations] = await db.readAtOnce({ user: userId }, (tx) =>
    Promise.all([findAccount(tx, userId), listOwnOrganizations(tx, userId)]),
  )
  if (!account) throw notFound()
  return {
    user_id: formatId('user', userId),
    display_name: account.displayName,
    email: account.email,
    organizations: organizations.map(({ orgId, name, role, joinedAt }) => ({
      org_id: formatId('organization', orgId),
      name,
      role,
      joined_at: timestamp(joinedAt),
    })),
    storage: { used_bytes: account.storedBytes, quota_bytes: quotas.storedBytes },
  }
}

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
