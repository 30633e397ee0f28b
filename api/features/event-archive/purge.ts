import { createHash } from 'node:crypto'
import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { mediaPrefix } from '../../../lib/contract/object-keys.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Tx } from '../../db/db.ts'
import { changesOf } from '../../requests/change.ts'
import { HELD_SECONDS } from '../../retention/holds-queries.ts'
import type { Due, HandleDeps, Outcome } from '../../retention/target.ts'
import { holdAttachedMedia, lockAlbumOf, releaseAlbum, removeEvent } from '../events/deletion-queries.ts'
import { recordDeletion } from '../media/deletion/commands.ts'
import { purgeGroup } from '../media/deletion/purge.ts'
import { findBelonging, findFates, type Group, lockMedia } from './belonging-queries.ts'
import { ADDED_WITHIN, BUSY_SECONDS, LOOKAHEAD, MEDIA_LEASE_SECONDS } from './plan.ts'
import {
  countBelongings,
  type DueEvent,
  isEventKept,
  type Leased,
  lockDueEvent,
  lockLeasedEvent,
  postponeEvent,
  putBack,
  releaseMedia,
  type Stored,
  takeOut,
} from './queries.ts'

export interface Lease {
  token: Uuid
  due: Due
}

/**
 * Purges an event that was archived so long ago. Its media items that nothing else holds go first, one at a time: each leaves
 * the library, then its objects go, then its row. The event goes last, so that a process that continues after a death finds
 * what is left. From the first media item on nothing of what is left is changed by others: an archived event is read-only.
 */
export async function purgeEvent(deps: HandleDeps, event: DueEvent, lease: Lease): Promise<Outcome> {
  const { db, signal } = deps
  const belonging = await db.read({}, (tx) => findBelonging(tx, event.id))
  for (let at = 0; at < belonging.length; at += LOOKAHEAD) {
    const some = belonging.slice(at, at + LOOKAHEAD)
    // Without a lock: it only saves looks at what stays.
    for (const { group, fate } of await db.read({}, (tx) => fatesOf(tx, event, lease, some))) {
      signal.throwIfAborted()
      const ended = fate === 'stays' ? undefined : await purgeOne(deps, event, lease, group)
      if (ended !== undefined) return ended
    }
  }
  const outcome = await db.inTransaction({}, (tx) => removeArchived(tx, deps, event, lease))
  failpoint('event-purge.committed')
  return outcome
}

const fatesOf = (tx: Tx, event: DueEvent, { token }: Lease, groups: readonly Group[]) =>
  findFates(tx, event.id, groups, { addedWithin: ADDED_WITHIN, token })

/** Undefined: the media item is gone, or stays in the library. Otherwise the event goes no further. */
async function purgeOne(deps: HandleDeps, event: DueEvent, lease: Lease, group: Group): Promise<Outcome | undefined> {
  const { db, store, pace, count, signal } = deps
  const { token } = lease
  // All that may take long comes before: what has left the library is purged at once.
  const stored = await storedOf(store, event.orgId, group)
  const bytes = stored.reduce((sum, one) => sum + one.bytes, 0)
  await pace(bytes)
  signal.throwIfAborted()
  const taken = await db.inTransaction({}, (tx) => takeOutGroup(tx, event, lease, group, stored))
  failpoint('event-purge.taken-out')
  if (taken !== 'taken') return taken === 'stays' ? undefined : taken
  let isHeld = false
  let isOver = false
  try {
    const done = await purgeGroup(
      { db, store },
      { ids: [...group], token },
      (tx) => count(tx, { bytes }),
      (tx) => isEventKept(tx, event.id),
    )
    isHeld = done.isHeld
    isOver = !isHeld
    return isHeld ? 'held' : undefined
  } finally {
    if (!isOver) await giveBack(deps, event, lease, { group, isHeld })
  }
}

/** A media item leaves the library, if it is the event's alone. From the commit on no one sees, restores or uses it. */
async function takeOutGroup(
  tx: Tx,
  event: DueEvent,
  { token, due }: Lease,
  group: Group,
  stored: readonly Stored[],
): Promise<'taken' | 'stays' | Outcome> {
  const leased = await lockDueEvent(tx, event, { token, due })
  if (!leased) return 'lost'
  if (leased.isHeld) return hold(tx, event, token)
  await lockMedia(tx, group)
  const [leaving] = await fatesOf(tx, event, { token, due }, [group])
  if (!leaving || leaving.fate === 'stays') return 'stays'
  if (leaving.isBusy) {
    await postponeEvent(tx, event.id, token, BUSY_SECONDS)
    return 'lost'
  }
  const left = await takeOut(tx, stored, { event: event.id, token, seconds: MEDIA_LEASE_SECONDS })
  const change = changesOf(tx, { orgId: event.orgId, actorId: null, context: null })
  for (const row of left) await recordDeletion(change, row, { event_id: formatId('event', event.id) })
  return 'taken'
}

/**
 * After a hold or an error: what has lost nothing since it left the library is put back there, or into the trash where it was.
 * Of what has lost an object, in this attempt or an earlier one, the row stays, withdrawn, and says what there was; only the
 * purge of its event goes on with it.
 */
async function giveBack(
  { db, store, log }: HandleDeps,
  event: DueEvent,
  { token }: Lease,
  o: { group: Group; isHeld: boolean },
): Promise<void> {
  const { group, isHeld } = o
  const left = await storedOf(store, event.orgId, group).catch((error: unknown) => {
    log.warn({ err: error, event: event.id }, 'could not look whether a media item is whole')
    return undefined
  })
  await db.inTransaction({}, async (tx) => {
    // Not after another process has taken over: it may have begun to delete.
    const isOurs = await lockLeasedEvent(tx, event, token)
    await lockMedia(tx, group)
    if (isOurs && left !== undefined) {
      const { audit } = changesOf(tx, { orgId: event.orgId, actorId: null, context: null })
      for (const row of await putBack(tx, left, event.id)) {
        await audit('MEDIA_DELETE', row, { operation: 'restore', event_id: formatId('event', event.id) })
      }
    }
    await releaseMedia(tx, group, token)
    if (isHeld) await hold(tx, event, token)
  })
}

async function hold(tx: Tx, { id }: DueEvent, token: Uuid): Promise<Outcome> {
  await postponeEvent(tx, id, token, HELD_SECONDS)
  return 'held'
}

/** What each media item of a group has in the store. */
async function storedOf(store: HandleDeps['store'], orgId: Uuid, group: Group): Promise<Stored[]> {
  const all: Stored[] = []
  for (const id of group) {
    const objects: string[] = []
    let bytes = 0
    for await (const { key, size } of store.list(mediaPrefix(orgId, id))) {
      objects.push(`${size} ${key}`)
      bytes += size
    }
    all.push({ id, bytes, objects: createHash('sha256').update(objects.sort().join('\n')).digest('hex') })
  }
  return all
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
