import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { albumMedia } from '../../db/schema/albums.ts'
import { erasureResources } from '../../db/schema/erasures.ts'
import { type HighlightError, highlightItems, highlights } from '../../db/schema/highlights.ts'
import { recordResources } from '../../personal/queries.ts'

interface Whose {
  erasureId: Uuid
  userId: Uuid
}

/** Who wrote the caption of an item `i` of a highlight `h`. Captions of before are taken for those of who added them. */
const writer = sql`coalesce(i.caption_by, (select coalesce(a.caption_by, a.added_by) from ${albumMedia} a
  where a.album_id = h.album_id and a.media_id = i.media_id))`

/** All highlights that the person made, is in, or has words in. */
export const recordHighlights = (tx: Tx, { erasureId, userId }: Whose): Promise<void> =>
  recordResources(
    tx,
    erasureId,
    'highlight',
    sql`select id, org_id from ${highlights} where created_by = ${userId}
      union select h.id, h.org_id from ${highlights} h join ${highlightItems} i on i.highlight_id = h.id
        where i.uploader_id = ${userId} or (i.caption <> '' and h.captions = 'caption' and ${writer} = ${userId})`,
  )

/** A title of which no one is the author. */
const TITLE = 'Highlight'

/**
 * Removes what the person wrote from a highlight: the title of one that they made, captions that they wrote. The files go
 * where these words can be read in the film, and those of a highlight that no one waits for any more. Locks one highlight.
 */
export async function eraseWords(tx: Tx, id: Uuid, userId: Uuid, error: HighlightError): Promise<void> {
  await tx.execute(sql`select from ${highlights} where id = ${id} for update`)
  const { rows } = await tx.execute<{ position: number }>(sql`
    select i.position from ${highlightItems} i join ${highlights} h on h.id = i.highlight_id
    where h.id = ${id} and i.caption <> '' and h.captions = 'caption' and ${writer} = ${userId}`)
  const positions = rows.map(({ position }) => position)
  await tx.execute(sql`update ${highlightItems} set caption = '', caption_by = null
    where highlight_id = ${id} and position = any(${sql.param(positions)}::integer[])`)
  const isTheirs = sql`created_by = ${userId}`
  await tx.execute(sql`
    update ${highlights} set title = ${TITLE}, version = version + 1, updated_at = now()
    where id = ${id} and ${isTheirs} and title <> ${TITLE}`)
  // Those without a title of theirs were withdrawn for another reason or stay.
  await tx.execute(sql`
    update ${highlights} set status = 'failed', render_state = 'failed', output_prefix = null, hls_master = null,
      webp_file = null, thumb_file = null, placeholder = null, manifest = null, duration_sec = null, render_progress = null,
      error = ${JSON.stringify(error)}::jsonb, finished_at = now(), version = version + 1, updated_at = now(),
      purge_at = now(), purge_lease_until = null, purge_looks = 0
    where id = ${id} and error ->> 'code' is distinct from ${error.code}
      and (${positions.length > 0} or (${isTheirs} and (show_title or status = 'processing')))`)
}

/** Highlights of the person whose files are still there. */
export async function countUnpurged(tx: Tx, erasureId: Uuid): Promise<number> {
  return tx.$count(
    highlights,
    sql`${highlights.purgeAt} is not null and ${highlights.purgeLooks} = 0 and ${highlights.id} in (
      select resource_id from ${erasureResources} where erasure_id = ${erasureId} and kind = 'highlight')`,
  )
}
