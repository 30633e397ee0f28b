import { succeededOf } from '../../../crds/run.ts'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { manifestKey } from '../../../lib/contract/object-keys.ts'
import type { Clock } from '../../../lib/runtime/clock.ts'
import type { ClusterSeen, RepairOptions } from '../feature-worker.ts'
import type { Filler } from '../filler.ts'
import { removeResource } from '../remove-resource.ts'
import { failRun } from './commands.ts'
import { fieldOf, type RunDeps, type RunKind, type RunObject, type RunTypes } from './kind.ts'
import { projectFact } from './project.ts'
import { listUnfinished } from './queries.ts'
import { queued, type Repair, type ResourceSeen, repairOf } from './repair-plan.ts'
import { startRun } from './start.ts'
import { stopIfHeld } from './stop.ts'

export interface SweepDeps<T extends RunObject> extends RunDeps, ClusterSeen<T> {
  clock: Clock
  /** Give free slots away after the sweep: the backstop for notifications that no worker received. */
  fillers: readonly Pick<Filler, 'fill'>[]
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

async function repair<K extends RunTypes>(swept: Swept<K>, row: K['row']): Promise<void> {
  const { deps, kind, options } = swept
  const object = await findResource(swept, row)
  const isCommitted = !object && (await deps.store.head(manifestKey(kind.prefixOf(row)))) !== undefined
  const seen = { resource: object && seenOf(kind, object, row), isCommitted, marginSeconds: options.marginSeconds }
  const move = repairOf({ ...seen, now: deps.clock.now(), others: () => deps.queue().map(queued) })
  if (move === 'wait') return
  deps.onRepaired?.(kind.resource.kind, move)
  deps.log.info({ [kind.rowNoun]: row.id, move }, `repairing a ${kind.noun}`)
  if (move === 'create') await startRun(deps, kind, row)
  else if (move === 'give-up') await giveUp(swept, row, object)
  else if (move === 'replace' && object) await replace(swept, row, object)
  else if (object) await projectResource(swept, object)
  else await projectCommitted(swept, row)
}

/** The reflection may lag behind: a resource that it lacks is read from the API server. */
async function findResource<K extends RunTypes>(
  { deps, kind }: Swept<K>,
  row: K['row'],
): Promise<K['object'] | undefined> {
  const key = { namespace: deps.namespace, name: kind.nameOf(row) }
  return deps.follower.reflection.get(key) ?? (await deps.cluster.get<K['object']>(kind.resource, key))
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
  await timeOut(swept, row)
  const isShared = (await kind.isShared?.(deps.db, row)) ?? false
  if (object && !isShared) await removeResource(deps, kind.resource, object)
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
