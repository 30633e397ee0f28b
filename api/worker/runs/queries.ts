import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { and, asc, eq, getTableColumns, gt, inArray, isNull, type SQL, sql } from '../../db/orm.ts'
import type { RunKey, RunKind, RunRow, RunTable, RunTypes, TableOfKind } from './kind.ts'
import type { Run, RunSeen } from './progress-plan.ts'

/** The result of a run. */
export interface RunResult<Manifest> {
  prefix: string
  manifest: Manifest
}

type Table = Omit<RunTable<never>, 'made'>

const seen = ({ columns: c, more }: Table) => ({
  id: c.id,
  orgId: c.orgId,
  generation: c.generation,
  status: c.status,
  outputPrefix: c.outputPrefix,
  state: c.state,
  attempts: c.attempts,
  startedAt: c.startedAt,
  progress: c.progress,
  admittedAt: c.admittedAt,
  updatedAt: c.updatedAt,
  ...more,
})

/** Undefined for a deleted row: the result of its run does not matter any more. */
export async function findRun<K extends RunTypes>(
  tx: Tx,
  { table }: RunKind<K>,
  id: Uuid,
): Promise<K['row'] | undefined> {
  const { columns } = table
  const [row] = await tx
    .select(seen(table))
    .from(table.table)
    .where(and(eq(columns.id, id), isNull(columns.deletedAt)))
  return row as K['row'] | undefined
}

const isUnfinished = ({ columns }: Table) => and(eq(columns.status, 'processing'), isNull(columns.deletedAt))

const isThis = (table: Table, key: RunKey) =>
  and(eq(table.columns.id, key.id), eq(table.columns.generation, key.generation), isUnfinished(table))

/** Rows that may have a resource and have not changed for a while, in order of id. */
export async function listUnfinished<K extends RunTypes>(
  tx: Tx,
  { table }: RunKind<K>,
  o: { idleSeconds: number; after: Uuid | undefined; limit: number; only?: Uuid },
): Promise<K['row'][]> {
  const { columns } = table
  const rows = await tx
    .select(seen(table))
    .from(table.table)
    .where(
      and(
        isUnfinished(table),
        table.mayHaveResource,
        sql`${columns.updatedAt} <= now() - make_interval(secs => ${o.idleSeconds})`,
        o.after === undefined ? undefined : gt(columns.id, o.after),
        o.only === undefined ? undefined : eq(columns.id, o.only),
      ),
    )
    .orderBy(asc(columns.id))
    .limit(o.limit)
  return rows as K['row'][]
}

/** The row of a run that is not over, locked, because what may be written depends on it. */
export async function lockRun(tx: Tx, { table }: TableOfKind, key: RunKey): Promise<RunRow | undefined> {
  const [row] = await tx.select(seen(table)).from(table.table).where(isThis(table, key)).for('update')
  return row as RunRow | undefined
}

type Values = { [C in keyof Table['columns']]?: unknown }

/** Sets columns by the names that all kinds share, and `more` by those of the table. Returns whether it changed a row. */
async function update(
  tx: Tx,
  { table, columns }: Table,
  where: SQL | undefined,
  values: Values,
  more: object = {},
): Promise<boolean> {
  const nameOf = new Map(Object.entries(getTableColumns(table)).map(([name, column]) => [column, name]))
  const named = Object.entries(values).map(([name, value]) => [nameOf.get(columns[name as keyof Values]), value])
  const { rowCount } = await tx
    .update(table)
    .set({ ...Object.fromEntries(named), ...more })
    .where(where)
  return (rowCount ?? 0) > 0
}

const changed = ({ columns }: Table) => ({ version: sql`${columns.version} + 1`, updatedAt: sql`now()` })

/** `updatedAt` moves too: the sweep leaves a row that was admitted just now to the worker that starts it. */
export async function admitRuns(tx: Tx, { table }: TableOfKind, ids: readonly Uuid[]): Promise<void> {
  await update(tx, table, inArray(table.columns.id, [...ids]), { admittedAt: sql`now()`, updatedAt: sql`now()` })
}

/** Call it with the row locked. */
export async function updateProgress(tx: Tx, { table }: TableOfKind, key: RunKey, move: RunSeen): Promise<void> {
  const { columns } = table
  await update(tx, table, eq(columns.id, key.id), {
    state: move.state,
    attempts: move.attempts,
    startedAt: move.startedAt,
    progress: move.progress,
    ...changed(table),
    // A run has a slot, even if an earlier version of the worker gave it none.
    admittedAt: sql`coalesce(${columns.admittedAt}, now())`,
  })
}

/** Returns false when the row has output already or the run is over. */
export function updatePlayable(
  tx: Tx,
  { table }: TableOfKind,
  key: RunKey,
  found: { prefix: string; hlsMaster: string },
): Promise<boolean> {
  // The output of an earlier generation is complete, and stays until this one is.
  const where = and(isThis(table, key), isNull(table.columns.outputPrefix))
  return update(tx, table, where, { outputPrefix: found.prefix, hlsMaster: found.hlsMaster, ...changed(table) })
}

/** A short run may end before any worker has seen it running. */
const ended = (table: Table, run: Run | undefined): Values => ({
  ...changed(table),
  finishedAt: sql`now()`,
  progress: null,
  ...(run && {
    attempts: sql`greatest(${table.columns.attempts}, ${run.attempts}::int)`,
    startedAt: sql`coalesce(${run.startedAt}::timestamptz, ${table.columns.startedAt})`,
  }),
})

/** Returns false when the run was over already. Without `result` there was nothing to make. */
export function updateCompleted<K extends RunTypes>(
  tx: Tx,
  { table }: RunKind<K>,
  key: RunKey,
  result: RunResult<K['manifest']> | null,
  run: Run | undefined,
): Promise<boolean> {
  return update(
    tx,
    table,
    isThis(table, key),
    {
      ...ended(table, run),
      status: 'completed',
      state: 'succeeded',
      error: null,
      ...(result && { outputPrefix: result.prefix }),
    },
    result ? { manifest: result.manifest, ...table.made(result.manifest) } : {},
  )
}

/** Returns false when the run was over already. */
export function updateFailed(
  tx: Tx,
  { table }: TableOfKind,
  key: RunKey,
  error: unknown,
  run: Run | undefined,
): Promise<boolean> {
  const values = { ...ended(table, run), status: 'failed', state: 'failed', error }
  return update(tx, table, isThis(table, key), values, table.failed)
}
