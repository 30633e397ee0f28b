import { succeededOf } from '../../../crds/run.ts'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { manifestKey } from '../../../lib/contract/object-keys.ts'
import type { Clock } from '../../../lib/runtime/clock.ts'
import type { ClusterSeen, RepairOptions } from '../feature-worker.ts'
import type { Filler } from '../filler.ts'
import { ManifestError } from '../read-manifest.ts'
import { removeResource } from '../remove-resource.ts'
import { failRun } from './commands.ts'
import { fieldOf, type RunDeps, type RunKind, type RunObject, type RunTypes } from './kind.ts'
import { projectFact } from './project.ts'
import { listUnfinished } from './queries.ts'
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
import { startRun } from './start.ts'
import { stopIfHeld } from './stop.ts'

export interface SweepDeps<T extends RunObject> extends RunDeps, ClusterSeen<T> {
  clock: Clock
  /** Give free slots away after the sweep: the backstop for notifications that no worker received. */
  fillers: readonly Pick<Filler, 'fill'>[]
  /** Of the rows of this kind, from the first sweep of the process to its last. */
  sightings: Sightings
  onRepaired?(kind: string, repair: Repair): void
}

interface Swept<K extends RunTypes> {
  deps: SweepDeps<K['object']>
  kind: RunKind<K>
  options: RepairOptions
}

/** Compares Postgres with the cluster and repairs what an interruption left. Any number of workers may do so. */
export async function sweepRuns<K extends RunTypes>(
  deps: SweepDeps<K['object']>,
  kind: RunKind<K>,
  options: RepairOptions,
  signal?: AbortSignal,
): Promise<void> {
  const limit = options.batch ?? 200
  for (let after: Uuid | undefined; ; ) {
    const page = await deps.db.read({}, (tx) => listUnfinished(tx, kind, { ...options, after, limit }))
    for (const row of page) {
      if (signal?.aborted) return
      await repairOrReport({ deps, kind, options }, row)
    }
    after = page.at(-1)?.id
    if (page.length < limit) break
  }
  deps.sightings.prune()
  for (const filler of deps.fillers) if (!signal?.aborted) await filler.fill()
}

/** The same for one row, now. */
export async function repairRun<K extends RunTypes>(
  deps: SweepDeps<K['object']>,
  kind: RunKind<K>,
  options: RepairOptions,
  id: Uuid,
): Promise<void> {
  const at = { idleSeconds: 0, after: undefined, limit: 1, only: id }
  const [row] = await deps.db.read({}, (tx) => listUnfinished(tx, kind, at))
  if (row) await repairOrReport({ deps, kind, options }, row)
}

/** A row that cannot be repaired now does not hold up the others. */
async function repairOrReport<K extends RunTypes>(swept: Swept<K>, row: K['row']): Promise<void> {
  const { deps, kind, options } = swept
  const about = { [kind.rowNoun]: row.id }
  try {
    if (!kind.hold || !(await stopIfHeld(deps, kind, row))) await repair(swept, row)
  } catch (error) {
    const idleSeconds = (deps.clock.now().getTime() - row.updatedAt.getTime()) / 1000
    deps.log.warn({ err: error, ...about, idleSeconds }, `could not repair a ${kind.noun}`)
    if (idleSeconds < options.giveUpSeconds) return
    await timeOut(swept, row).catch((e: unknown) =>
      deps.log.error({ err: e, ...about }, `could not give up a ${kind.noun}`),
    )
  }
}

interface Looked<K extends RunTypes> {
  object: K['object'] | undefined
  seen: RepairSeen
  move: Repair
}

async function repair<K extends RunTypes>(swept: Swept<K>, row: K['row']): Promise<void> {
  const { deps, kind } = swept
  const looked = await lookAt(swept, row)
  const { object, move } = looked
  if (move !== 'give-up') deps.sightings.forget(row.id)
  else if (!isWatched(swept, row, looked)) return
  if (move === 'wait') return
  deps.onRepaired?.(kind.resource.kind, move)
  deps.log.info({ [kind.rowNoun]: row.id, move }, `repairing a ${kind.noun}`)
  if (move === 'create') await startRun(deps, kind, row)
  else if (move === 'give-up') await giveUp(swept, row, object)
  else if (move === 'replace' && object) await replace(swept, row, object)
  else if (object) await projectResource(swept, object)
  else await projectCommitted(swept, row)
}

/**
 * The reflection may lag behind: a resource that it lacks is read from the API server, and so is one that seems silent,
 * because what this process has not heard says nothing about the resource.
 */
async function lookAt<K extends RunTypes>(swept: Swept<K>, row: K['row']): Promise<Looked<K>> {
  const { deps, kind } = swept
  const key = { namespace: deps.namespace, name: kind.nameOf(row) }
  const reflected = deps.follower.reflection.get(key)
  const looked = reflected && (await plan(swept, row, reflected))
  if (looked && looked.move !== 'give-up') return looked
  try {
    return await plan(swept, row, await deps.cluster.get<K['object']>(kind.resource, key))
  } catch (error) {
    if (looked) deps.sightings.forget(row.id)
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
function isWatched<K extends RunTypes>({ deps }: Swept<K>, row: K['row'], { object, seen }: Looked<K>): boolean {
  if (!seen.resource) return false
  const signs = signsOf(object?.metadata.uid, seen.resource, seen.others?.() ?? [])
  return deps.sightings.secondsOf(row.id, signs) >= WATCHED_SECONDS
}

async function projectResource<K extends RunTypes>({ deps, kind }: Swept<K>, object: K['object']): Promise<void> {
  const { name } = object.metadata
  if (deps.follower.reflection.get({ namespace: deps.namespace, name })) deps.follower.lookAgain(name)
  else for (const fact of kind.factsOf(object)) await projectFact(deps, kind, fact, false)
}

/** The resource is gone, but its manifest exists. If the manifest is unusable, the run starts again. */
async function projectCommitted<K extends RunTypes>({ deps, kind }: Swept<K>, row: K['row']): Promise<void> {
  const fact = { id: row.id, prefix: kind.prefixOf(row), state: 'succeeded' } as const
  await projectFact(deps, kind, fact, false).catch(async (error: unknown) => {
    deps.log.warn({ err: error, [kind.rowNoun]: row.id }, 'a manifest without a resource cannot be used')
    await startRun(deps, kind, row)
  })
}

async function giveUp<K extends RunTypes>(
  swept: Swept<K>,
  row: K['row'],
  object: K['object'] | undefined,
): Promise<void> {
  const { deps, kind } = swept
  const { reason, message } = succeededOf(object?.status) ?? {}
  const about = { [kind.rowNoun]: row.id, [fieldOf(kind.resource)]: object?.metadata.name }
  deps.log.error({ ...about, reason, message }, `a ${kind.resource.kind} makes no progress`)
  // The row first: if the worker dies in between, what the resource still says changes nothing.
  if (!(await completeCommitted(swept, row))) await timeOut(swept, row)
  const isShared = (await kind.isShared?.(deps.db, row)) ?? false
  if (object && !isShared) await removeResource(deps, kind.resource, object)
}

/** The program may have committed its output while no operator was there to say so. Returns false if it has not. */
async function completeCommitted<K extends RunTypes>({ deps, kind }: Swept<K>, row: K['row']): Promise<boolean> {
  const fact = { id: row.id, prefix: kind.prefixOf(row), state: 'succeeded' } as const
  if (!(await deps.store.head(manifestKey(fact.prefix)))) return false
  try {
    await projectFact(deps, kind, fact, false)
    return true
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error
    deps.log.warn({ err: error, [kind.rowNoun]: row.id }, 'the manifest of a silent run cannot be used')
    return false
  }
}

/** If the deletion takes long, the next sweep finds the name free. */
async function replace<K extends RunTypes>(
  { deps, kind }: Swept<K>,
  row: K['row'],
  object: K['object'],
): Promise<void> {
  const about = { [kind.rowNoun]: row.id, [fieldOf(kind.resource)]: object.metadata.name }
  deps.log.warn(about, `replacing a ${kind.resource.kind} that has other inputs`)
  await removeResource(deps, kind.resource, object)
  await startRun(deps, kind, row)
}

async function timeOut<K extends RunTypes>({ deps, kind }: Swept<K>, row: K['row']): Promise<void> {
  const about = { [kind.rowNoun]: row.id, generation: row.generation }
  deps.log.error(about, `giving up a ${kind.noun}: no sign of life`)
  await failRun(deps.db, kind, row, kind.failures.timedOut)
}

function seenOf<K extends RunTypes>(kind: RunKind<K>, object: K['object'], row: K['row']): ResourceSeen {
  const isAboutRow = kind.factsOf(object).some(({ id, prefix }) => id === row.id && prefix === kind.prefixOf(row))
  // With the defaults of the API server: a resource without them would have no deadline.
  const spec = kind.runFieldsOf(object.spec)
  return { creationTimestamp: object.metadata.creationTimestamp, spec, status: object.status, isForeign: !isAboutRow }
}
