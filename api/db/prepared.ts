import type { Tx } from './db.ts'

const known = new WeakMap<Tx, Map<string, unknown>>()

/**
 * A query that is built once per connection, and parsed and planned there once: for the few that almost every request
 * asks. `name` must be unique in the program; what differs between calls is a placeholder, never part of the text.
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
