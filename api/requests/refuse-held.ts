import { Problem } from '../../lib/contract/problem.ts'
import type { Tx } from '../db/db.ts'
import { isHeldNow } from '../retention/holds-queries.ts'

/** Refuses to delete at once, and for good, what a legal hold keeps. No hold comes before the transaction ends. */
export async function refuseHeld(tx: Tx, by: Parameters<typeof isHeldNow>[1]): Promise<void> {
  if (await isHeldNow(tx, by)) {
    throw new Problem('LEGAL_HOLD', 'A legal hold keeps this; it cannot be deleted before the hold ends')
  }
}
