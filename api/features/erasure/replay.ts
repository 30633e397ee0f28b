import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../../db/db.ts'
import { ledgerName } from '../../personal/ledger-name.ts'
import { closeAccount } from './commands.ts'
import { listEntries, requireKey } from './ledger.ts'
import { addToLedger, listUsers, unknownOf } from './queries.ts'

interface Deps {
  /** Connected as keepsake_worker to write, as keepsake_api to look. */
  db: Database
  store: ObjectStore
  key: string
}

const AT_ONCE = 5000
const NIL = '00000000-0000-0000-0000-000000000000'

/** Entries of the ledger that this database does not know: it was restored from a backup of before. */
export async function missingEntries({ db, store }: Pick<Deps, 'db' | 'store'>): Promise<string[]> {
  const names = await listEntries(store)
  const missing: string[] = []
  for (let at = 0; at < names.length; at += AT_ONCE) {
    missing.push(...(await db.read({}, (tx) => unknownOf(tx, names.slice(at, at + AT_ONCE)))))
  }
  return missing
}

/**
 * After a restore: closes the accounts that the ledger names, and has everything erased again. Each in a transaction; those
 * of whom the database knows nothing come last, so that a call that is interrupted can be repeated. Tokens of those are
 * refused when they come.
 */
export async function replayLedger({ db, store, key }: Deps): Promise<{ entries: number; erased: number }> {
  const missing = new Set(await missingEntries({ db, store }))
  const entries = missing.size
  if (entries === 0) return { entries: 0, erased: 0 }
  await requireKey(store, key)
  let erased = 0
  for (let after: Uuid = NIL; ; ) {
    const ids = await db.read({}, (tx) => listUsers(tx, after, AT_ONCE))
    const last = ids.at(-1)
    if (last === undefined) break
    for (const userId of ids) {
      const name = ledgerName(key, userId)
      if (!missing.has(name)) continue
      await db.inTransaction({}, (tx) =>
        closeAccount(tx, { id: newUuid(), userId, askedBy: 'ledger', administratorId: null, reason: null }, key),
      )
      failpoint('erasure.replayed')
      missing.delete(name)
      erased += 1
    }
    after = last
  }
  await db.inTransaction({}, (tx) => addToLedger(tx, [...missing]))
  return { entries, erased }
}
