import type { Uuid } from '../../lib/contract/ids.ts'
import type { Database, Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'
import { erasureResources } from '../db/schema/erasures.ts'
import { outbox } from '../db/schema/outbox.ts'
import { formsOf } from '../personal/forms.ts'
import { changeAll } from '../personal/queries.ts'

export interface Whose {
  erasureId: Uuid
  userId: Uuid
}

/** Events that name the person, or tell of something that was the person's. */
const isTheirs = ({ erasureId, userId }: Whose) =>
  sql`(payload::text like any(${sql.param(formsOf(userId).map((form) => `%${form}%`))}::text[])
    or aggregate_id in (select resource_id from ${erasureResources} where erasure_id = ${erasureId}))
    and type <> 'MediaPurged'`

/** Published ones, and those that no relay is about to publish. */
export const eraseEvents = (db: Database, whose: Whose): Promise<number> =>
  changeAll(
    db,
    (limit) => sql`delete from ${outbox} where ctid = any(array(select ctid from ${outbox}
      where ${isTheirs(whose)} and (published_at is not null or next_attempt_at <= now()) limit ${limit} for update))`,
  )

/** Whether a relay may be publishing one now. */
export async function isPublishing(tx: Tx, whose: Whose): Promise<boolean> {
  return (await tx.$count(outbox, isTheirs(whose))) > 0
}
