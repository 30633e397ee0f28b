import { formatId, newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { notFound, Problem } from '../../../lib/contract/problem.ts'
import type { HighlightRow } from '../../db/schema/highlights.ts'
import { found } from '../../requests/found.ts'
import { lockPermitted } from '../../requests/lock-permitted.ts'
import type { Write } from '../../requests/request.ts'
import { findCaptions } from '../albums/item-queries.ts'
import { type Archive, withArchive } from '../albums/policy.ts'
import { findAlbum, findShownAlbum } from '../albums/queries.ts'
import { eventActions } from '../events/policy.ts'
import { findEvent } from '../events/queries.ts'
import type { CreatedHighlight, NewHighlight } from './highlight.ts'
import { estimateOf, itemOf, type Source, unavailable } from './plan.ts'
import type { highlightActions } from './policy.ts'
import { findHighlight, holdSources, insertHighlight, isTrackOffered, markDeleted } from './queries.ts'

type Creating = Pick<Write<typeof highlightActions.create>, 'tx' | 'orgId' | 'actor' | 'announce' | 'audit'>
type CreatingInAlbum = Write<typeof highlightActions.createInAlbum>

export const createHighlight = (request: Creating, given: NewHighlight) => record(request, given, null)

/** The event of the album may be archived: members still see the album, and may make highlights of it. */
export async function createAlbumHighlight(
  request: CreatingInAlbum,
  id: Uuid,
  given: NewHighlight,
  archive: Archive,
): Promise<CreatedHighlight> {
  const { tx, orgId, actor, permit, ready } = request
  // Locked, so that the album is not archived, and keeps the media items, before the highlight has them.
  const wanted = { orgId, id, callerId: actor.userId }
  const album = await lockPermitted((lock) => findAlbum(tx, { ...wanted, lock }), permit)
  ready(withArchive(album, archive))
  return record(request, given, id)
}

export async function createEventHighlight(
  request: CreatingInAlbum,
  eventId: Uuid,
  given: NewHighlight,
  archive: Archive,
): Promise<CreatedHighlight> {
  const { tx, orgId, actor, can } = request
  const event = found(await findEvent(tx, orgId, eventId))
  if (!can(eventActions.read, event)) throw notFound()
  const album = found(await findShownAlbum(tx, { orgId, callerId: actor.userId, by: 'event', id: eventId }))
  return createAlbumHighlight(request, album.id, given, archive)
}

/** The row, its items, the event that starts the render, and the audit entry: all or none. */
async function record(request: Creating, given: NewHighlight, albumId: Uuid | null): Promise<CreatedHighlight> {
  const { tx, orgId, actor, announce } = request
  const skipBroken = given.skip_broken ?? false
  const sources = await findSources(request, given.media_ids, { albumId, skipBroken })
  const musicTrackId = given.music_track_id ?? null
  if (musicTrackId !== null && !(await isTrackOffered(tx, musicTrackId))) throw trackNotFound()
  const transition = given.transition ?? 'cut'
  const captions = given.captions ?? 'none'
  const row = await insertHighlight(
    tx,
    {
      id: newUuid(),
      orgId,
      createdBy: actor.userId,
      albumId,
      title: given.title,
      transition,
      musicTrackId,
      orientation: given.orientation ?? 'auto',
      fill: given.fill ?? 'blur',
      kenBurns: given.ken_burns ?? true,
      showTitle: given.show_title ?? true,
      captions,
      skipBroken,
      estimatedDurationSec: estimateOf(sources, transition),
    },
    sources.map((source) => itemOf(source, captions)),
  )
  await announce('HighlightRequested', row, { ...idsOf(row), generation: row.generation })
  await auditCreation(request, row)
  return {
    highlight_id: row.id,
    album_id: row.albumId,
    status: row.status,
    estimated_duration_sec: row.estimatedDurationSec,
    skipped_media_ids: sources.flatMap(({ id, isUsable }) => (isUsable ? [] : [id])),
  }
}

/** Not the 404 of other references: the client asks the user to choose another track. */
const trackNotFound = () =>
  new Problem('MUSIC_TRACK_NOT_FOUND', 'There is no such music track, or it is no longer offered', {
    details: [{ field: 'body.music_track_id', issue: 'is not offered' }],
  })

/** In playback order, with those that are left out. They are not deleted before the transaction ends. */
async function findSources(
  { tx, orgId }: Creating,
  ids: readonly Uuid[],
  { albumId, skipBroken }: { albumId: Uuid | null; skipBroken: boolean },
): Promise<Source[]> {
  const held = new Map((await holdSources(tx, orgId, ids)).map((source) => [source.id, source]))
  const captions = albumId === null ? undefined : await findCaptions(tx, albumId, ids)
  const chosen = ids.map((id) => {
    const source = held.get(id)
    return source && { ...source, ...(captions?.get(id) ?? { caption: null, captionBy: null }) }
  })
  const refused = unavailable(chosen, { skipBroken, inAlbum: captions && (({ id }) => captions.has(id)) })
  if (refused.length > 0) {
    const details = refused.map(({ place, issue }) => ({ field: `body.media_ids.${place}`, issue }))
    throw new Problem('MEDIA_NOT_AVAILABLE', 'A media item is not available', { details })
  }
  return chosen.filter((source) => source !== undefined)
}

async function auditCreation({ audit }: Creating, row: HighlightRow): Promise<void> {
  const details = { operation: 'highlight', highlight_id: formatId('highlight', row.id) }
  if (row.albumId !== null) await audit('ALBUM_ACTION', { id: row.albumId }, details)
  else await audit('MEDIA_UPLOAD', row, details, 'highlight')
}

/** Its links stop working at once, and a render that is running is stopped. */
export async function deleteHighlight(request: Write<typeof highlightActions.delete>, id: Uuid): Promise<void> {
  const { tx, orgId, actor, permit, announce, audit } = request
  const wanted = { orgId, id, callerId: actor.userId }
  await lockPermitted((lock) => findHighlight(tx, { ...wanted, lock }), permit)
  const row = await markDeleted(tx, id, actor.userId)
  await announce('HighlightDeleted', row, { ...idsOf(row), deleted_at: (row.deletedAt as Date).toISOString() })
  await audit('MEDIA_DELETE', row, { operation: 'delete' }, 'highlight')
}

const idsOf = ({ id, orgId }: HighlightRow) => ({
  highlight_id: id,
  org_id: orgId,
})
