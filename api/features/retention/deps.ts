import type { Uuid } from '../../../lib/contract/ids.ts'
import type { RetentionRun } from '../../../lib/contract/retention.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../db/db.ts'
import type { Due, RetentionTarget } from '../../retention/target.ts'
import type { Watch } from './watch.ts'

export interface RunDeps {
  /** Connected as keepsake_worker. */
  db: Database
  store: ObjectStore
  log: Log
  /** Aborted when the process is to end in good order. */
  signal: AbortSignal
  /** Defaults are for production; tests are faster. */
  leaseSeconds?: number
  waitMs?: number
  /** Pause after the n-th refusal of the store in a row. */
  pauseMs?: (refusals: number) => number
  /** After so long in which nothing has come to an end the process gives up. */
  stallMs?: number
}

/** What one process of a run works with. */
export interface Work {
  deps: RunDeps
  target: RetentionTarget
  run: RetentionRun
  due: Due
  process: Uuid
  watch: Watch
}
