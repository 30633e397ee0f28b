import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import { nextLook } from './purge-plan.ts'

/** What metrics count. */
export interface PurgeReports {
  /** Versions, delete markers and open uploads count as well. */
  onObjectsDeleted?(objects: number): void
  onPurgeFailed?(): void
}

export interface PurgeOptions {
  batch?: number
  /** How long a claim is valid. What cannot be purged now is tried again after it. */
  leaseSeconds?: number
  signal?: AbortSignal
}

export const LEASE_SECONDS = 600

export interface PurgeDeps extends PurgeReports {
  store: ObjectStore
  log: Log
}

/** Prefixes that are emptied, and then looked at again a few times: a pod may write after its resource was deleted. */
export interface LookedAt<Claim> {
  /** Claims what is due. Until the lease ends no other worker gets it. */
  claim(o: { limit: number; leaseSeconds: number }): Promise<Claim[]>
  /** Whether something that came since the claim keeps the objects. */
  isKept?(claim: Claim): Promise<boolean>
  prefixOf(claim: Claim): string
  /** How often the prefix has been found empty in a row, including this time if it is empty. */
  looksOf(claim: Claim): number
  /** Stops what may still write. Returns whether there was anything. */
  stop?(claim: Claim): Promise<boolean>
  onFound?(claim: Claim, objects: number): void
  /** When to look next; undefined for never again. */
  record(claim: Claim, next: { looks: number; inSeconds: number } | undefined): Promise<void>
  /** The failpoint between the deletion of objects and its record. */
  failpoint: string
  /** Names a claim in the log. */
  about(claim: Claim): object
  noun: string
}

/** Empties the prefixes that are due. Every step may run twice. Returns how many objects it has deleted. */
export async function purgePrefixes<Claim>(
  deps: PurgeDeps,
  looked: LookedAt<Claim>,
  o: PurgeOptions = {},
): Promise<number> {
  const { batch = 100, leaseSeconds = LEASE_SECONDS, signal } = o
  let deleted = 0
  for (;;) {
    const claims = await looked.claim({ limit: batch, leaseSeconds })
    for (const claim of claims) {
      if (signal?.aborted) return deleted
      deleted += await attemptPurge(deps, looked.noun, looked.about(claim), () => purgePrefix(deps, looked, claim))
    }
    if (claims.length < batch) return deleted
  }
}

async function purgePrefix<Claim>(deps: PurgeDeps, looked: LookedAt<Claim>, claim: Claim): Promise<number> {
  if (await looked.isKept?.(claim)) return 0
  const wasRunning = (await looked.stop?.(claim)) ?? false
  const found = await deps.store.deletePrefix(looked.prefixOf(claim))
  deps.onObjectsDeleted?.(found)
  failpoint(looked.failpoint)
  if (found > 0) looked.onFound?.(claim, found)
  // What wrote once may write again: the looks start over.
  await looked.record(claim, nextLook(found > 0 || wasRunning ? 0 : looked.looksOf(claim)))
  return found
}

/** What cannot be purged now does not hold up the others. */
export async function attemptPurge(
  { log, onPurgeFailed }: Pick<PurgeDeps, 'log' | 'onPurgeFailed'>,
  noun: string,
  about: object,
  work: () => Promise<number>,
): Promise<number> {
  try {
    return await work()
  } catch (error) {
    onPurgeFailed?.()
    log.warn({ err: error, ...about }, `could not purge a ${noun}; trying again later`)
    return 0
  }
}
