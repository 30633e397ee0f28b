import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import type pg from 'pg'
import * as schema from './schema.ts'

/** A transaction. Queries take it as first parameter and never open one themselves. */
export type Tx = Omit<NodePgDatabase<typeof schema>, 'transaction'>

/** Lets the queries of a transaction through to their connection. */
export interface Door {
  /** Open until `work` has settled. */
  whileOpen<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Open until `work` has returned its promise: only what it asks before it first awaits gets through. */
  untilReturn<T>(work: (tx: Tx) => Promise<T>): Promise<T>
}

/** Made once per connection. */
export function makeDoor(client: pg.PoolClient): Door {
  let open = false
  const ask = client.query.bind(client) as (...given: unknown[]) => unknown
  // A query that somebody forgot to wait for would else run in the next transaction, in the scope of a stranger.
  const query = (...given: unknown[]) =>
    open ? ask(...given) : Promise.reject(new Error('the transaction of this query is over'))
  const tx: Tx = drizzle({ query } as unknown as pg.PoolClient, { schema, casing: 'snake_case' })

  return {
    async whileOpen(work) {
      open = true
      try {
        return await work(tx)
      } finally {
        open = false
      }
    },
    async untilReturn<T>(work: (tx: Tx) => Promise<T>) {
      let asked: Promise<T>
      open = true
      try {
        asked = work(tx)
      } finally {
        open = false
      }
      return asked
    },
  }
}
