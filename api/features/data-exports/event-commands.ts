import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import type { ApiDeps } from '../../deps.ts'
import type { Actor } from '../../requests/actor.ts'
import { found } from '../../requests/found.ts'
import { type Steps, WithStatus } from '../../requests/request.ts'
import { findEvent } from '../events/queries.ts'
import { presentWith, record } from './commands.ts'
import { MAX_SHOWN } from './data-export.ts'
import { type EventExport, presentEventExport } from './event-export.ts'
import { MAX_A_DAY } from './plan.ts'
import type { eventExportActions } from './policy.ts'
import {
  type ExportId,
  findExport,
  findRunning,
  insertExport,
  listExports,
  lockExportsOf,
  secondsToNext,
} from './queries.ts'

type Deps = Pick<ApiDeps, 'db' | 'links' | 'clock'>

/**
 * Starts an export of an event, unless one of the caller's is under way. The decision comes first, in the scope of the
 * organization; the export is the person's. Whether the person still may have it is asked again while it is made.
 */
export async function requestEventExport(
  deps: Deps,
  { actor, orgId, context, read }: Steps<typeof eventExportActions.request>,
  eventId: Uuid,
): Promise<WithStatus<EventExport>> {
  const { userId } = actor
  const event = await read(async ({ tx, permit }) => permit(found(await findEvent(tx, orgId, eventId))))
  const about = { eventId: event.id, orgId: event.orgId, eventTitle: event.title, eventOwnerId: event.ownerId }
  return deps.db.inTransaction({ org: orgId, user: userId }, async (tx) => {
    await lockExportsOf(tx, userId)
    const running = await findRunning(tx, userId, about)
    const status = running ? 200 : 202
    if (!running) {
      const retryAfter = await secondsToNext(tx, userId, { most: MAX_A_DAY, days: 1, ofEvents: true })
      if (retryAfter > 0) {
        throw new Problem('RATE_LIMITED', `Events can be exported ${MAX_A_DAY} times within 24 hours`, { retryAfter })
      }
    }
    const row = running ?? (await insertExport(tx, { id: newUuid(), userId, about }))
    if (!running) await record(tx, { actor, context, of: row, operation: 'request' })
    const [data] = await presentWith(deps, tx, { rows: [row], as: presentEventExport })
    await context.remember(tx, status, data)
    return new WithStatus(status, found(data))
  })
}

export const showEventExports = ({ db, ...deps }: Deps, { userId }: Actor): Promise<{ exports: EventExport[] }> =>
  db.read({ user: userId }, async (tx) => {
    const rows = await listExports(tx, userId, { limit: MAX_SHOWN, ofEvents: true })
    return { exports: await presentWith(deps, tx, { rows, as: presentEventExport }) }
  })

export const showEventExport = ({ db, ...deps }: Deps, { userId }: Actor, id: ExportId): Promise<EventExport> =>
  db.read({ user: userId }, async (tx) => {
    const row = found(await findExport(tx, { id, userId, ofEvents: true }))
    const [data] = await presentWith(deps, tx, { rows: [row], as: presentEventExport })
    return found(data)
  })
