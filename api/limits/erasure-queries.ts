import type { Uuid } from '../../lib/contract/ids.ts'
import type { Tx } from '../db/db.ts'
import { sql } from '../db/orm.ts'
import { rateLimits } from '../db/schema/limits.ts'
import { change } from '../personal/queries.ts'
import { keyOf } from './queries.ts'

/** The counters of a user, in every class. */
export const eraseCounters = (tx: Tx, userId: Uuid): Promise<number> =>
  change(tx, sql`delete from ${rateLimits} where split_part(key, ':', 2) = ${keyOf(userId)}`)
