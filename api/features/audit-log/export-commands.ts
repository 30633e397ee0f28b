import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { downloadPrefix } from '../../../lib/contract/object-keys.ts'
import { insertAudit } from '../../audit/queries.ts'
import type { Tx } from '../../db/db.ts'
import type { ApiDeps } from '../../deps.ts'
import type { Actor } from '../../requests/actor.ts'
import type { Context } from '../../requests/context.ts'
import { found } from '../../requests/found.ts'
import { removeDownloads } from '../downloads/queries.ts'
import type { AuditExport, RequestAuditExport } from './entry.ts'
import { presentExport } from './export-present.ts'
import {
  deleteExportsOf,
  deleteFinishedExports,
  type ExportId,
  findExport,
  insertExport,
  restartExports,
} from './export-queries.ts'
import { entryFilterOf } from './filter.ts'
import { auditedFilter } from './present.ts'
import { findSealedUntil } from './read.ts'

type Deps = Pick<ApiDeps, 'db' | 'links' | 'clock'>

/** The worker makes the file. It has the entries up to now, or up to where the log is sealed. */
export async function requestExport(
  { db, links, clock }: Deps,
  { actor, context }: { actor: Actor; context: Context },
  { format, ...given }: RequestAuditExport,
): Promise<AuditExport> {
  const filter = entryFilterOf(given)
  const until = filter.includeUnsealed ? clock.now().toISOString() : await findSealedUntil(db)
  return db.inTransaction({ user: actor.userId }, async (tx) => {
    const row = await insertExport(tx, { id: newUuid(), userId: actor.userId, format, filters: { ...filter }, until })
    await insertAudit(tx, {
      orgId: null,
      actorId: actor.userId,
      action: 'ADMIN_ACTION',
      resourceType: 'export',
      resourceId: row.id,
      result: 'success',
      context,
      details: { operation: 'export audit log', format, ...auditedFilter(filter) },
    })
    const data = presentExport(row, { links, now: clock.now() })
    await context.remember(tx, 201, data)
    return data
  })
}

export const showExport = ({ db, links, clock }: Deps, { userId }: Actor, id: ExportId): Promise<AuditExport> =>
  db.read({ user: userId }, async (tx) =>
    presentExport(found(await findExport(tx, { id, userId })), { links, now: clock.now() }),
  )

/**
 * Erasure of a person, in the worker: ends all exports of the person at the commit; `deleteDownloadObjects` deletes their
 * files then.
 */
export async function eraseAuditExportsOf(tx: Tx, userId: Uuid): Promise<void> {
  await removeDownloads(tx, await deleteExportsOf(tx, userId))
}

/**
 * What exports of other administrators hold of an erased person in clear, such as addresses, is not known: of those that can
 * have entries of the person, the ones that are ready end, and the ones under way begin again. Returns what is in the store
 * of both, as prefixes.
 */
export async function renewAuditExports(
  tx: Tx,
  userId: Uuid,
): Promise<{ restarted: number; ended: number; prefixes: string[] }> {
  const unfinished = await restartExports(tx, userId)
  const ended = await deleteFinishedExports(tx, userId)
  await removeDownloads(tx, ended)
  // The folder of an attempt, never that of the export: the next attempt may have begun.
  const attempts = unfinished.map((key) => key.slice(0, key.lastIndexOf('/') + 1))
  const prefixes = [...attempts, ...ended.map(({ id, userId }) => downloadPrefix(userId, id))]
  return { restarted: unfinished.length, ended: ended.length, prefixes }
}
