import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
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

/** In no organization: it is the person's alone. */
const record = (tx: Tx, o: { actor: Actor; context: Context; id: ExportId; operation: 'request' | 'remove' }) =>
  insertAudit(tx, {
    orgId: null,
    actorId: o.actor.userId,
    action: 'DATA_EXPORT',
    resourceId: o.id,
    result: 'success',
    context: o.context,
    details: { operation: o.operation },
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
    const running = await findRunning(tx, userId)
    const status = running ? 200 : 202
    const row = running ?? (await startExport(tx, userId))
    if (!running) await record(tx, { actor, context, id: row.id, operation: 'request' })
    const [data] = await present(deps, tx, [row])
    await context.remember(tx, status, data)
    return { status, data: found(data) }
  })
}

async function startExport(tx: Tx, userId: Uuid): Promise<DataExportRow> {
  const retryAfter = await secondsToNext(tx, userId, { most: MAX_A_DAY, days: 1 })
  if (retryAfter > 0) {
    throw new Problem('RATE_LIMITED', `Your data can be exported ${MAX_A_DAY} times within 24 hours`, { retryAfter })
  }
  return insertExport(tx, { id: newUuid(), userId })
}

export const showExports = ({ db, ...deps }: Deps, { userId }: Actor): Promise<{ exports: DataExport[] }> =>
  db.read({ user: userId }, async (tx) => ({
    exports: await present(deps, tx, await listExports(tx, userId, MAX_SHOWN)),
  }))

export const showExport = ({ db, ...deps }: Deps, { userId }: Actor, id: ExportId): Promise<DataExport> =>
  db.read({ user: userId }, async (tx) => {
    const row = found(await findExport(tx, { id, userId }))
    const [data] = await present(deps, tx, [row])
    return found(data)
  })

async function present(
  { links, clock }: Omit<Deps, 'db'>,
  tx: Tx,
  rows: readonly DataExportRow[],
): Promise<DataExport[]> {
  const parts = await listParts(
    tx,
    rows.map(({ id }) => id),
  )
  const at = { links, now: clock.now() }
  return rows.map((row) =>
    presentExport(
      row,
      parts.filter(({ exportId }) => exportId === row.id),
      at,
    ),
  )
}

/** Ends an export, whether it is under way or can be downloaded. Its links stop working at once. */
export const removeExport = ({ db }: Deps, actor: Actor, context: Context, id: ExportId): Promise<void> =>
  db.inTransaction({ user: actor.userId }, async (tx) => {
    const row = found(await findExport(tx, { id, userId: actor.userId, lock: true }))
    await markRemoved(tx, row.id)
    await removeDownloads(tx, [row])
    await record(tx, { actor, context, id: row.id, operation: 'remove' })
  })

/**
 * Erasure of a person, in the worker: ends all of the person's exports at the commit. `deleteDownloadObjects` deletes
 * their files then; what a worker still writes goes when it is looked for again.
 */
export async function eraseExportsOf(tx: Tx, userId: Uuid): Promise<void> {
  await removeDownloads(tx, await deleteExportsOf(tx, userId))
}
