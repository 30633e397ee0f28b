import type { Database } from '../db/db.ts'
import type { KeyCache } from './key-source.ts'
import { loadKeys, saveKeys } from './queries.ts'

/** The keys of an issuer, kept in the database. */
export const keyCache = (db: Database, issuer: string): KeyCache => ({
  load: () => db.read({}, (tx) => loadKeys(tx, issuer)),
  save: (...kept) => db.inTransaction({}, (tx) => saveKeys(tx, issuer, ...kept)),
})
