import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, asc, eq, isNull, sql } from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import { type MusicTrackRow, musicTracks } from '../../db/schema/highlights.ts'

/** By title; with `retired` also those that no new highlight can use. */
export function listTracks(tx: Tx, o: { retired: boolean } = { retired: false }): Promise<MusicTrackRow[]> {
  return prepared(tx, `list_tracks_${o.retired ? 'all' : 'offered'}`, {}, () =>
    tx
      .select()
      .from(musicTracks)
      .where(o.retired ? undefined : isNull(musicTracks.retiredAt))
      .orderBy(asc(musicTracks.title), asc(musicTracks.id)),
  )
}

export async function insertTrack(tx: Tx, row: Omit<MusicTrackRow, 'createdAt' | 'retiredAt'>): Promise<MusicTrackRow> {
  const [made] = await tx.insert(musicTracks).values(row).returning()
  if (!made) throw new Error('a music track was not inserted')
  return made
}

/** Undefined for a track that is unknown or retired. */
export async function markRetired(tx: Tx, id: Uuid): Promise<MusicTrackRow | undefined> {
  const [row] = await tx
    .update(musicTracks)
    .set({ retiredAt: sql`now()` })
    .where(and(eq(musicTracks.id, id), isNull(musicTracks.retiredAt)))
    .returning()
  return row
}

export async function findTrack(tx: Tx, id: Uuid): Promise<MusicTrackRow | undefined> {
  const [row] = await tx.select().from(musicTracks).where(eq(musicTracks.id, id))
  return row
}

/** What delivery needs to know about a track before it sends the file. Undefined for a retired one. */
export async function findDeliveredTrack(tx: Tx, id: Uuid) {
  const [row] = await prepared(tx, 'find_delivered_track', { id }, () =>
    tx
      .select({ mimeType: musicTracks.mimeType })
      .from(musicTracks)
      .where(and(eq(musicTracks.id, sql.placeholder('id')), isNull(musicTracks.retiredAt))),
  )
  return row
}
