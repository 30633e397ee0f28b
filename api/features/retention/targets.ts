import { auditDays } from '../../audit/archive/audit-target.ts'
import type { RetentionTarget } from '../../retention/target.ts'
import { eventArchive } from '../event-archive/archive-target.ts'
import { unusedPieces } from '../highlights/pieces/pieces.ts'
import { mediaTrash } from '../media/deletion/trash-target.ts'
import { expiredUploads } from '../media/uploads/retention-target.ts'
import { oldNotifications } from '../notifications/retention-target.ts'

/**
 * What policies are about. Not in the records of the features: with all of these, which bring routes and schemas, the program
 * would need half as much memory again.
 */
export const TARGETS: readonly RetentionTarget[] = [
  auditDays,
  eventArchive,
  expiredUploads,
  mediaTrash,
  oldNotifications,
  unusedPieces,
]
