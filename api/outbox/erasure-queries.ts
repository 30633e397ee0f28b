import type { EventType } from '../../lib/contract/events.ts'
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

/** Announcements that name no one, whatever they tell of. Consumers need them: some lead to a notice for another person. */
export const NAMES_NO_ONE = ['MediaPurged', 'EventPurgeSoon'] as const satisfies readonly EventType[]

/** Events that name the person, or tell of something that was the person's. */
const isTheirs = ({ erasureId, userId }: Whose) =>
  sql`(payload::text like any(${sql.param(formsOf(userId).map((form) => `%${form}%`))}::text[])
    or aggregate_id in (select resource_id from ${erasureResources} where erasure_id = ${erasureId}))
    and type <> all(${sql.param(NAMES_NO_ONE)}::text[])`

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
