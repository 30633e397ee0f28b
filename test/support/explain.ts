import type { Scope, Tx } from '../../api/db/db.ts'
import { drizzle } from '../../api/db/orm.ts'
import * as schema from '../../api/db/schema/index.ts'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { TestDatabase } from './database.ts'
import { eventually } from './eventually.ts'

export interface Plan {
  'Node Type': string
  'Index Name'?: string
  'Relation Name'?: string
  Alias?: string
  'Actual Rows': number
  'Actual Loops': number
  Filter?: string
  'Rows Removed by Filter'?: number
  'Heap Fetches'?: number
  Plans?: Plan[]
}
const nodesOf = (plan: Plan, without?: string): Plan[] =>
  without !== undefined && plan.Alias === without
    ? []
    : [plan, ...(plan.Plans ?? []).flatMap((child) => nodesOf(child, without))]

/**
 * The plan that Postgres keeps for the one query that `ask` sends, once it is prepared, as the role of the API or another
 * one, in the scope of an organization or another one. Leaves out what is below the node with the alias `without`.
 */
export async function planOf(
  { admin }: Pick<TestDatabase, 'admin'>,
  scope: Uuid | Scope,
  ask: (tx: Tx) => Promise<unknown>,
  without?: string,
  role = 'keepsake_api',
): Promise<Plan[]> {
  const seen: { sql: string; params: unknown[] }[] = []
  const logger = { logQuery: (sql: string, params: unknown[]) => void seen.push({ sql, params }) }
  await ask(drizzle(admin, { schema, casing: 'snake_case', logger }))
  const [query] = seen
  if (!query || seen.length > 1) throw new Error('it is not one query')
  const client = await admin.connect()
  try {
    await client.query(`begin; set local role ${role}; set local plan_cache_mode = force_generic_plan`)
    const { org, user } = (typeof scope === 'string' ? { org: scope } : scope) as Scope
    if (org) await client.query(`select set_config('app.org', $1, true)`, [org])
    if (user) await client.query(`select set_config('app.user', $1, true)`, [user])
    await client.query(`prepare page as ${query.sql}`)
    const asText = (value: unknown) => (Array.isArray(value) ? `{${value.join()}}` : String(value))
    const literal = (value: unknown) => (value === null ? 'null' : client.escapeLiteral(asText(value)))
    const given = query.params.map(literal).join()
    const { rows } = await client.query(`explain (analyze, format json) execute page ${given && `(${given})`}`)
    return nodesOf(rows[0]['QUERY PLAN'][0].Plan, without)
  } finally {
    await client.query('rollback; deallocate page')
    client.release()
  }
}

/**
 * Makes Postgres plan `in (select …)` in this transaction as other statistics might: as a join that runs the subquery
 * for each row, unless it is a common table expression.
 */
export async function subqueriesPerRow(tx: Tx): Promise<void> {
  for (const way of ['sort', 'hashagg', 'hashjoin', 'material']) await tx.execute(`set local enable_${way} = off`)
}

/**
 * Inserts thousands of rows that fit together: Postgres looks up no foreign key and fires no trigger for them, which
 * would be most of the CPU of a test that only wants a large table.
 */
export async function insertMany({ admin }: Pick<TestDatabase, 'admin'>, text: string, values: unknown[] = []) {
  const client = await admin.connect()
  try {
    await client.query('begin; set local session_replication_role = replica')
    await client.query(text, values)
    await client.query('commit')
  } finally {
    client.release()
  }
}

/**
 * Makes the statistics of these tables, and marks their pages as visible to all, without which no plan reads an index
 * alone. A vacuum marks none that an earlier snapshot may still need, such as that of an automatic `analyze`.
 */
export async function vacuum({ admin }: Pick<TestDatabase, 'admin'>, ...tables: string[]): Promise<void> {
  await eventually('the end of earlier snapshots', async () => {
    // Otherwise a vacuum leaves the page of a few dead rows as it is.
    await admin.query(`vacuum (analyze, index_cleanup on) ${tables.join()}`)
    const { rows } = await admin.query(
      'select from pg_class where relname = any($1) and relallvisible < relpages limit 1',
      [tables],
    )
    return rows.length === 0
  })
}
