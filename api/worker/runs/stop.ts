import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Resource } from '../../../lib/runtime/kube/cluster.ts'
import { removeResource } from '../remove-resource.ts'
import { failIfHeld } from './commands.ts'
import type { RunDeps, RunKind, RunObject, RunTypes } from './kind.ts'

type StopDeps = Pick<RunDeps, 'namespace'> & { cluster: Pick<RunDeps['cluster'], 'get' | 'delete'> }

/** Deletes a resource whose result has no use. Returns whether there was one. */
export async function stopResource(deps: StopDeps, resource: Resource, name: string): Promise<boolean> {
  const object = await deps.cluster.get<RunObject>(resource, { namespace: deps.namespace, name })
  if (object) await removeResource(deps, resource, object)
  return object !== undefined
}

/**
 * Fails a run if `hold` says so, and stops its resource. Returns false when there is no reason, or the run is over. If the
 * worker dies in between, the purge of the output stops the resource.
 */
export async function stopIfHeld<K extends RunTypes>(
  deps: StopDeps & Pick<RunDeps, 'db'>,
  kind: RunKind<K>,
  row: K['row'],
): Promise<boolean> {
  if (!(await failIfHeld(deps.db, kind, row))) return false
  failpoint(`${kind.noun}.failed`)
  await stopResource(deps, kind.resource, kind.nameOf(row))
  return true
}
