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
