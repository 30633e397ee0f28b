import { signedIn } from '../../permissions/facts.ts'
import { onCaller } from '../../permissions/rule.ts'

export const userActions = {
  readSelf: onCaller('user.read_self', 'see their own account', signedIn),
  // A user who shares no organization with the caller does not exist for them.
  readConnections: onCaller(
    'user.read_connections',
    'see through which organizations they are connected with a user',
    signedIn,
  ),
  listConnected: onCaller('user.list_connected', 'list all users that they are connected with', signedIn),
} as const

/** The usage of one user in all organizations together. */
export interface Usage {
  /** Originals, those in the trash included, and the announced bytes of open uploads. */
  storedBytes: number
  /** Upload sessions that are open or merging. */
  openUploads: number
}

/** The limits of one user in all organizations together. */
export interface Quotas {
  storedBytes: number
  openUploads: number
}

export type QuotaName = keyof Quotas

/** Returns the first quota that `more` would exceed. Checks only the quotas that `more` names. */
export function exceededQuota(usage: Usage, quotas: Quotas, more: Partial<Usage>): QuotaName | undefined {
  const names = ['storedBytes', 'openUploads'] as const
  return names.find((name) => {
    const added = more[name]
    return added !== undefined && usage[name] + added > quotas[name]
  })
}
