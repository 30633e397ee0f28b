import type { Tx } from '../../db/db.ts'
import { and, desc, eq, sql } from '../../db/orm.ts'
import { DATA_EXPORT_STATES, type DataExportRow, dataExportParts, dataExports } from '../../db/schema/data-exports.ts'

export const isState = (text: string): text is DataExportRow['state'] =>
  (DATA_EXPORT_STATES as readonly string[]).includes(text)

/** The latest first. */
export const listForAdministrators = (tx: Tx, o: { state: DataExportRow['state'] | undefined; limit: number }) => {
  const of = sql`from data_export_parts p where p.export_id = ${dataExports.id}`
  return tx
    .select({
      row: dataExports,
      parts: sql<number>`(select count(*)::int ${of})`,
      made: sql<number>`(select count(*)::int ${of} and p.state = 'made')`,
      partError: sql<string | null>`(select p.error ${of} and p.error is not null order by p.number limit 1)`,
    })
    .from(dataExports)
    .where(o.state === undefined ? undefined : eq(dataExports.state, o.state))
    .orderBy(desc(dataExports.createdAt), desc(dataExports.id))
    .limit(o.limit)
}

/** Lets a failed export go on where it stopped. False unless there is one, and its person has no other under way. */
export async function retryExport(tx: Tx, id: DataExportRow['id']): Promise<boolean> {
  const { rowCount } = await tx.execute(sql`
    update data_exports e set attempts = 0, error = null, next_attempt_at = now(), completed_at = null,
      state = case when e.planned then 'making' else 'planning' end || case when e.event_id is null then '' else '_event' end
    where e.id = ${id} and e.state = 'failed' and e.failure is null and not exists (select from data_exports other
      where other.user_id = e.user_id and other.event_id is not distinct from e.event_id
        and other.state in ('planning', 'making', 'planning_event', 'making_event'))`)
  await tx
    .update(dataExportParts)
    .set({ failures: 0, nextAttemptAt: sql`now()` })
    .where(and(eq(dataExportParts.exportId, id), eq(dataExportParts.state, 'waiting')))
  await tx.execute(sql`select pg_notify('data_exports', '')`)
  return rowCount === 1
}
