import type pg from 'pg'
import type { TestDatabase } from './database.ts'

/** Runs the statement in a transaction of `holder`, which stays open until `work` commits it. */
export async function whileHeld<T>(
  { admin }: Pick<TestDatabase, 'admin'>,
  statement: { text: string; values: unknown[] },
  work: (holder: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const holder = await admin.connect()
  try {
    await holder.query('begin')
    await holder.query(statement)
    return await work(holder)
  } finally {
    await holder.query('rollback')
    holder.release()
  }
}
