import type { RetentionTarget as TargetName } from '../../crds/retention-rules.ts'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { RetentionRun } from '../../lib/contract/retention.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Database, Tx } from '../db/db.ts'
import type { SQL } from '../db/orm.ts'
import type { LeasedTable } from './leases-queries.ts'

/** What a policy asks of a target, at one moment: the same for all processes of a run, however long it takes. */
export interface Due {
  /** `app_now()` when the run began, as Postgres prints it. Compute with its calendar, in SQL. */
  at: string
  rules: RetentionRun['rules']
}

/** A run of the target that began: when, and after which time it purges, as Postgres prints them. */
export interface Admitted {
  at: string
  purgeAfter: string
}

/** What has been done to one item. */
export interface Done {
  moved?: number
  purged?: number
  /** What the store said that these objects had. */
  bytes?: number
}

/** One line of the report of a dry run. */
export interface ReportLine {
  /** The public id. */
  id: string
  action: 'purge' | 'moveToTier'
  bytes: number
  /** Since when it has counted, as an ISO time: when it was deleted, archived or written. */
  since: string
  held: boolean
}

export interface HandleDeps {
  /** Connected as keepsake_worker. */
  db: Database
  store: ObjectStore
  log: Log
  /** Aborted when the process is to end: finish what would be lost, begin nothing. */
  signal: AbortSignal
  /** Waits until the run may read or write so many more bytes. Call it between parts, outside of transactions. */
  pace(bytes: number): Promise<void>
  /** Adds what was done to the figures of the run. Call it in the transaction of the change. */
  count(tx: Tx, done: Done): Promise<void>
}

/**
 * What handling an item came to. `done`: `count` was called. `lost`: another process has the lease, or the item is not due any
 * more; nothing was changed. `held`: a hold came, the rows stay.
 */
export type Outcome = 'done' | 'lost' | 'held'

/**
 * A kind of thing that policies are about, as the feature that has it describes it; `api/features/retention` does the rest:
 * guards, leases, several processes, errors, figures, dry runs.
 */
export interface RetentionTarget<Item extends object = object> {
  name: TargetName
  /** Whose rows are leased: one table per target, with `lease_at` and `lease_token`. */
  leases: LeasedTable
  /** So many may all be due without a question, as in a new installation. */
  few: number
  /** How many items there are, due or not: what a share of them is measured by. Asked only where more than a few are due. */
  total(tx: Tx): Promise<number>
  /** How many are due, whether or not someone works on them, and how many more would be without a hold. */
  countDue(tx: Tx, due: Due): Promise<{ due: number; held: number }>
  /**
   * How many of those that are due were due to this run too, where a run leaves things until people were told: it has passed
   * the guards with them, and they need no other confirmation. Unset: a run leaves nothing.
   */
  countAdmitted?(tx: Tx, due: Due, before: Admitted): Promise<number>
  /** Whether a row of the leased table is due, where others than runs of this target lease its rows as well. */
  isDue?(due: Due): SQL
  /**
   * Leases up to `limit` that are due and free, oldest first, for `seconds`, under the token; skips what is locked. Postpones
   * those under a hold (`HELD_SECONDS`), and says how many. Both 0: nothing is free.
   */
  claim(tx: Tx, due: Due, o: ClaimOptions): Promise<{ items: Item[]; held: number }>
  /** The rows of the item whose leases are its own, and its public id, for errors. */
  about(item: Item): { rows: readonly Uuid[]; id: string }
  /**
   * Does what is due to one item. Objects first, outside of any transaction; then one transaction that checks the lease by its
   * token, the hold (`lockHolds`) and the reason to be due, and writes rows, audit entry, event and `count`. May run twice, and
   * be killed at any line.
   */
  handle(deps: HandleDeps, item: Item, o: { token: Uuid; due: Due }): Promise<Outcome>
  /** For a dry run: what is due, in an order that `after` continues; leases nothing. Fewer than `limit`: the last page. */
  list(
    tx: Tx,
    due: Due,
    o: { after: string | undefined; limit: number },
  ): Promise<{ lines: ReportLine[]; last: string }>
}

/** As much of a target as the worker's sweep needs, for its guards. */
export type Swept = Pick<RetentionTarget, 'name' | 'few' | 'total' | 'countDue'>

export interface ClaimOptions {
  limit: number
  seconds: number
  token: Uuid
}
