import { notFound } from '../../lib/contract/problem.ts'

/** The row, or 404: a missing row and a row that the caller may not see get the same response. */
export function found<T>(row: T | undefined): T {
  if (row !== undefined) return row
  throw notFound()
}
