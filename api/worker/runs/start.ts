import type { Uuid } from '../../../lib/contract/ids.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import { isClusterError } from '../../../lib/runtime/kube/cluster.ts'
import { failRun } from './commands.ts'
import { fieldOf, type RunDeps, type RunKind, type RunTypes, type WantedResource } from './kind.ts'
import { findRun } from './queries.ts'

export type StartDeps = Pick<RunDeps, 'db' | 'namespace' | 'log'> & { cluster: Pick<RunDeps['cluster'], 'create'> }

/** Creates the resource of a row unless it exists. Call it only for a row that may have one. */
export async function startRun<K extends RunTypes>(deps: StartDeps, kind: RunKind<K>, row: K['row']): Promise<void> {
  const wanted = await kind.wanted(deps.db, row, deps.namespace)
  if (wanted) await createResource(deps, kind, wanted)
}

/** Creates the resource of a row with a slot unless it exists or the run is over. */
export async function startAdmitted<K extends RunTypes>(deps: StartDeps, kind: RunKind<K>, id: Uuid): Promise<void> {
  const row = await deps.db.read({}, (tx) => findRun(tx, kind, id))
  if (row?.status === 'processing' && row.admittedAt) await startRun(deps, kind, row)
}

export async function createResource<K extends RunTypes>(
  deps: StartDeps,
  kind: RunKind<K>,
  { object, rows }: WantedResource,
): Promise<void> {
  const { resource, noun, failures } = kind
  try {
    await deps.cluster.create(resource, object)
    failpoint(`${noun}.created`)
  } catch (error) {
    if (isClusterError(error, 'AlreadyExists')) return
    if (!isClusterError(error, 'Invalid')) throw error
    // The cluster would refuse the same specification again: a bug or a mismatched CRD, never the user's fault.
    const { name } = object.metadata
    deps.log.error(
      { err: error, [fieldOf(resource)]: name },
      `the cluster refuses the specification of a ${resource.kind}`,
    )
    for (const row of rows) await failRun(deps.db, kind, row, failures.refused)
  }
}
