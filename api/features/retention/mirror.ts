import { setTimeout as sleep } from 'node:timers/promises'
import { RETENTION_POLICIES } from '../../../crds/retention-policy.ts'
import { ClusterError, type KubeObject, type Reflection } from '../../../lib/runtime/kube/cluster.ts'
import type { FeatureWorkerDeps } from '../../worker/feature-worker.ts'
import { keyedQueue } from '../../worker/keyed-queue.ts'
import { forgetNotServed, readVersion, writeNotServed, writeSeen } from './mirror-queries.ts'
import { policiesInForce } from './policy-plan.ts'

type Deps = Pick<FeatureWorkerDeps, 'db' | 'cluster' | 'namespace' | 'log'>

/**
 * Keeps the table of policies as the cluster has them. A change in the cluster is written within a moment; each sweep writes
 * them again, whatever a watch has missed. The list is read anew each time: the cache of a watch may be old.
 */
export function startMirror(deps: Deps): { refresh(): Promise<void>; stop(): Promise<void> } {
  const { log } = deps
  const queue = keyedQueue({
    concurrency: 1,
    look: async () => void (await mirrorPolicies(deps)),
    onError: (error, _, attempt) =>
      log.warn({ err: error, attempt }, 'could not read the retention policies; retrying'),
  })
  const reflection = watch(deps, () => queue.add('all'))
  return {
    refresh: () => mirrorPolicies(deps),
    async stop() {
      await reflection?.stop()
      await queue.stop()
    },
  }
}

/** Undefined where the cluster cannot have the kind; then there is nothing to see. */
function watch({ cluster, namespace, log }: Deps, changed: () => void): Reflection<KubeObject> | undefined {
  try {
    return cluster.reflect<KubeObject>(
      RETENTION_POLICIES,
      {
        onSet: changed,
        onDelete: changed,
        onError: (error, retryInMs) => log.debug({ err: error, retryInMs }, 'the watch of policies was interrupted'),
      },
      { namespace },
    )
  } catch (error) {
    if (isNotServed(error)) return undefined
    throw error
  }
}

const isNotServed = (error: unknown) => error instanceof ClusterError && error.isNotServed

/** Far longer than a list takes: one that hangs must not keep the next change from being seen. */
const LIST_MS = 20_000
/** Looks of other workers that were written meanwhile. */
const MAX_OUTDATED = 10

/**
 * Looks at the cluster, and writes what it has found. A look is written only if none was written since it began: so a list that
 * was read before never replaces a later one. No transaction waits for the cluster. Throws where it is not known what is in force.
 */
export async function mirrorPolicies(deps: Deps, o: { listMs?: number } = {}): Promise<void> {
  for (let attempt = 0; attempt < MAX_OUTDATED; attempt++) {
    if (await lookOnce(deps, o.listMs ?? LIST_MS)) return
  }
  throw new Error('other workers write the retention policies all the time')
}

/** False: another look was written meanwhile. */
async function lookOnce(deps: Deps, listMs: number): Promise<boolean> {
  const { db, log } = deps
  const version = await db.read({}, readVersion)
  const objects = await listPolicies(deps, listMs).catch(async (error: unknown) => {
    await db.inTransaction({}, forgetNotServed)
    throw error
  })
  if (objects === 'not served') {
    const written = await db.inTransaction({}, (tx) => writeNotServed(tx, version))
    if (written === 'waits')
      throw new Error('the cluster does not know retention policies any more; keeping those it had')
    return written === 'none'
  }
  const seen = policiesInForce(objects)
  // The API server lets none through; one that a later version let through must not make its target the sweep's.
  if (seen.strange.length > 0) {
    log.warn({ policies: seen.strange }, 'retention policies cannot be read; their targets are left alone')
  }
  const isWritten = await db.inTransaction({}, (tx) => writeSeen(tx, version, seen))
  // What it governs may have no row. Without this look, nothing purges.
  if (isWritten && seen.isPartial) throw new Error('a retention policy does not say its target; any may be its')
  return isWritten
}

async function listPolicies({ cluster, namespace }: Deps, ms: number): Promise<KubeObject[] | 'not served'> {
  const listed = cluster.list<KubeObject>(RETENTION_POLICIES, { namespace }).catch((error: unknown) => {
    if (isNotServed(error)) return 'not served' as const
    throw error
  })
  const waited = new AbortController()
  const late = sleep(ms, undefined, { signal: waited.signal }).then(() => {
    throw new Error(`no list of the retention policies within ${ms} ms`)
  })
  try {
    return await Promise.race([listed, late])
  } finally {
    waited.abort()
    // Whichever has lost says nothing any more.
    for (const lost of [listed, late]) lost.catch(() => {})
  }
}
