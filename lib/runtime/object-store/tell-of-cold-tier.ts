import type { Log } from '../log.ts'
import type { ObjectStore } from './object-store.ts'

/**
 * Says in the log, once at the start of a program, that the cold tier is not as configured. The program runs all the same:
 * it stores and delivers everything that is not in that tier.
 */
export async function tellOfColdTier(store: Pick<ObjectStore, 'checkColdTier'>, log: Log): Promise<void> {
  try {
    await store.checkColdTier()
  } catch (error) {
    log.error({ err: error }, 'the cold tier of the object store cannot be used')
  }
}
