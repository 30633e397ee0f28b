import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { parkedEvents } from '../../db/schema/consumers.ts'
import { erasureResources } from '../../db/schema/erasures.ts'
import { NAMES_NO_ONE } from '../../outbox/erasure-queries.ts'
import { formsOf } from '../../personal/forms.ts'
import { change } from '../../personal/queries.ts'

/**
 * Events of the person that a consumer could not handle. Those that name no one stay, as in the outbox: a purge waits for one
 * that is to tell another person.
 */
export const eraseParked = (tx: Tx, { erasureId, userId }: { erasureId: Uuid; userId: Uuid }): Promise<number> =>
  change(
    tx,
    sql`delete from ${parkedEvents} where (event::text like any(${sql.param(formsOf(userId).map((form) => `%${form}%`))}::text[])
      or aggregate_id in (select resource_id from ${erasureResources} where erasure_id = ${erasureId}))
      and (event->>'type' <> all(${sql.param(NAMES_NO_ONE)}::text[])) is not false`,
  )
