import { RETENTION_POLICIES } from '../../../crds/retention-policy.ts'
import { ClusterError, type KubeObject, type Reflection } from '../../../lib/runtime/kube/cluster.ts'
import type { FeatureWorkerDeps } from '../../worker/feature-worker.ts'
import { keyedQueue } from '../../worker/keyed-queue.ts'
import { replacePolicies } from './mirror-queries.ts'
import { PolicyObject, policiesInForce } from './policy-plan.ts'

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

export async function mirrorPolicies({ db, cluster, namespace, log }: Deps): Promise<void> {
  const objects = await cluster.list<KubeObject>(RETENTION_POLICIES, { namespace }).catch((error: unknown) => {
    // A cluster of an installation without the kind: there are no policies, and the sweep does all the work.
    if (isNotServed(error)) return []
    throw error
  })
  const policies = objects.flatMap((object) => {
    const { data, error } = PolicyObject.safeParse(object)
    // The API server lets none through; one that it let through earlier must not make its target the sweep's.
    if (error) log.warn({ policy: object.metadata.name, err: error }, 'a retention policy cannot be read')
    return data ?? []
  })
  if (policies.length < objects.length) return
  await db.inTransaction({}, (tx) => replacePolicies(tx, policiesInForce(policies)))
}
