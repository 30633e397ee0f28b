import type { TestDatabase } from './database.ts'
import { eventually } from './eventually.ts'

interface Statement {
  text: string
  values: unknown[]
}

/** How many transactions of this database wait for a lock. */
export async function waitingIn({ admin }: Pick<TestDatabase, 'admin'>): Promise<number> {
  const { rows } = await admin.query(
    `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows[0].n
}

/** Sends the requests one after another while `lock` holds rows that they need, so that they get them in this order. */
export async function inTurn<T>(
  database: Pick<TestDatabase, 'admin'>,
  lock: Statement,
  ...requests: (() => Promise<T>)[]
): Promise<T[]> {
  const holder = await database.admin.connect()
  try {
    await holder.query('begin')
    await holder.query(lock)
    const answers: Promise<T>[] = []
    for (const request of requests) {
      answers.push(request())
      await eventually('it to wait', async () => (await waitingIn(database)) === answers.length)
    }
    await holder.query('commit')
    return await Promise.all(answers)
  } finally {
    await holder.query('rollback')
    holder.release()
  }
}

/**
 * Whether `request` waits for the first of two rows without holding the second: then a transaction that locks both in
 * this order, as all do, ends before it, and neither waits for the other in turn.
 */
export async function locksInOrder(
  database: Pick<TestDatabase, 'admin'>,
  table: string,
  [first, second]: readonly [string, string],
  request: () => Promise<unknown>,
): Promise<boolean> {
  const holder = await database.admin.connect()
  const lock = (id: string) => holder.query(`select from ${table} where id = $1 for share nowait`, [id])
  try {
    await holder.query('begin')
    await lock(first)
    const answer = request()
    await eventually('it to wait', async () => (await waitingIn(database)) > 0)
    const isFree = await lock(second).then(
      () => true,
      () => false,
    )
    await holder.query('rollback')
    await answer
    return isFree
  } finally {
    await holder.query('rollback')
    holder.release()
  }
}
