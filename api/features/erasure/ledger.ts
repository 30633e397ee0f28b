import { text } from 'node:stream/consumers'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { type ObjectStore, StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import { ledgerKeyMark, ledgerName } from '../../personal/ledger-name.ts'

/**
 * The ledger of erasures, in the object store: outside of the backups of the database, so that a database that was
 * restored from one learns whom it has to erase again. An entry is the HMAC of the id of a user, and a time.
 */
const FOLDER = 'erasures/ledger/'
/** Tells whether the key is that of the ledger: with another one no user would be found in it. */
const KEY = 'erasures/key'

/** Keeps the entry for good. Safe to repeat. */
export async function writeEntry(store: ObjectStore, key: string, o: { userId: Uuid; at: Date }): Promise<void> {
  await requireKey(store, key)
  const name = `${FOLDER}${ledgerName(key, o.userId)}`
  if (await store.head(name)) return
  await store.put(name, JSON.stringify({ version: 1, requested_at: o.at.toISOString() }), {
    contentType: 'application/json',
  })
}

export async function listEntries(store: ObjectStore): Promise<string[]> {
  const names: string[] = []
  for await (const { key } of store.list(FOLDER)) {
    const name = key.slice(FOLDER.length)
    if (/^[0-9a-f]{64}$/.test(name)) names.push(name)
  }
  return names
}

/** Throws where the ledger was begun with another key. The first one begins it. */
export async function requireKey(store: ObjectStore, key: string): Promise<void> {
  const mark = ledgerKeyMark(key)
  const known = await markIn(store)
  if (known === undefined) await store.put(KEY, mark, { contentType: 'text/plain' })
  else if (known !== mark) throw new Error('ERASURE_KEY is not the key with which the ledger of erasures was begun')
}

async function markIn(store: ObjectStore): Promise<string | undefined> {
  try {
    const { body } = await store.get(KEY)
    return (await text(body)).trim()
  } catch (error) {
    if (error instanceof StoreError && error.code === 'NotFound') return undefined
    throw error
  }
}
