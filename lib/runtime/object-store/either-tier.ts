import { coldKeyOf, isColdKey } from '../../contract/cold-key.ts'
import { type ObjectStore, StoreError } from './object-store.ts'

type Reader = Pick<ObjectStore, 'get' | 'head'>

/**
 * Reads an object at its key, else in the cold tier. The row of an object names its tier, and a database that was restored
 * from a backup has the row of before the move: such an object is there, and must not pass for one that is lost.
 */
export const eitherTier = (store: Reader): Reader => ({
  head: async (key) => (await store.head(key)) ?? (isColdKey(key) ? undefined : store.head(coldKeyOf(key))),
  get: (key, ...given) =>
    store.get(key, ...given).catch((error: unknown) => {
      if (isColdKey(key) || !(error instanceof StoreError && error.code === 'NotFound')) throw error
      return store.get(coldKeyOf(key), ...given).catch((later: unknown) => {
        // Of an object that is in neither tier, the first error names the key that the row has.
        throw later instanceof StoreError && later.code === 'NotFound' ? error : later
      })
    }),
})
