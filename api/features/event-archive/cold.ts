import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { originalKey } from '../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import { moveToCold } from '../../../lib/runtime/object-store/move-to-cold.ts'
import { StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import type { Tx } from '../../db/db.ts'
import { changesOf } from '../../requests/change.ts'
import type { HandleDeps, Outcome } from '../../retention/target.ts'
import { findBelonging, findOriginals, type Group, type Original } from './belonging-queries.ts'
import type { Lease } from './purge.ts'
import { type DueEvent, forgetHot, lockDueEvent, markCooled, markLookedAt, switchToCold } from './queries.ts'

/**
 * Moves the originals of an archived event to the cold tier: each is copied and compared, then its row says where it is, then
 * the first copy goes. A process that continues after a death finds by the row which of these is next. What something else
 * holds moves at one of the later looks, and so does what failed: the others do not wait for it.
 */
export async function coolEvent(deps: HandleDeps, event: DueEvent, lease: Lease): Promise<Outcome> {
  const { db, signal } = deps
  let originals = 0
  const failures: StoreError[] = []
  for (const group of await db.read({}, (tx) => findBelonging(tx, event.id))) {
    signal.throwIfAborted()
    const cooled = await coolGroup(deps, event, lease, group).catch((error: unknown) =>
      asFailure(error, failures.at(-1)),
    )
    if (cooled === 'lost') return 'lost'
    if (cooled instanceof StoreError) failures.push(cooled)
    else originals += cooled
  }
  const away = failures.find(({ code }) => code === 'Unavailable')
  // No reason to leave the event alone for long: the next attempt finds the others moved.
  if (away) throw away
  const outcome = await db.inTransaction({}, (tx) => finish(tx, deps, event, lease, { originals, failures }))
  failpoint('event-cold.committed')
  if (failures.length > 0 && outcome === 'done') throw together(failures)
  return outcome
}

/** What the store says of one original. Anything else, and a store that answers nothing, is not the fault of one. */
function asFailure(error: unknown, before: StoreError | undefined): StoreError {
  if (!(error instanceof StoreError) || error.isSlowDown) throw error
  if (error.code === 'Unavailable' && before?.code === 'Unavailable') throw error
  return error
}

/** Returns how many of its originals are in the cold tier. */
async function coolGroup(deps: HandleDeps, event: DueEvent, lease: Lease, group: Group): Promise<number | 'lost'> {
  const { db } = deps
  const rows = await db.read({}, (tx) => findOriginals(tx, event.id, group))
  const hot = rows.filter(({ originalTier }) => originalTier === 'hot')
  if (hot.length > 0 && hot.every(({ mayCool }) => mayCool)) {
    if ((await moveGroup(deps, event, lease, group, hot)) === 'lost') return 'lost'
  }
  let cold = 0
  for (const row of await db.read({}, (tx) => findOriginals(tx, event.id, group))) {
    if (row.originalTier === 'both') await removeHot(deps, row)
    if (row.originalTier !== 'hot') cold += 1
  }
  return cold
}

/** Names the media item in an error of the store. */
async function naming<T>(id: Uuid, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    const { code, message, until, isSlowDown } = error
    throw new StoreError(code, `${formatId('media', id)}: ${message}`, { cause: error, until, isSlowDown })
  }
}

/** One error for the event: the first one, and which others there are. */
function together([first, ...others]: readonly StoreError[]): StoreError {
  if (!first) throw new Error('no failure')
  if (others.length === 0) return first
  const { code, message, until } = first
  const ids = others.slice(0, MAX_NAMED).map((other) => other.message.split(':', 1)[0])
  const more = others.length > MAX_NAMED ? ` and ${others.length - MAX_NAMED} more` : ''
  return new StoreError(code, `${message}; also ${ids.join(', ')}${more}`, { cause: first, until })
}
const MAX_NAMED = 3

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
    digests.set(id, (await naming(id, moveToCold(store, originalKey(orgId, id), options))).sha256)
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
  await naming(id, store.deleteForGood(originalKey(orgId, id)))
  failpoint('event-cold.deleted')
  await db.inTransaction({}, (tx) => forgetHot(tx, id))
}

async function finish(
  tx: Tx,
  { count }: HandleDeps,
  event: DueEvent,
  { token, due }: Lease,
  { originals, failures }: { originals: number; failures: readonly StoreError[] },
): Promise<Outcome> {
  const leased = await lockDueEvent(tx, event, { token, due })
  if (!leased) return 'lost'
  if (failures.length > 0) {
    await markLookedAt(tx, event.id, due)
    return 'done'
  }
  const isFirst = await markCooled(tx, event.id, due)
  if (isFirst) {
    const { audit } = changesOf(tx, { orgId: event.orgId, actorId: null, context: null })
    await audit('EVENT_COLD_TIER', leased.row, { originals })
    await count(tx, { moved: 1 })
  }
  return 'done'
}
