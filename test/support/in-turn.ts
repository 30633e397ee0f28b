import type { Answer, TestApi } from './api.ts'
import { eventually } from './eventually.ts'

/** How many sessions wait for a lock. */
export async function waiting({ database }: Pick<TestApi, 'database'>): Promise<number> {
  const { rows } = await database.admin.query(
    `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows[0].n
}

/** Runs the statement in a transaction that stays open while `work` runs. */
export async function whileHeld<T>(
  { database }: Pick<TestApi, 'database'>,
  statement: { text: string; values: unknown[] },
  work: (commit: () => Promise<unknown>) => Promise<T>,
): Promise<T> {
  const holder = await database.admin.connect()
  try {
    await holder.query('begin')
    await holder.query(statement)
    return await work(() => holder.query('commit'))
  } finally {
    await holder.query('rollback')
    holder.release()
  }
}

/** Sends the requests one after another while the row is locked, so that they get it in this order. */
export const inTurn = <T = Answer>(
  api: Pick<TestApi, 'database'>,
  row: { table: 'events' | 'comments'; id: string },
  ...requests: (() => Promise<T>)[]
): Promise<T[]> =>
  whileHeld(api, { text: `select from ${row.table} where id = $1 for update`, values: [row.id] }, async (commit) => {
    const answers: Promise<T>[] = []
    for (const request of requests) {
      answers.push(request())
      await eventually('it to wait', async () => (await waiting(api)) === answers.length)
    }
    await commit()
    return Promise.all(answers)
  })
