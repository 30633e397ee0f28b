import { type AnyColumn, sql } from './orm.ts'

/**
 * Text with all six digits: a JavaScript Date has only milliseconds, and a cursor truncated to them would repeat or skip
 * rows of the same millisecond.
 */
export const microseconds = (at: AnyColumn) =>
  sql<string>`to_char(${at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

/** The rows behind a cursor in a list sorted by `by`, then by `id`, both descending. Fill the placeholders `at` and `id`. */
export const afterCursor = (by: AnyColumn, id: AnyColumn) =>
  sql`(${by}, ${id}) < (${sql.placeholder('at')}::timestamptz, ${sql.placeholder('id')}::uuid)`
