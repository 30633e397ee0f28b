import { masterKey } from '../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import { type FollowDeps, type Follower, type FollowOptions, follow } from '../follow.ts'
import { ManifestError, readManifest } from '../read-manifest.ts'
import { completeRun, failRun, recordPlayable, recordProgress } from './commands.ts'
import type { RunFact } from './facts.ts'
import type { FailedFact, RunDeps, RunKind, RunRow, RunTypes, TableOfKind } from './kind.ts'
import { findRun } from './queries.ts'

/** Records what the cluster says about runs: status and generation of the row guard every move. */
export const followRuns = <K extends RunTypes>(
  deps: FollowDeps & RunDeps,
  kind: RunKind<K>,
  options?: FollowOptions,
): Follower<K['object']> =>
  follow<K['object'], RunFact<K['failure']>>(
    deps,
    {
      resource: kind.resource,
      factsOf: kind.factsOf,
      record: (fact, isLastAttempt) => projectFact(deps, kind, fact, isLastAttempt),
    },
    options,
  )

/**
 * Applies a fact to its row. Returns false when there is no new state: the row is deleted or finished, or waits for
 * another resource, or the fact is known or about an earlier generation. When `isLastAttempt`, an unusable manifest
 * fails the run.
 */
export async function projectFact<K extends RunTypes>(
  deps: RunDeps,
  kind: RunKind<K>,
  fact: RunFact<K['failure']>,
  isLastAttempt: boolean,
): Promise<boolean> {
  if (fact.state === 'queued') return false
  const row = await deps.db.read({}, (tx) => findRun(tx, kind, fact.id))
  if (row?.status !== 'processing' || fact.prefix !== kind.prefixOf(row)) return false
  const isNews = await moveTo(deps, kind, row, fact, isLastAttempt)
  if (isNews) failpoint(`${kind.noun}.recorded`)
  return isNews
}

async function moveTo<K extends RunTypes>(
  deps: RunDeps,
  kind: RunKind<K>,
  row: K['row'],
  fact: Exclude<RunFact<K['failure']>, { state: 'queued' }>,
  isLastAttempt: boolean,
): Promise<boolean> {
  const { db } = deps
  switch (fact.state) {
    case 'running': {
      const isPlayable = fact.playable && (await makePlayable(deps, kind, row, fact.prefix))
      return (await recordProgress(db, kind, row, fact)) || isPlayable
    }
    case 'succeeded':
      return complete(deps, kind, row, fact, isLastAttempt)
    case 'failed': {
      const completed = await completeIfCommitted(deps, kind, row, fact)
      if (completed !== undefined) return completed
      const regrouped = fact.sharedBy ? kind.regroup?.(deps, row, fact) : undefined
      return regrouped ?? failRun(db, kind, row, fact.error, fact.run)
    }
  }
}

/**
 * The manifest is the commit, whatever its resource says: an attempt may die between its manifest and its exit, and of a
 * batch that failed as a whole some images were converted before. Undefined where there is no manifest, or no usable one.
 */
async function completeIfCommitted<K extends RunTypes>(
  deps: RunDeps,
  kind: RunKind<K>,
  row: K['row'],
  fact: FailedFact<K['failure']>,
): Promise<boolean | undefined> {
  try {
    const isNews = await complete(deps, kind, row, fact, false)
    const about = { [kind.rowNoun]: row.id, failure: fact.error }
    if (isNews) deps.log.warn(about, `a ${kind.noun} is complete although its resource failed`)
    return isNews
  } catch (error) {
    if (error instanceof ManifestError) return undefined
    throw error
  }
}

/** The job uploads the playlist before it reports it. Checked all the same: a dead link would be worse than none. */
async function makePlayable({ db, store }: RunDeps, kind: TableOfKind, row: RunRow, prefix: string): Promise<boolean> {
  if (row.outputPrefix !== null) return false
  const key = masterKey(prefix)
  if (!(await store.head(key))) return false
  return recordPlayable(db, kind, row, { prefix, hlsMaster: key.slice(prefix.length) })
}

async function complete<K extends RunTypes>(
  { db, store, log }: RunDeps,
  kind: RunKind<K>,
  row: K['row'],
  { prefix, run }: Pick<Extract<RunFact<K['failure']>, { state: 'succeeded' }>, 'prefix' | 'run'>,
  isLastAttempt: boolean,
): Promise<boolean> {
  const { schema, idOf, filesOf } = kind.manifest
  try {
    const manifest = await readManifest(store, prefix, { schema, id: idOf(row.id), filesOf })
    failpoint(`${kind.noun}.read`)
    return await completeRun(db, kind, row, { prefix, manifest }, run)
  } catch (error) {
    if (!(error instanceof ManifestError) || !isLastAttempt) throw error
    log.error({ err: error, [kind.rowNoun]: row.id }, `a ${kind.noun} that succeeded left no usable manifest`)
    return failRun(db, kind, row, kind.failures.unusable)
  }
}
