import { AsyncLocalStorage } from 'node:async_hooks'
import type pg from 'pg'
import { drizzle, type NodePgDatabase } from './orm.ts'
import * as schema from './schema/index.ts'

/** A transaction. Queries take it as first parameter and never open one themselves. */
export type Tx = Omit<NodePgDatabase<typeof schema>, 'transaction'>

/** Guards a pooled connection: lets the queries of its current transaction through and refuses all others. */
export interface TransactionGate {
  /** Stays open until `work` settles. */
  whileOpen<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Stays open until `work` returns its promise: queries after its first `await` are refused. */
  untilReturn<T>(work: (tx: Tx) => Promise<T>): Promise<T>
  /** Refuses all further queries of the current transaction. */
  close(): void
}

/** The transaction that the running code belongs to. */
const transaction = new AsyncLocalStorage<symbol>()

/** Call once per connection. */
export function makeTransactionGate(client: pg.PoolClient): TransactionGate {
  let open: symbol | undefined
  const send = client.query.bind(client) as (...given: unknown[]) => unknown
  // Without the gate, a query that the caller forgot to await would run in the next transaction on this connection,
  // in another tenant's scope.
  const query = (...given: unknown[]) =>
    open !== undefined && transaction.getStore() === open
      ? send(...given)
      : Promise.reject(new Error('the transaction of this query is over'))
  const tx: Tx = drizzle({ query } as unknown as pg.PoolClient, { schema, casing: 'snake_case' })

  function enter<T>(work: (tx: Tx) => Promise<T>): { result: Promise<T>; leave(): void } {
    const mine = Symbol('transaction')
    open = mine
    const leave = () => {
      if (open === mine) open = undefined
    }
    // drizzle sends a query only when it is awaited; `async` keeps that await inside the transaction's context.
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
