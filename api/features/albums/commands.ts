import type { EventPayload } from '../../../lib/contract/events.ts'
import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { invalid, notFound, Problem } from '../../../lib/contract/problem.ts'
import type { AuditDetails } from '../../audit/queries.ts'
import type { AlbumRow } from '../../db/schema/albums.ts'
import type { EventRow } from '../../db/schema/events.ts'
import type { StateOf } from '../../permissions/rule.ts'
import { found } from '../../requests/found.ts'
import { lockPermitted } from '../../requests/lock-permitted.ts'
import { refuseHeld } from '../../requests/refuse-held.ts'
import type { Write } from '../../requests/request.ts'
import { eventActions, refuseArchived } from '../events/policy.ts'
import { findEvent } from '../events/queries.ts'
import { lockWithCounterpart } from '../media/deletion/queries.ts'
import { livePhotoOf } from '../media/pairing-plan.ts'
import { type CreateAlbum, fieldsOf, NEEDS_EVENT, type UpdateAlbum } from './album.ts'
import { type AlbumItem, countPlaces, deleteItem, findItem, insertItem, setCaption, setCover } from './item-queries.ts'
import { listPlaces, moveItems } from './order-queries.ts'
import { MAX_ITEMS, movesOf } from './plan.ts'
import { type Archive, type albumActions, withArchive } from './policy.ts'
import { type DetailedAlbum, findAlbum, findShownAlbum, insertAlbum, type SeenAlbum, updateAlbum } from './queries.ts'

export async function createAlbum(
  request: Write<typeof albumActions.create>,
  given: CreateAlbum,
): Promise<DetailedAlbum> {
  const { tx, orgId, actor, announce, audit } = request
  const { title, description, event_id: eventId = null, visibility } = given
  if (eventId !== null) refuseArchived(await lockReadableEvent(request, eventId))
  const id = newUuid()
  const columns = { title, description, visibility: visibility ?? undefined }
  const row = await insertAlbum(tx, { id, orgId, ownerId: actor.userId, eventId, ...columns })
  if (!row) {
    const details = [{ field: 'body.event_id', issue: 'has an album already' }]
    throw new Problem('CONFLICT', 'The event has an album already', { details })
  }
  await announce('AlbumCreated', row, {
    ...idsOf(row),
    owner_id: row.ownerId,
    event_id: eventId,
    title: row.title,
    status: row.status,
    visibility: row.visibility,
  })
  await audit('ALBUM_CREATE', row)
  return show(request, row)
}

async function lockReadableEvent({ tx, orgId, can }: Write<typeof albumActions.create>, id: Uuid): Promise<EventRow> {
  const permit = (event: EventRow) => {
    if (!can(eventActions.read, event)) throw notFound('body.event_id')
  }
  permit(found(await findEvent(tx, orgId, id), 'body.event_id'))
  const event = found(await findEvent(tx, orgId, id, { lock: 'share' }), 'body.event_id')
  permit(event)
  return event
}

export async function changeAlbum(
  request: Write<typeof albumActions.update>,
  id: Uuid,
  changes: UpdateAlbum,
  archive: Archive,
): Promise<DetailedAlbum> {
  const album = await lockForChange(request, id, archive)
  const { cover_media_id: cover, ...columns } = changes
  if (columns.visibility === 'participants' && album.eventId === null) {
    throw invalid([{ field: 'body.visibility', issue: NEEDS_EVENT }])
  }
  if (cover !== undefined && !(await setCover(request.tx, id, cover))) throw notFound('body.cover_media_id')
  const row = await updateAlbum(request.tx, id, columns)
  const before = row.visibility === album.visibility ? undefined : album.visibility
  await record(
    request,
    row,
    { change: 'details', previous_visibility: before },
    { operation: 'update', fields: fieldsOf(changes).join() },
  )
  return show(request, row)
}

/** A request for the present status changes nothing and sends no notification. */
export async function setStatus(
  request: Write<typeof albumActions.setStatus>,
  id: Uuid,
  status: AlbumRow['status'],
): Promise<AlbumRow> {
  const { tx, orgId, actor, permit } = request
  const wanted = { orgId, id, callerId: actor.userId }
  const album = await lockPermitted((lock) => findAlbum(tx, { ...wanted, lock }), permit)
  if (album.status === status) return album
  const row = await updateAlbum(tx, id, { status })
  await record(request, row, { change: 'status' }, { operation: 'status', from: album.status, to: status })
  return row
}

/** Adds either half of a Live Photo as its image. */
export async function addMedia(
  request: Write<typeof albumActions.addMedia>,
  id: Uuid,
  given: { mediaId: Uuid; caption: string | null },
  archive: Archive,
): Promise<AlbumItem> {
  const { tx, actor } = request
  await lockForChange(request, id, archive)
  const mediaId = await holdMediaItem(request, given.mediaId)
  const row = await insertItem(tx, id, {
    mediaId,
    caption: given.caption,
    addedBy: actor.userId,
    captionBy: given.caption === null ? null : actor.userId,
  })
  if (!row) {
    const details = [{ field: 'body.media_id', issue: 'is in the album already' }]
    throw new Problem('CONFLICT', 'The album has this media item already', { details })
  }
  if ((await countPlaces(tx, id)) > MAX_ITEMS) {
    throw new Problem('QUOTA_EXCEEDED', `An album has at most ${MAX_ITEMS} media items, recently deleted ones included`)
  }
  await recordItem(request, row, { change: 'media_added', operation: 'add_media', mediaId })
  return found(await findItem(tx, id, mediaId))
}

/** Resolves with the id of the item. Until the transaction ends, the media item is neither deleted nor paired. */
async function holdMediaItem(
  { tx, orgId }: Pick<Write<typeof albumActions.addMedia>, 'tx' | 'orgId'>,
  id: Uuid,
): Promise<Uuid> {
  const locked = await lockWithCounterpart(tx, orgId, id, 'share')
  if (!locked || locked.row.deletedAt !== null) throw notFound('body.media_id')
  const [half, counterpart] = locked.all
  return (half && counterpart && livePhotoOf(half, counterpart)?.image.id) ?? id
}

export async function removeMedia(
  request: Write<typeof albumActions.update>,
  id: Uuid,
  mediaId: Uuid,
  archive: Archive,
): Promise<void> {
  const { tx, orgId } = request
  const album = await lockForChange(request, id, archive)
  // Where a media item was used says to which event it belongs.
  await refuseHeld(tx, { people: [album.ownerId], organization: orgId, event: album.eventId })
  if (!(await deleteItem(tx, id, mediaId))) throw notFound()
  const row = await updateAlbum(tx, id)
  await recordItem(request, row, { change: 'media_removed', operation: 'remove_media', mediaId })
}

export async function captionMedia(
  request: Write<typeof albumActions.update>,
  id: Uuid,
  { mediaId, caption }: { mediaId: Uuid; caption: string | null },
  archive: Archive,
): Promise<AlbumItem> {
  const { tx, actor } = request
  await lockForChange(request, id, archive)
  if (!(await setCaption(tx, id, mediaId, { caption, captionBy: caption === null ? null : actor.userId })))
    throw notFound()
  const row = await updateAlbum(tx, id)
  await recordItem(request, row, { change: 'caption', operation: 'caption', mediaId })
  return found(await findItem(tx, id, mediaId))
}

/** A request for the present order changes nothing and sends no notification. */
export async function reorderMedia(
  request: Write<typeof albumActions.update>,
  id: Uuid,
  wanted: Uuid[],
  archive: Archive,
): Promise<void> {
  const { tx } = request
  await lockForChange(request, id, archive)
  const moves = movesOf(await listPlaces(tx, id), wanted)
  if (moves?.length === 0) return
  if (!moves || !(await moveItems(tx, id, moves))) {
    throw new Problem('REORDER_MISMATCH', 'The order must name each media item of the album once; load the album again')
  }
  const row = await updateAlbum(tx, id)
  await record(request, row, { change: 'media_reordered' }, { operation: 'reorder', moved: moves.length })
}

type Changing = Pick<Write<typeof albumActions.update>, 'tx' | 'orgId' | 'actor'> & {
  permit(row: SeenAlbum): SeenAlbum
  ready(row: StateOf<typeof albumActions.update>): boolean
}

/** In the order of the locks: the event, then the album. Refuses what is read-only. */
async function lockForChange(request: Changing, id: Uuid, archive: Archive): Promise<SeenAlbum> {
  const { tx, orgId, actor } = request
  const wanted = { orgId, id, callerId: actor.userId }
  const { eventId } = request.permit(found(await findAlbum(tx, wanted)))
  if (eventId !== null) found(await findEvent(tx, orgId, eventId, { lock: 'share' }))
  const album = request.permit(found(await findAlbum(tx, { ...wanted, lock: true })))
  request.ready(withArchive(album, archive))
  return album
}

type Recording = Pick<Write<typeof albumActions.update>, 'actor' | 'announce' | 'audit'>
type Updated = EventPayload<'AlbumUpdated'>

/** Announces a change of an album, and writes it to the audit log. */
async function record(
  { actor, announce, audit }: Recording,
  row: AlbumRow,
  { mediaId = null, ...changed }: Pick<Updated, 'change' | 'previous_visibility'> & { mediaId?: Uuid | null },
  details: AuditDetails,
): Promise<void> {
  await announce('AlbumUpdated', row, {
    ...idsOf(row),
    actor_id: actor.userId,
    ...changed,
    media_id: mediaId,
    status: row.status,
    visibility: row.visibility,
  })
  await audit('ALBUM_ACTION', row, details)
}

const recordItem = (
  request: Recording,
  row: AlbumRow,
  { change, operation, mediaId }: { change: Updated['change']; operation: string; mediaId: Uuid },
) => record(request, row, { change, mediaId }, { operation, media_id: formatId('media', mediaId) })

const show = async (
  { tx, orgId, actor }: Pick<Write<typeof albumActions.update>, 'tx' | 'orgId' | 'actor'>,
  { id }: AlbumRow,
): Promise<DetailedAlbum> => found(await findShownAlbum(tx, { orgId, id, by: 'album', callerId: actor.userId }))

const idsOf = ({ id, orgId }: AlbumRow) => ({
  album_id: id,
  org_id: orgId,
})
