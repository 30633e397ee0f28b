import { albumLists, albumSeeds } from './albums.ts'
import { auditLogSeeds } from './audit-log.ts'
import { authSeeds } from './auth.ts'
import { commentLists, commentSeeds } from './comments.ts'
import { dataExportSeeds } from './data-exports.ts'
import { erasureSeeds } from './erasure.ts'
import { eventLists, eventSeeds } from './events.ts'
import { highlightLists, highlightSeeds } from './highlights.ts'
import { invitationLists, invitationSeeds } from './invitations.ts'
import { mediaLists, mediaSeeds } from './media.ts'
import { notificationSeeds } from './notifications.ts'
import { organizationLists, organizationSeeds } from './organizations.ts'
import { pageSeeds } from './pages.ts'
import { permissionSeeds } from './permissions.ts'
import { reactionSeeds } from './reactions.ts'
import type { ListSeeds, Seeds } from './seed.ts'
import { timelineLists, timelineSeeds } from './timeline.ts'
import { userLists, userSeeds } from './users.ts'

/** One entry a feature. What its seeds are for: docs/testing.md. */
export const SEEDS: Seeds = {
  ...albumSeeds,
  ...auditLogSeeds,
  ...authSeeds,
  ...commentSeeds,
  ...dataExportSeeds,
  ...erasureSeeds,
  ...eventSeeds,
  ...highlightSeeds,
  ...invitationSeeds,
  ...mediaSeeds,
  ...notificationSeeds,
  ...organizationSeeds,
  ...pageSeeds,
  ...permissionSeeds,
  ...reactionSeeds,
  ...timelineSeeds,
  ...userSeeds,
}
export const LISTS: ListSeeds = {
  ...albumLists,
  ...commentLists,
  ...eventLists,
  ...highlightLists,
  ...invitationLists,
  ...mediaLists,
  ...organizationLists,
  ...timelineLists,
  ...userLists,
}
