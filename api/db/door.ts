import { AsyncLocalStorage } from 'node:async_hooks'
import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import type pg from 'pg'
import * as schema from './schema/index.ts'

/** A transaction. Queries take it as first parameter and never open one themselves. */
export type Tx = Omit<NodePgDatabase<typeof schema>, 'transaction'>

/** Lets the queries of one transaction at a time through to their connection, and nobody else's. */
export interface Door {
  /** Open until `work` has settled. */
  whileOpen<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Open until `work` has returned its promise: only what it asks before it first awaits gets through. */
  untilReturn<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Whoever is inside asks nothing more. */
  close(): void
}

/** Which transaction the running code belongs to. */
const transaction = new AsyncLocalStorage<symbol>()

/** Made once per connection. */
export function makeDoor(client: pg.PoolClient): Door {
  let open: symbol | undefined
  const ask = client.query.bind(client) as (...given: unknown[]) => unknown
  // A query that somebody forgot to wait for would else run in the next transaction, in the scope of a stranger.
  const query = (...given: unknown[]) =>
    open !== undefined && transaction.getStore() === open
      ? ask(...given)
      : Promise.reject(new Error('the transaction of this query is over'))
  const tx: Tx = drizzle({ query } as unknown as pg.PoolClient, { schema, casing: 'snake_case' })

  function enter<T>(work: (tx: Tx) => Promise<T>): { result: Promise<T>; leave(): void } {
    const mine = Symbol('transaction')
    open = mine
    const leave = () => {
      if (open === mine) open = undefined
    }
    // `async` also for the queries that drizzle asks only when somebody waits for them: that is then still in here.
    return { result: transaction.run(mine, async () => work(tx)), leave }
  }

  return {
    async whileOpen(work) {
      const { result, leave } = enter(work)
      try {
        return await result
      } finally {
        leave()
      }
    },
    async untilReturn(work) {
      const { result, leave } = enter(work)
      leave()
      return result
    },
    close() {
      open = undefined
    },
  }
}
