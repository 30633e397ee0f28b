import type { Uuid } from '../../../../lib/contract/ids.ts'
import type { AuditDetails } from '../../../audit/queries.ts'
import type { Tx } from '../../../db/db.ts'
import type { MediaRow } from '../../../db/schema/media.ts'
import type { Change } from '../../../requests/change.ts'
import { found } from '../../../requests/found.ts'
import type { Write } from '../../../requests/request.ts'
import { pair } from '../pairing.ts'
import { lockNamesOf } from '../pairing-plan.ts'
import { lockPairing } from '../pairing-queries.ts'
import type { mediaActions } from '../policy.ts'
import { findMedia } from '../queries.ts'
import {
  findInAnyState,
  findKeys,
  isPairIdTaken,
  type Locked,
  lockWithCounterpart,
  markDeleted,
  markRestored,
  PairChanged,
  wakeConversions,
} from './queries.ts'

/** Moves a media item, and the counterpart of a Live Photo, to the trash. A repeat changes nothing. */
export async function deleteMedia(request: Write<typeof mediaActions.delete>, id: Uuid): Promise<void> {
  const { tx, orgId, actor, permit, ready } = request
  // Before the lock: see `lockPermitted`.
  permit(found(await findInAnyState(tx, orgId, id)))
  const locked = found(await lockWithCounterpart(tx, orgId, id))
  if (!ready(permit(locked.row))) return
  for (const row of await markDeleted(tx, locked.all, actor.userId)) await recordDeletion(request, row)
}

/** Announces that a media item has left the library, and writes it to the audit log. */
export async function recordDeletion(
  { announce, audit }: Pick<Change, 'announce' | 'audit'>,
  row: Pick<MediaRow, 'id' | 'orgId' | 'uploaderId' | 'version' | 'deletedAt'>,
  more: AuditDetails = {},
): Promise<void> {
  await announce('MediaDeleted', row, {
    media_id: row.id,
    org_id: row.orgId,
    uploader_id: row.uploaderId,
    deleted_at: (row.deletedAt as Date).toISOString(),
  })
  await audit('MEDIA_DELETE', row, { operation: 'delete', ...more })
}

/**
 * Takes a media item, and the counterpart of a Live Photo, out of the trash. Pairs a half whose counterpart has arrived
 * meanwhile. A file that was uploaded meanwhile with the same pair id keeps that id.
 */
export async function restoreMedia(request: Write<typeof mediaActions.restore>, id: Uuid) {
  const { tx, orgId, permit, ready } = request
  permit(found(await findInAnyState(tx, orgId, id)))
  const locked = found(await lockForPairing(tx, orgId, id))
  if (ready(permit(locked.row))) await restore(request, locked)
  return found(await findMedia(tx, orgId, id))
}

/** The locks of the pairing come before those of rows, as in an upload. */
async function lockForPairing(tx: Tx, orgId: Uuid, id: Uuid): Promise<Locked | undefined> {
  const keys = await findKeys(tx, orgId, id)
  await lockPairing(tx, ...keys)
  const locked = await lockWithCounterpart(tx, orgId, id)
  const names = new Set(keys.flatMap(lockNamesOf))
  if (locked?.all.flatMap(lockNamesOf).some((name) => !names.has(name))) throw new PairChanged()
  return locked
}

async function restore(change: Change, { row, all }: Locked): Promise<void> {
  const { tx, audit } = change
  const restored = await markRestored(tx, all, { givesUpPairId: await isPairIdTaken(tx, all) })
  for (const one of restored) await audit('MEDIA_DELETE', one, { operation: 'restore' })
  await wakeConversions(tx, restored)
  // With the keys that it was uploaded with: without its pair id it would take a half of another Live Photo.
  if (row.pairedMediaId === null) await pair(change, row)
}

/** A media item is paired once in its life, so a second try is enough; one more for the case that it was unpaired. */
const TRIES = 3

/** Runs a transaction again when a Live Photo was paired while it waited. */
export async function whilePaired<T>(transaction: () => Promise<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await transaction()
    } catch (error) {
      if (!(error instanceof PairChanged) || tried === TRIES) throw error
    }
  }
}
