import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { mediaPrefix } from '../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Tx } from '../../db/db.ts'
import { changesOf } from '../../requests/change.ts'
import type { Due, HandleDeps, Outcome } from '../../retention/target.ts'
import { holdAttachedMedia, lockAlbumOf, releaseAlbum, removeEvent } from '../events/deletion-queries.ts'
import { purgeGroup } from '../media/deletion/purge.ts'
import { findBelonging, findFates, type Group, lockMedia } from './belonging-queries.ts'
import { ADDED_WITHIN, BATCH, BUSY_SECONDS, MEDIA_LEASE_SECONDS } from './plan.ts'
import {
  countBelongings,
  type DueEvent,
  type Leased,
  lockDueEvent,
  postponeEvent,
  releaseMedia,
  takeOut,
} from './queries.ts'

export interface Lease {
  token: Uuid
  due: Due
}

/**
 * Purges an event that was archived so long ago. Its media items that nothing else holds go first, a few at a time: they leave
 * the library, then their objects go, then their rows. The event goes last, so that a process that continues after a death
 * finds what is left. From the first media item on nothing of what is left is changed by others: an archived event is read-only.
 */
export async function purgeEvent(deps: HandleDeps, event: DueEvent, lease: Lease): Promise<Outcome> {
  const { db, signal } = deps
  const belonging = await db.read({}, (tx) => findBelonging(tx, event.id))
  for (let at = 0; at < belonging.length; at += BATCH) {
    signal.throwIfAborted()
    const taken = await db.inTransaction({}, (tx) => takeOutMedia(tx, event, lease, belonging.slice(at, at + BATCH)))
    failpoint('event-purge.taken-out')
    if (typeof taken === 'string') return taken
    if (!(await purgeAll(deps, event, lease, taken))) return 'held'
  }
  const outcome = await db.inTransaction({}, (tx) => removeArchived(tx, deps, event, lease))
  failpoint('event-purge.committed')
  return outcome
}

async function takeOutMedia(
  tx: Tx,
  event: DueEvent,
  { token, due }: Lease,
  groups: readonly Group[],
): Promise<Group[] | Outcome> {
  const leased = await lockDueEvent(tx, event, { token, due })
  if (!leased) return 'lost'
  if (leased.isHeld) return hold(tx, event, token)
  await lockMedia(tx, groups.flat())
  const fates = await findFates(tx, event.id, groups, { addedWithin: ADDED_WITHIN, token })
  const leaving = fates.filter(({ fate }) => fate !== 'stays')
  if (leaving.some(({ isBusy }) => isBusy)) {
    await postponeEvent(tx, event.id, token, BUSY_SECONDS)
    return 'lost'
  }
  const ids = leaving.flatMap(({ group }) => group)
  if (ids.length > 0) await takeOut(tx, ids, { token, seconds: MEDIA_LEASE_SECONDS })
  return leaving.map(({ group }) => group)
}

async function hold(tx: Tx, { id }: DueEvent, token: Uuid): Promise<Outcome> {
  await postponeEvent(tx, id, token, BUSY_SECONDS)
  return 'held'
}

async function storedBytes(store: HandleDeps['store'], orgId: Uuid, group: Group): Promise<number> {
  let bytes = 0
  for (const id of group) for await (const { size } of store.list(mediaPrefix(orgId, id))) bytes += size
  return bytes
}

/** False: a hold keeps one of them, and with it the event. */
async function purgeAll(
  deps: HandleDeps,
  event: DueEvent,
  { token }: Lease,
  groups: readonly Group[],
): Promise<boolean> {
  const { db, store, pace, count, signal } = deps
  const left = new Set(groups)
  try {
    for (const group of groups) {
      signal.throwIfAborted()
      const bytes = await storedBytes(store, event.orgId, group)
      await pace(bytes)
      const claimed = { ids: [...group], token }
      const { isHeld } = await purgeGroup({ db, store }, claimed, (tx) => count(tx, { bytes }))
      left.delete(group)
      if (isHeld) {
        await db.inTransaction({}, (tx) => postponeEvent(tx, event.id, token, BUSY_SECONDS))
        return false
      }
    }
    return true
  } finally {
    if (left.size > 0) await db.inTransaction({}, (tx) => releaseMedia(tx, [...left].flat(), token))
  }
}

/** The event with all that is left of it. What goes is announced and recorded in the transaction in which it goes. */
async function removeArchived(tx: Tx, { count }: HandleDeps, event: DueEvent, { token, due }: Lease): Promise<Outcome> {
  const leased = await lockDueEvent(tx, event, { token, due })
  if (!leased) return 'lost'
  if (leased.isHeld) return hold(tx, event, token)
  const album = await lockAlbumOf(tx, event.orgId, event.id)
  await holdAttachedMedia(tx, event.id)
  const numbers = await countBelongings(tx, event.id)
  if (album) await releaseAlbum(tx, album.id)
  await record(tx, leased, album, numbers)
  await removeEvent(tx, event.id)
  await count(tx, { purged: 1 })
  failpoint('event-purge.removed')
  return 'done'
}

async function record(
  tx: Tx,
  { row }: Leased,
  album: Awaited<ReturnType<typeof lockAlbumOf>>,
  numbers: Awaited<ReturnType<typeof countBelongings>>,
): Promise<void> {
  const { announce, audit } = changesOf(tx, { orgId: row.orgId, actorId: null, context: null })
  if (album) {
    const gone = { ...album, version: album.version + 1 }
    await announce('AlbumDeleted', gone, { album_id: album.id, org_id: album.orgId, event_id: row.id })
    await audit('ALBUM_ACTION', album, { operation: 'purge' })
  }
  await announce('EventDeleted', { ...row, version: row.version + 1 }, { event_id: row.id, org_id: row.orgId })
  await audit('EVENT_PURGED', row, {
    album_id: album ? formatId('album', album.id) : null,
    comments: numbers.comments,
    reactions: numbers.reactions,
    invitations: numbers.invitations,
    participants: numbers.participants,
  })
}
