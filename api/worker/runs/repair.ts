import { succeededOf } from '../../../crds/run.ts'
import { manifestKey } from '../../../lib/contract/object-keys.ts'
import { ManifestError } from '../read-manifest.ts'
import { removeResource } from '../remove-resource.ts'
import { failRun } from './commands.ts'
import { fieldOf, type RunTypes } from './kind.ts'
import { isWatched, lookAt, type Swept } from './look.ts'
import { projectFact } from './project.ts'
import { startRun } from './start.ts'

/** Brings a row that is not over and its resource into line. Throws when the cluster or the store does not answer. */
export async function repair<K extends RunTypes>(swept: Swept<K>, row: K['row']): Promise<void> {
  const { deps, kind } = swept
  const looked = await lookAt(swept, row)
  const { object, move } = looked
  if (move === 'give-up' && !isWatched(swept, row, looked)) return
  if (move === 'wait' || (move === 'project' && object)) deps.sightings.forget(row.id)
  if (move === 'wait') return
  deps.onRepaired?.(kind.resource.kind, move)
  deps.log.info({ [kind.rowNoun]: row.id, move }, `repairing a ${kind.noun}`)
  if (move === 'create') await start(swept, row)
  else if (move === 'give-up') await giveUp(swept, row, object)
  else if (move === 'replace' && object) await replace(swept, row, object)
  else if (object) await projectResource(swept, object)
  else await projectCommitted(swept, row)
}

/**
 * Call it only when the API server has said that nothing works on the row: a resource of which it says nothing may be
 * healthy. When this fails for too long, so does the run, because a row that keeps its slot holds up others.
 */
async function start<K extends RunTypes>(
  swept: Swept<K>,
  row: K['row'],
  makeRoom?: () => Promise<void>,
): Promise<void> {
  const { deps, kind, options } = swept
  try {
    await makeRoom?.()
    await startRun(deps, kind, row)
    deps.sightings.forget(row.id)
  } catch (error) {
    if (deps.sightings.secondsOf(row.id, `unstarted ${row.generation}`) < options.giveUpSeconds) throw error
    deps.log.warn({ err: error, [kind.rowNoun]: row.id }, `could not start a ${kind.noun}`)
    await timeOut(swept, row, 'its resource could not be created')
  }
}

async function projectResource<K extends RunTypes>({ deps, kind }: Swept<K>, object: K['object']): Promise<void> {
  const { name } = object.metadata
  if (deps.follower.reflection.get({ namespace: deps.namespace, name })) deps.follower.lookAgain(name)
  else for (const fact of kind.factsOf(object)) await projectFact(deps, kind, fact, false)
}

/** The resource is gone, but its manifest exists. If the manifest is unusable, the run starts again. */
async function projectCommitted<K extends RunTypes>(swept: Swept<K>, row: K['row']): Promise<void> {
  const { deps, kind } = swept
  const fact = { id: row.id, prefix: kind.prefixOf(row), state: 'succeeded' } as const
  await projectFact(deps, kind, fact, false).catch(async (error: unknown) => {
    deps.log.warn({ err: error, [kind.rowNoun]: row.id }, 'a manifest without a resource cannot be used')
    await start(swept, row)
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
  if (!(await completeCommitted(swept, row))) await timeOut(swept, row, 'no sign of life')
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
async function replace<K extends RunTypes>(swept: Swept<K>, row: K['row'], object: K['object']): Promise<void> {
  const { deps, kind } = swept
  const about = { [kind.rowNoun]: row.id, [fieldOf(kind.resource)]: object.metadata.name }
  deps.log.warn(about, `replacing a ${kind.resource.kind} that has other inputs`)
  await start(swept, row, () => removeResource(deps, kind.resource, object))
}

async function timeOut<K extends RunTypes>({ deps, kind }: Swept<K>, row: K['row'], why: string): Promise<void> {
  const about = { [kind.rowNoun]: row.id, generation: row.generation }
  deps.log.error(about, `giving up a ${kind.noun}: ${why}`)
  await failRun(deps.db, kind, row, kind.failures.timedOut)
}
