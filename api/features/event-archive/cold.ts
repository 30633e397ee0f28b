import { originalKey } from '../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import { moveToCold } from '../../../lib/runtime/object-store/move-to-cold.ts'
import type { Tx } from '../../db/db.ts'
import { changesOf } from '../../requests/change.ts'
import type { HandleDeps, Outcome } from '../../retention/target.ts'
import { findBelonging, findOriginals, type Group, type Original } from './belonging-queries.ts'
import type { Lease } from './purge.ts'
import { type DueEvent, forgetHot, lockDueEvent, markCooled, switchToCold } from './queries.ts'

/**
 * Moves the originals of an archived event to the cold tier: each is copied and compared, then its row says where it is, then
 * the first copy goes. A process that continues after a death finds by the row which of these is next. What something else
 * holds moves at one of the later looks.
 */
export async function coolEvent(deps: HandleDeps, event: DueEvent, lease: Lease): Promise<Outcome> {
  const { db, signal } = deps
  let originals = 0
  for (const group of await db.read({}, (tx) => findBelonging(tx, event.id))) {
    signal.throwIfAborted()
    const rows = await db.read({}, (tx) => findOriginals(tx, event.id, group))
    const hot = rows.filter(({ originalTier }) => originalTier === 'hot')
    if (hot.length > 0 && hot.every(({ mayCool }) => mayCool)) {
      if ((await moveGroup(deps, event, lease, group, hot)) === 'lost') return 'lost'
    }
    for (const row of await db.read({}, (tx) => findOriginals(tx, event.id, group))) {
      if (row.originalTier === 'both') await removeHot(deps, row)
      if (row.originalTier !== 'hot') originals += 1
    }
  }
  const outcome = await db.inTransaction({}, (tx) => finish(tx, deps, event, lease, originals))
  failpoint('event-cold.committed')
  return outcome
}

/** Both halves of a Live Photo move together, or neither. */
async function moveGroup(
  deps: HandleDeps,
  event: DueEvent,
  { token, due }: Lease,
  group: Group,
  hot: readonly Original[],
): Promise<'moved' | 'stayed' | 'lost'> {
  const digests = new Map<string, string>()
  const { store, signal, pace } = deps
  for (const { orgId, id, sha256: known } of hot) {
    const options = { sha256: known ?? undefined, signal, onPart: pace }
    digests.set(id, (await moveToCold(store, originalKey(orgId, id), options)).sha256)
  }
  failpoint('event-cold.copied')
  return deps.db.inTransaction({}, async (tx) => {
    if (!(await lockDueEvent(tx, event, { token, due }))) return 'lost'
    const now = await findOriginals(tx, event.id, group, { lock: true })
    const moving = now.filter(({ originalTier }) => originalTier === 'hot')
    // Something holds it since: the copy stays until a later look needs it, or until the purge of the media item.
    if (moving.some(({ id, mayCool }) => !mayCool || !digests.has(id))) return 'stayed'
    for (const { id, fileSizeBytes } of moving) {
      await switchToCold(tx, id, digests.get(id) as string)
      await deps.count(tx, { bytes: fileSizeBytes })
    }
    failpoint('event-cold.switched')
    return 'moved'
  })
}

/** The row says where the original is, so every reader finds the cold one. */
async function removeHot({ db, store }: HandleDeps, { id, orgId }: Original): Promise<void> {
  await store.deleteForGood(originalKey(orgId, id))
  failpoint('event-cold.deleted')
  await db.inTransaction({}, (tx) => forgetHot(tx, id))
}

async function finish(
  tx: Tx,
  { count }: HandleDeps,
  event: DueEvent,
  { token, due }: Lease,
  originals: number,
): Promise<Outcome> {
  const leased = await lockDueEvent(tx, event, { token, due })
  if (!leased) return 'lost'
  const isFirst = await markCooled(tx, event.id, due)
  if (isFirst) {
    const { audit } = changesOf(tx, { orgId: event.orgId, actorId: null, context: null })
    await audit('EVENT_COLD_TIER', leased.row, { originals })
    await count(tx, { moved: 1 })
  }
  return 'done'
}
