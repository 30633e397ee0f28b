import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { insertAudit } from '../../audit/queries.ts'
import type { Tx } from '../../db/db.ts'
import type { ApiDeps } from '../../deps.ts'
import type { Actor } from '../../requests/actor.ts'
import type { Context } from '../../requests/context.ts'
import { found } from '../../requests/found.ts'
import { removeDownloads } from '../downloads/queries.ts'
import { type DataExport, MAX_SHOWN } from './data-export.ts'
import { MAX_A_DAY } from './plan.ts'
import { presentExport } from './present.ts'
import {
  type DataExportRow,
  deleteExportsOf,
  type ExportId,
  endExportsWith,
  findExport,
  findRunning,
  insertExport,
  listExports,
  listParts,
  lockExportsOf,
  markRemoved,
  secondsToNext,
} from './queries.ts'

type Deps = Pick<ApiDeps, 'db' | 'links' | 'clock'>

/** Of a person's own data, in no organization; of an event, in that of the event. */
export const record = (
  tx: Tx,
  o: {
    actor: Actor
    context: Context
    of: Pick<DataExportRow, 'id' | 'orgId' | 'eventId'>
    operation: 'request' | 'remove'
  },
) =>
  insertAudit(tx, {
    orgId: o.of.orgId,
    actorId: o.actor.userId,
    action: 'DATA_EXPORT',
    resourceId: o.of.id,
    result: 'success',
    context: o.context,
    details: { operation: o.operation, ...(o.of.eventId && { event_id: formatId('event', o.of.eventId) }) },
  })

/** Starts an export, unless one of the caller's is under way. */
export function requestExport(
  deps: Deps,
  actor: Actor,
  context: Context,
): Promise<{ status: 200 | 202; data: DataExport }> {
  const { userId } = actor
  return deps.db.inTransaction({ user: userId }, async (tx) => {
    await lockExportsOf(tx, userId)
    const running = await findRunning(tx, userId, 'own')
    const status = running ? 200 : 202
    const row = running ?? (await startExport(tx, userId))
    if (!running) await record(tx, { actor, context, of: row, operation: 'request' })
    const [data] = await present(deps, tx, [row])
    await context.remember(tx, status, data)
    return { status, data: found(data) }
  })
}

async function startExport(tx: Tx, userId: Uuid): Promise<DataExportRow> {
  const retryAfter = await secondsToNext(tx, userId, { most: MAX_A_DAY, days: 1, ofEvents: false })
  if (retryAfter > 0) {
    throw new Problem('RATE_LIMITED', `Your data can be exported ${MAX_A_DAY} times within 24 hours`, { retryAfter })
  }
  return insertExport(tx, { id: newUuid(), userId, about: 'own' })
}

export const showExports = ({ db, ...deps }: Deps, { userId }: Actor): Promise<{ exports: DataExport[] }> =>
  db.read({ user: userId }, async (tx) => ({
    exports: await present(deps, tx, await listExports(tx, userId, { limit: MAX_SHOWN, ofEvents: false })),
  }))

export const showExport = ({ db, ...deps }: Deps, { userId }: Actor, id: ExportId): Promise<DataExport> =>
  db.read({ user: userId }, async (tx) => {
    const row = found(await findExport(tx, { id, userId, ofEvents: false }))
    const [data] = await present(deps, tx, [row])
    return found(data)
  })

const present = (deps: Omit<Deps, 'db'>, tx: Tx, rows: readonly DataExportRow[]): Promise<DataExport[]> =>
  presentWith(deps, tx, { rows, as: presentExport })

/** Each with its parts. */
export async function presentWith<T>(
  { links, clock }: Omit<Deps, 'db'>,
  tx: Tx,
  { rows, as }: { rows: readonly DataExportRow[]; as(...given: Parameters<typeof presentExport>): T },
): Promise<T[]> {
  const parts = await listParts(
    tx,
    rows.map(({ id }) => id),
  )
  const at = { links, now: clock.now() }
  return rows.map((row) =>
    as(
      row,
      parts.filter(({ exportId }) => exportId === row.id),
      at,
    ),
  )
}

/** Ends an export, whether it is under way or can be downloaded. Its links stop working at once. */
export const removeExport = (
  { db }: Deps,
  actor: Actor,
  context: Context,
  { id, ofEvents }: { id: ExportId; ofEvents: boolean },
): Promise<void> =>
  db.inTransaction({ user: actor.userId }, async (tx) => {
    const row = found(await findExport(tx, { id, userId: actor.userId, ofEvents, lock: true }))
    await markRemoved(tx, row.id)
    await removeDownloads(tx, [row])
    await record(tx, { actor, context, of: row, operation: 'remove' })
  })

/** Erasure of a person, in the worker: ends exports of events that others asked for and that have data of the person. */
export async function endExportsOfOthers(tx: Tx, userId: Uuid): Promise<number> {
  const ended = await endExportsWith(tx, userId)
  await removeDownloads(tx, ended)
  return ended.length
}

/**
 * Erasure of a person, in the worker: ends all of the person's exports at the commit. `deleteDownloadObjects` deletes
 * their files then; what a worker still writes goes when it is looked for again.
 */
export async function eraseExportsOf(tx: Tx, userId: Uuid): Promise<void> {
  await removeDownloads(tx, await deleteExportsOf(tx, userId))
}
