import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { eq, sql } from '../../db/orm.ts'
import { albumMedia, albums } from '../../db/schema/albums.ts'
import { lockItems } from './item-queries.ts'
import { type Place, type Placed, STEP } from './plan.ts'

/** In the order of the album, with the deleted ones. */
export async function listPlaces(tx: Tx, albumId: Uuid): Promise<Place[]> {
  const { mediaId, position, listed } = albumMedia
  // One text is read in a fraction of the time of five thousand rows.
  const [row] = await tx
    .select({
      places: sql<
        string | null
      >`string_agg(concat_ws(' ', ${mediaId}, ${position}, ${listed}), ',' order by ${position})`,
    })
    .from(albumMedia)
    .where(eq(albumMedia.albumId, albumId))
  return (row?.places?.split(',') ?? []).map((place) => {
    const [id = '', at, isListed] = place.split(' ')
    return { mediaId: id, position: Number(at), listed: isListed === 't' }
  })
}

/** Returns false and moves nothing when one of them has left the album: a purge or a pairing with an image removes it. */
export async function moveItems(tx: Tx, albumId: Uuid, moves: readonly Placed[]): Promise<boolean> {
  const ids = sql`${sql.param(moves.map(({ mediaId }) => mediaId))}::uuid[]`
  const positions = sql`${sql.param(moves.map(({ position }) => position))}::bigint[]`
  const locked = await lockItems(tx, albumId, sql`${albumMedia.mediaId} = any(${ids})`)
  if (locked.length < moves.length) return false
  await tx.execute(sql`
    update album_media i set position = move.position
      from unnest(${ids}, ${positions}) as move (media_id, position)
      where i.album_id = ${albumId} and i.media_id = move.media_id`)
  const last = Math.max(...moves.map(({ position }) => position))
  await tx
    .update(albums)
    .set({ nextPosition: sql`greatest(${albums.nextPosition}, ${last + STEP})` })
    .where(eq(albums.id, albumId))
  return true
}
