import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Tx } from '../../../db/db.ts'
import { and, eq, inArray, sql } from '../../../db/orm.ts'
import { highlightItems, highlights } from '../../../db/schema/highlights.ts'
import { media } from '../../../db/schema/media.ts'
import type { Line } from '../../../worker/runs/admission-queries.ts'
import { IMAGE_SECONDS } from '../plan.ts'

const unfinished = sql`status = 'processing' and deleted_at is null`

/** The indexes highlights_admitted and highlights_waiting. */
export const RENDER_LINE: Line = {
  table: highlights,
  isAdmitted: sql`${unfinished} and render_admitted_at is not null`,
  isWaiting: sql`${unfinished} and render_admitted_at is null`,
}

/**
 * A Live Photo whose video could not be converted since the creation of the highlight is shown by its image. Only here, so
 * that every start of the render has the same items, except for a HighlightRender that an earlier version made during an
 * upgrade.
 */
export async function replaceBrokenMotion(tx: Tx, highlightIds: readonly Uuid[]): Promise<void> {
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
