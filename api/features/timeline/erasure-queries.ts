import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Database } from '../../db/db.ts'
import { sql } from '../../db/orm.ts'
import { erasureResources } from '../../db/schema/erasures.ts'
import { timelineItems } from '../../db/schema/timeline.ts'
import { changeAll } from '../../personal/queries.ts'

/** What the person did, and what others did with what was the person's. Feeds change with it. */
export const eraseItems = (db: Database, { erasureId, userId }: { erasureId: Uuid; userId: Uuid }): Promise<number> =>
  changeAll(
    db,
    (limit) => sql`with gone as (delete from ${timelineItems} where ctid = any(array(select ctid from ${timelineItems}
        where actor_id = ${userId} or ref_id = ${userId} or (ref_type in ('media', 'comment', 'reaction') and ref_id in (
          select resource_id from ${erasureResources} where erasure_id = ${erasureId})) limit ${limit})) returning org_id),
      told as materialized (select bump_feed(org_id) from (select distinct org_id from gone order by org_id) changed)
    select from gone left join (select count(*) from told) counted on true`,
  )
