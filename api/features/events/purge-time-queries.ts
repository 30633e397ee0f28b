import { type SQL, sql } from '../../db/orm.ts'
import { purgeAfter } from '../../retention/policies-queries.ts'

/**
 * When the event of the row is purged: by the policy in force, or later where its organization keeps events for longer. Null
 * where no policy purges events, or the event is not archived. `event` is what stands before the dot of its columns.
 */
export const purgeTime = (event: SQL): SQL<Date | null> => {
  const byPolicy = sql`${event}.archived_at + ${purgeAfter('EventArchive', null)}`
  return sql<Date | null>`(case when ${byPolicy} is not null
    then greatest(${byPolicy}, ${event}.archived_at + event_retention_of(${event}.org_id)) end)`
}

/** The same as people see it: not before the time that the last notice named. */
export const shownPurgeTime = (event: SQL): SQL<Date | null> =>
  sql<Date | null>`(case when ${purgeTime(event)} is null then null when ${event}.purge_notice = 2
    then greatest(${purgeTime(event)}, ${event}.purge_notice_for) else ${purgeTime(event)} end)`
