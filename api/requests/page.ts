import type { Uuid } from '../../lib/contract/ids.ts'
import type { CursorPosition, CursorScope, Cursors } from './cursor.ts'

/** The `data` of a list, as `listOf` describes it. */
export type Listed<N extends string, V> = { [K in N]: V[] } & { next_cursor: string | null; has_more: boolean }

/** The rows of one page: those behind `after` in the order of the list, at most `limit`. */
export interface PageWanted {
  after: CursorPosition | undefined
  limit: number
}

/** Renders one page. `list` must sort by `at(row)`, by default `createdAt` with all its digits, then by `id`. */
export type Page = <N extends string, T extends { id: Uuid; createdAt: string }, V>(
  name: N,
  list: (wanted: PageWanted) => Promise<readonly T[]>,
  show: (row: T) => V,
  at?: (row: T) => string | number,
) => Promise<Listed<N, V>>

/** `query` is the parsed query of a list: `limit`, `cursor`, and its filters, which bind the cursor. */
export function pageOf(cursors: Cursors, scope: Omit<CursorScope, 'filters'>, query: unknown): Page {
  const { limit, cursor, ...filters } = query as { limit: number; cursor?: string } & Record<string, unknown>
  const bound = { ...scope, filters }
  return async (name, list, show, at = (row) => row.createdAt) => {
    const after = cursor === undefined ? undefined : cursors.decode(bound, cursor)
    // One extra row shows whether there is another page.
    const rows = await list({ after, limit: limit + 1 })
    const shown = rows.slice(0, limit)
    const last = rows.length > limit ? shown.at(-1) : undefined
    return {
      [name]: shown.map(show),
      next_cursor: last ? cursors.encode(bound, { at: at(last), id: last.id }) : null,
      has_more: last !== undefined,
    } as Listed<typeof name, ReturnType<typeof show>>
  }
}
