import type { RetentionError } from '../../../lib/contract/retention.ts'
import { safeMessage } from '../../../lib/runtime/log-error.ts'
import { StoreError } from '../../../lib/runtime/object-store/object-store.ts'

/** What failed is tried again after this time. Longer than a day, so that it does not stand in front of all runs of a daily policy. */
const FAILED_SECONDS = 90_000
/** A lock in the store whose end is unknown, such as a legal hold there. */
const LOCKED_SECONDS = 86_400

/** The store cannot be reached, or is too busy: not the fault of the item. */
export const isUnavailable = (error: unknown): boolean => error instanceof StoreError && error.code === 'Unavailable'

/** The store is there, and asks for fewer requests at a time. */
export const isSlowDown = (error: unknown): boolean => error instanceof StoreError && error.isSlowDown

/** What an error means for its item. */
export function failureOf(
  error: unknown,
): Pick<RetentionError, 'code' | 'message'> & { until: { seconds: number } | Date } {
  const message = safeMessage(error).slice(0, 256) || 'failed'
  if (!(error instanceof StoreError)) return { code: 'Failed', message, until: { seconds: FAILED_SECONDS } }
  const { code, until } = error
  if (code !== 'Locked') return { code, message, until: { seconds: FAILED_SECONDS } }
  const isLater = until !== undefined && until.getTime() > Date.now()
  return { code, message, until: isLater ? until : { seconds: LOCKED_SECONDS } }
}
