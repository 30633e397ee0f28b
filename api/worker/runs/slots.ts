import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { type Admission, type AdmissionOptions, startAdmission } from './admission.ts'
import type { Line } from './admission-queries.ts'
import type { RunKind, RunTypes } from './kind.ts'
import { admitRuns } from './queries.ts'
import { type StartDeps, startAdmitted } from './start.ts'

export interface SlotsOptions extends AdmissionOptions {
  line: Line
  /** Runs in the transaction that gives slots to rows. */
  onAdmitted?(tx: Tx, ids: readonly Uuid[]): Promise<void>
}

/** Gives the slots of organizations to rows of a kind, each of which then gets a resource of its own. */
export const startSlots = <K extends RunTypes>(
  deps: StartDeps,
  kind: RunKind<K>,
  { line, onAdmitted, ...options }: SlotsOptions,
): Admission =>
  startAdmission(
    deps,
    {
      subject: kind.noun,
      line,
      async admit(tx, ids) {
        await admitRuns(tx, kind, ids)
        await onAdmitted?.(tx, ids)
      },
      start: (id) => startAdmitted(deps, kind, id),
    },
    options,
  )
