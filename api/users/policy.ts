import { signedIn } from '../permissions/facts.ts'
import { onCaller } from '../permissions/rule.ts'

export const userActions = {
  'user.read_self': onCaller('see their own account', signedIn),
} as const

/** What one user has in all organizations together. */
export interface Usage {
  /** Originals, those in the trash included, and the announced bytes of open uploads. */
  storedBytes: number
  /** Upload sessions that are open or merging. */
  openUploads: number
}

/** What one user may have. */
export interface Quotas {
  storedBytes: number
  openUploads: number
}

export type QuotaName = keyof Quotas

/** The first quota that would not hold with `more` added to what the user has. What is not added to cannot be exceeded. */
export function exceededQuota(usage: Usage, quotas: Quotas, more: Partial<Usage>): QuotaName | undefined {
  const names = ['storedBytes', 'openUploads'] as const
  return names.find((name) => {
    const added = more[name]
    return added !== undefined && usage[name] + added > quotas[name]
  })
}
