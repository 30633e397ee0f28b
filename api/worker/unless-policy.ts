import type { RetentionTarget } from '../../crds/retention-rules.ts'
import type { Database } from '../db/db.ts'
import { hasPolicy } from '../retention/policies-queries.ts'
import type { SweepTask } from './sweep.ts'

/** Leaves the work to the runs of a policy while there is one for the target, also while it is suspended or only counts. */
export const unlessPolicy = (db: Database, target: RetentionTarget, task: SweepTask): SweepTask => ({
  name: task.name,
  run: async (...given) => (await db.read({}, (tx) => hasPolicy(tx, target))) || task.run(...given),
})
