import type { Tx } from './db.ts'

const known = new WeakMap<Tx, Map<string, unknown>>()

/**
 * A query that is built, parsed and planned once per connection: for the few queries of almost every request. `name`
 * must be unique in the program; values that differ between calls are placeholders, never part of the text.
 */
export function prepared<Q>(tx: Tx, name: string, build: (name: string) => Q): Q {
  let queries = known.get(tx)
  if (!queries) {
    queries = new Map()
    known.set(tx, queries)
  }
  const query = queries.get(name) ?? build(name)
  queries.set(name, query)
  return query as Q
}
