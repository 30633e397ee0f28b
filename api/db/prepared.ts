import type { Tx } from './db.ts'
import { type Field, rowMapper } from './row-mapper.ts'

interface Query<Rows> {
  execute(values: Record<string, unknown>): Promise<Rows>
}

const known = new WeakMap<Tx, Map<string, unknown>>()

/**
 * Runs a query that is built, parsed and planned once per connection: for the few queries of almost every request. `name`
 * must be unique in the program; values that differ between calls are placeholders, never part of the text. The query
 * leaves before this returns.
 */
export function prepared<Rows>(
  tx: Tx,
  name: string,
  values: Record<string, unknown>,
  build: () => { prepare(name: string): Query<Rows> },
): Promise<Rows> {
  let queries = known.get(tx)
  if (!queries) {
    queries = new Map()
    known.set(tx, queries)
  }
  const query = (queries.get(name) as Query<Rows> | undefined) ?? quick(build().prepare(name))
  queries.set(name, query)
  return query.execute(values)
}

/** What drizzle 0.45 has in a prepared query, and not in its types. */
interface Inside {
  fields?: readonly Field[]
  customResultMapper?: unknown
}

/** A query whose rows drizzle would map gets a faster mapper where there is one; any other stays as it is. */
function quick<Rows>(query: Query<Rows>): Query<Rows> {
  const inside = query as Inside
  if (inside.fields !== undefined && inside.customResultMapper === undefined) {
    inside.customResultMapper = rowMapper(inside.fields)
  }
  return query
}
