import type { Id, Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, asc, eq, gt, inArray, lte, sql } from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import { type DownloadRow, downloads, removedDownloads } from '../../db/schema/downloads.ts'

export type { DownloadKind, DownloadRow } from '../../db/schema/downloads.ts'
/** Where the files of ended downloads are. */
export const REMOVED_LOOKS = { table: removedDownloads, id: removedDownloads.id }

export type DownloadKey = Pick<DownloadRow, 'id' | 'userId'>

export async function insertDownload(tx: Tx, row: Omit<DownloadRow, 'createdAt'>): Promise<void> {
  await tx.insert(downloads).values(row)
}

/** Undefined for a download that has ended or expired. */
export async function findDownload(tx: Tx, id: Id<'export'>): Promise<DownloadRow | undefined> {
  const [row] = await prepared(tx, 'find_download', { id }, () =>
    tx
      .select()
      .from(downloads)
      .where(and(eq(downloads.id, sql.placeholder('id')), gt(downloads.expiresAt, sql`now()`))),
  )
  return row
}

/** Ends them, those that are not ready too, and has their prefixes emptied. Links stop working at the commit. */
export async function removeDownloads(tx: Tx, keys: readonly DownloadKey[]): Promise<void> {
  if (keys.length === 0) return
  const ids = keys.map(({ id }) => id)
  await tx.delete(downloads).where(inArray(downloads.id, ids))
  await tx
    .insert(removedDownloads)
    .values(keys.map(({ id, userId }) => ({ id, userId })))
    .onConflictDoUpdate({ target: removedDownloads.id, set: { looks: 0, nextLookAt: sql`now()` } })
  await tx.execute(sql`select pg_notify('downloads', '')`)
}

export const listDownloadsOf = (tx: Tx, userId: Uuid): Promise<DownloadKey[]> =>
  tx.select({ id: downloads.id, userId: downloads.userId }).from(downloads).where(eq(downloads.userId, userId))

/** Locks downloads that have expired, the longest first. */
export const lockExpired = (tx: Tx, limit: number): Promise<DownloadKey[]> =>
  tx
    .select({ id: downloads.id, userId: downloads.userId })
    .from(downloads)
    .where(lte(downloads.expiresAt, sql`now()`))
    .orderBy(asc(downloads.expiresAt))
    .limit(limit)
    .for('update', { skipLocked: true })
