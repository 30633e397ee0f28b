import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { Database, Tx } from '../../../db/db.ts'
import type { HighlightError } from '../../../db/schema/highlights.ts'
import { appendEvent } from '../../../outbox/queries.ts'
import { findRendered, withdrawHighlightsOf } from './queries.ts'

export async function announceRender(tx: Tx, id: Uuid): Promise<void> {
  const row = await findRendered(tx, id)
  await appendEvent(tx, {
    orgId: row.orgId,
    aggregateId: row.id,
    aggregateVersion: row.version,
    type: 'HighlightGenerated',
    payload: {
      highlight_id: row.id,
      media_ids: row.mediaIds,
      hls_master_url: `${row.outputPrefix}${row.hlsMaster}`,
    },
    traceparent: null,
  })
}

export const ERASED: HighlightError = {
  code: 'SOURCE_ERASED',
  message: 'The highlight showed media items or words of a user who has been erased',
  mediaId: null,
}
const ERASED_AT_ONCE = 100

/**
 * Withdraws all highlights, finished or not, that show media items of a user who is erased: frames are personal data. The
 * worker stops the renders and removes the files. Each batch is a transaction, so an interrupted call can be repeated.
 * Returns how many highlights it has withdrawn.
 */
export async function eraseHighlightsOf(db: Database, userId: Uuid): Promise<number> {
  let erased = 0
  for (let after: Uuid | undefined; ; ) {
    const batch = { userId, error: ERASED, after, limit: ERASED_AT_ONCE }
    const { last, withdrawn } = await db.inTransaction({}, (tx) => withdrawHighlightsOf(tx, batch))
    erased += withdrawn
    if (last === undefined) return erased
    after = last
  }
}
