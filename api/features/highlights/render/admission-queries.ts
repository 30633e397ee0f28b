import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { and, eq, inArray, isNotNull, sql } from '../../../db/orm.ts'
import { highlightItems, highlights } from '../../../db/schema/highlights.ts'
import { media } from '../../../db/schema/media.ts'
import type { Line } from '../../../worker/runs/admission-queries.ts'
import { IMAGE_SECONDS } from '../plan.ts'
import { takenOn } from '../queries.ts'

const unfinished = sql`status = 'processing' and deleted_at is null`

/** The indexes highlights_admitted and highlights_waiting. */
export const RENDER_LINE: Line = {
  table: highlights,
  isAdmitted: sql`${unfinished} and render_admitted_at is not null`,
  isWaiting: sql`${unfinished} and render_admitted_at is null`,
}

/**
 * What conversions have found out since the creation of the highlights. Only here, so that every start of a render has the
 * same items, except for a HighlightRender that an earlier version made during an upgrade.
 */
export async function updateItems(tx: Tx, highlightIds: readonly Uuid[]): Promise<void> {
  await replaceBrokenMotion(tx, highlightIds)
  await addDates(tx, highlightIds)
}

/** A Live Photo whose video could not be converted is shown by its image. */
async function replaceBrokenMotion(tx: Tx, highlightIds: readonly Uuid[]): Promise<void> {
  await tx
    .update(highlightItems)
    .set({ type: 'image', sourceId: highlightItems.mediaId, seconds: IMAGE_SECONDS })
    .from(media)
    .where(
      and(
        inArray(highlightItems.highlightId, [...highlightIds]),
        eq(highlightItems.type, 'motion'),
        eq(media.id, highlightItems.sourceId),
        eq(media.uploadStatus, 'failed'),
      ),
    )
}

/** Of items whose conversion had not ended by then. */
async function addDates(tx: Tx, highlightIds: readonly Uuid[]): Promise<void> {
  const dated = tx
    .select({ id: highlights.id })
    .from(highlights)
    .where(and(inArray(highlights.id, [...highlightIds]), eq(highlights.captions, 'date')))
  await tx
    .update(highlightItems)
    .set({ caption: takenOn })
    .from(media)
    .where(
      and(
        inArray(highlightItems.highlightId, dated),
        eq(highlightItems.caption, ''),
        eq(media.id, highlightItems.mediaId),
        isNotNull(takenOn),
      ),
    )
}
