import { notFound } from '../../lib/contract/problem.ts'

/**
 * The row, or 404: a missing row and a row that the caller may not see get the same response. `field` is what names the
 * row in a body.
 */
export function found<T>(row: T | undefined, field?: string): T {
  if (row !== undefined) return row
  throw notFound(field)
}
