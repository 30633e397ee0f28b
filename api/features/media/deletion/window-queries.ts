import { APP_NOW } from '../../../retention/clock.ts'
import { overSince, purgeAfter } from '../../../retention/policies-queries.ts'
import { DEFAULT_RESTORE } from './plan.ts'

/** How long a deleted media item can be restored, by the policy in force; null: for good. */
export const restoreWindow = purgeAfter('MediaTrash', DEFAULT_RESTORE)
/** What was deleted at this time or before can no longer be restored. */
export const restorableSince = overSince(APP_NOW, 'MediaTrash', DEFAULT_RESTORE)
