import type * as z from 'zod'
import { auditPart } from './audit/erasure.ts'
import { authPart } from './auth/erasure.ts'
import { sessionActions } from './auth/policy.ts'
import type { Feature } from './feature.ts'
import { administration } from './features/administration/feature.ts'
import { albums } from './features/albums/feature.ts'
import { seesAlbum } from './features/albums/policy.ts'
import { auditLog } from './features/audit-log/feature.ts'
import { dataExports } from './features/data-exports/feature.ts'
import { isShownToGuest } from './features/discussions/comments/targets.ts'
import { discussions } from './features/discussions/feature.ts'
import { downloads } from './features/downloads/feature.ts'
import { erasure } from './features/erasure/feature.ts'
import { eventsInArchive } from './features/event-archive/feature.ts'
import { events } from './features/events/feature.ts'
import { highlights } from './features/highlights/feature.ts'
import { findDeliveredHighlight } from './features/highlights/queries.ts'
import { invitations } from './features/invitations/feature.ts'
import { tellInvitees } from './features/invitations/notify.ts'
import { lockInvitationsOf, revokeInvitations } from './features/invitations/revocation-queries.ts'
import { media } from './features/media/feature.ts'
import { endUploads } from './features/media/uploads/queries.ts'
import { musicTracks } from './features/music-tracks/feature.ts'
import { findDeliveredTrack } from './features/music-tracks/queries.ts'
import { notifications } from './features/notifications/feature.ts'
import { organizations } from './features/organizations/feature.ts'
import { retention } from './features/retention/feature.ts'
import { timeline } from './features/timeline/feature.ts'
import { users } from './features/users/feature.ts'
import { httpPart } from './http/erasure.ts'
import { limitsPart } from './limits/erasure.ts'
import { outboxPart } from './outbox/erasure.ts'
import type { Catalog } from './permissions/catalog.ts'
import type { EraseStep, PersonalPart } from './personal/part.ts'
import { WorkerConfig } from './worker/config.ts'
import { consumersPart } from './worker/consumers/erasure.ts'
import type { WorkerPart } from './worker/feature-worker.ts'

/**
 * All features, in the order of the alphabet: none may depend on another one's place. A feature imports only features
 * below it; what one above adds to it, it gets here.
 */
export const FEATURES: readonly Feature[] = [
  administration,
  albums,
  dataExports(() => FEATURES.map((feature) => feature.export)),
  auditLog,
  discussions,
  downloads,
  erasure(() => ERASE_STEPS),
  eventsInArchive,
  events({ seesAlbum, onActivated: tellInvitees }),
  highlights,
  invitations,
  media({ findDeliveredHighlight, findDeliveredTrack, isShownToGuest }),
  musicTracks,
  notifications,
  organizations({ endUploads, lockInvitationsOf, revokeInvitations }),
  retention,
  timeline,
  users,
]

/** What the platform keeps of people, beside the features. */
const PLATFORM_PARTS: readonly PersonalPart[] = [auditPart, authPart, httpPart, limitsPart, outboxPart, consumersPart]

/** Everything that keeps something of people. */
export const PERSONAL_PARTS: readonly PersonalPart[] = [...PLATFORM_PARTS, ...FEATURES]

/** The steps of an erasure, in a phase as the parts are listed. */
export const ERASE_STEPS: readonly EraseStep[] = PERSONAL_PARTS.flatMap(({ erase }) => erase)

/** The actions of all features, and the rows that they apply to. */
export const CATALOG: Catalog = {
  actions: [...Object.values(sessionActions), ...FEATURES.flatMap(({ actions }) => actions)],
  rows: Object.assign({}, ...FEATURES.map(({ rows }) => rows)),
}

const WORKERS = FEATURES.flatMap(({ worker }) => worker ?? [])

/** What the worker does for the features. */
export const FEATURE_WORKERS: readonly WorkerPart[] = WORKERS

const settings: Record<never, z.ZodType> = Object.assign({}, ...WORKERS.map((worker) => worker.settings.shape))

/** The environment of the worker with all its features. */
export const FullWorkerConfig = WorkerConfig.extend(settings)
