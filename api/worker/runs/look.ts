import { manifestKey } from '../../../lib/contract/object-keys.ts'
import type { Clock } from '../../../lib/runtime/clock.ts'
import type { ClusterSeen, RepairOptions } from '../feature-worker.ts'
import type { RunDeps, RunKind, RunObject, RunTypes } from './kind.ts'
import {
  queued,
  type Repair,
  type RepairSeen,
  type ResourceSeen,
  repairOf,
  signsOf,
  WATCHED_SECONDS,
} from './repair-plan.ts'
import type { Sightings } from './sightings.ts'

export interface RepairDeps<T extends RunObject> extends RunDeps, ClusterSeen<T> {
  clock: Clock
  /** Of the rows of this kind, from the first sweep of the process to its last. */
  sightings: Sightings
  onRepaired?(kind: string, repair: Repair): void
}

export interface Swept<K extends RunTypes> {
  deps: RepairDeps<K['object']>
  kind: RunKind<K>
  options: RepairOptions
}

export interface Looked<K extends RunTypes> {
  object: K['object'] | undefined
  seen: RepairSeen
  move: Repair
}

/**
 * The reflection may lag behind: a resource that it lacks is read from the API server, and so is one that seems silent,
 * because what this process has not heard says nothing about the resource.
 */
export async function lookAt<K extends RunTypes>(swept: Swept<K>, row: K['row']): Promise<Looked<K>> {
  const { deps, kind } = swept
  const key = { namespace: deps.namespace, name: kind.nameOf(row) }
  const reflected = deps.follower.reflection.get(key)
  const looked = reflected && (await plan(swept, row, reflected))
  if (looked && looked.move !== 'give-up') return looked
  try {
    return await plan(swept, row, await deps.cluster.get<K['object']>(kind.resource, key))
  } catch (error) {
    deps.sightings.forget(row.id)
    throw error
  }
}

async function plan<K extends RunTypes>(
  { deps, kind, options }: Swept<K>,
  row: K['row'],
  object: K['object'] | undefined,
): Promise<Looked<K>> {
  const resource = object && seenOf(kind, object, row)
  if (resource?.spec.suspend) deps.sightings.sawSuspended(row.id)
  const seen = {
    resource,
    isCommitted: !object && (await deps.store.head(manifestKey(kind.prefixOf(row)))) !== undefined,
    marginSeconds: options.marginSeconds,
    now: deps.clock.now(),
    secondsSinceSuspended: deps.sightings.secondsSinceSuspended(row.id),
    others: () => deps.queue().map(queued),
  }
  return { object, seen, move: repairOf(seen) }
}

/** Whether this process has watched the silence long enough. After an outage the cluster has this time to come back. */
export function isWatched<K extends RunTypes>({ deps }: Swept<K>, row: K['row'], { object, seen }: Looked<K>): boolean {
  if (!seen.resource) return false
  const signs = signsOf(object?.metadata.uid, seen.resource, seen.others?.() ?? [])
  return deps.sightings.secondsOf(row.id, `silent ${signs}`) >= WATCHED_SECONDS
}

function seenOf<K extends RunTypes>(kind: RunKind<K>, object: K['object'], row: K['row']): ResourceSeen {
  const isAboutRow = kind.factsOf(object).some(({ id, prefix }) => id === row.id && prefix === kind.prefixOf(row))
  // With the defaults of the API server: a resource without them would have no deadline.
  const spec = kind.runFieldsOf(object.spec)
  return { creationTimestamp: object.metadata.creationTimestamp, spec, status: object.status, isForeign: !isAboutRow }
}
