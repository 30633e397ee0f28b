import type { Tx } from '../../db/db.ts'
import { and, asc, eq, isNull, or, type SQL, sql } from '../../db/orm.ts'
import { type MediaRow, media } from '../../db/schema/media.ts'
import { type Half, type Keyed, type Lookup, lockNamesOf } from './pairing-plan.ts'

/**
 * Makes uploads of two halves that commit at the same time queue: neither would see the other's row. Held until the end
 * of the transaction; call it before anything that locks the uploader's counters in `user_storage`, which each upload
 * takes after this.
 */
export async function lockPairing(tx: Tx, ...halves: Keyed[]): Promise<void> {
  const names = halves.flatMap(lockNamesOf)
  if (names.length === 0) return
  // In order of the numbers, so that two transactions with the same keys cannot wait for each other.
  await tx.execute(sql`
    select pg_advisory_xact_lock(number) from (
      select distinct hashtextextended(name, 0) as number
      from jsonb_array_elements_text(${JSON.stringify(names)}::jsonb) name order by number
    ) numbers`)
}

/** Returns the oldest match and locks it: a deletion that commits first leaves no counterpart, a later one sees the pair. */
export async function findUnpaired(tx: Tx, half: Half, lookup: Lookup): Promise<Half | undefined> {
  const [row] = await tx
    .select()
    .from(media)
    .where(
      and(
        eq(media.orgId, half.orgId),
        eq(media.uploaderId, half.uploaderId),
        eq(media.kind, half.kind === 'image' ? 'video' : 'image'),
        isNull(media.pairedMediaId),
        isNull(media.deletedAt),
        keyOf(lookup),
      ),
    )
    .orderBy(asc(media.createdAt), asc(media.id))
    .limit(1)
    .for('update')
  return row
}

function keyOf(lookup: Lookup): SQL | undefined {
  if (lookup.by === 'pair') return eq(media.livePhotoPairId, lookup.pairId)
  const { asset, unlessPairId } = lookup
  const noOther =
    unlessPairId === null ? undefined : or(isNull(media.livePhotoPairId), eq(media.livePhotoPairId, unlessPairId))
  return and(eq(media.assetIdentifier, asset), noOther)
}

/** Leaves `updated_at` alone: the deadlines of a running conversion count from it. */
export async function link(tx: Tx, half: Pick<Half, 'id'>, to: Pick<Half, 'id'>): Promise<MediaRow> {
  const [row] = await tx
    .update(media)
    .set({ pairedMediaId: to.id, version: sql`${media.version} + 1` })
    .where(eq(media.id, half.id))
    .returning()
  if (!row) throw new Error('a half of a Live Photo is gone while it is locked')
  return row
}
