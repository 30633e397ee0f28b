import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import { afterCursor, microseconds } from '../../db/keyset.ts'
import { and, asc, desc, eq, getTableColumns, isNotNull, isNull, or, type SQL, sql, union } from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import type { RowOf } from '../../db/row-of.ts'
import type { AlbumRow } from '../../db/schema/albums.ts'
import { type HighlightRow, highlightItems, highlights, musicTracks } from '../../db/schema/highlights.ts'
import { media } from '../../db/schema/media.ts'
import type { PageWanted } from '../../requests/page.ts'
import { type SeenAlbum, visibleAlbums } from '../albums/queries.ts'
import type { Item, Source } from './plan.ts'

const capturedAt = sql`${media.manifest} -> 'source' ->> 'capturedAt'`

/**
 * `2026-11-21`, which the text of the file has by the clock of the camera; null where it does not say, or is not read yet.
 * A time of a video in UTC does not say it: where it was taken, it may have been the day before or after. Of an image, `Z`
 * means that the zone is unknown.
 */
export const takenOn = sql<string | null>`case when ${media.kind} = 'video' and ${capturedAt} like '%Z' then null
  else left(${capturedAt}, 10) end`

const caller = sql.placeholder('caller')

/** Its items, in playback order. Names are written out: in a query of one table drizzle leaves out the table. */
const items = sql<ShownItem[]>`(select json_agg(
    json_build_object('mediaId', i.media_id, 'type', i.type, 'skipped', i.skipped) order by i.position)
  from highlight_items i where i.highlight_id = highlights.id)`

/** The facts of the album on which the rules of `policy.ts` decide; null without an album. */
type Decisive = Pick<AlbumRow, 'ownerId' | 'status' | 'visibility'> &
  Pick<SeenAlbum, 'isParticipant' | 'eventOwnerId' | 'eventStatus'>
const album = sql<Decisive | null>`(select json_build_object('ownerId', a.owner_id, 'status', a.status,
    'visibility', a.visibility, 'eventStatus', (select e.status from events e where e.id = a.event_id),
    'eventOwnerId', (select e.owner_id from events e where e.id = a.event_id),
    'isParticipant', exists (select from event_participants p
      where p.event_id = a.event_id and p.user_id = ${caller} and p.status = 'accepted'))
  from albums a where a.id = highlights.album_id)`

const shown = { ...getTableColumns(highlights), createdAt: microseconds(highlights.createdAt), items, album }
export type ShownHighlight = RowOf<typeof shown>
type ShownItem = Pick<Item, 'mediaId' | 'type' | 'skipped'>

interface Asked {
  orgId: Uuid
  callerId: Uuid
}

/** A highlight that is not deleted. Whether the caller may see it is still to be decided. */
export async function findHighlight(
  tx: Tx,
  { orgId, id, callerId, lock = false }: Asked & { id: Uuid; lock?: boolean },
): Promise<ShownHighlight | undefined> {
  const name = `find_highlight_${lock ? 'locked' : 'unlocked'}`
  const values = { org: orgId, id, caller: callerId }
  const [row] = await prepared(tx, name, values, () => {
    const found = tx
      .select(shown)
      .from(highlights)
      .where(
        and(
          eq(highlights.orgId, sql.placeholder('org')),
          eq(highlights.id, sql.placeholder('id')),
          isNull(highlights.deletedAt),
        ),
      )
    return lock ? found.for('update') : found
  })
  return row
}

const newestFirst = [desc(highlights.createdAt), desc(highlights.id)]
const limit = sql.placeholder('limit')
const org = eq(highlights.orgId, sql.placeholder('org'))

/** What a list shows: all highlights of the organization, or those that the caller created or sees by an album. */
export type Listed =
  | { of: 'all' | 'visible' }
  /** The highlights of one album: all of them, or those that the caller created. */
  | { of: 'album' | 'created_in_album'; albumId: Uuid }

/**
 * The first ids of a list. A filter over the highlights of the organization would read all of them for a caller who sees
 * few: instead, the pages of what the caller created and of each visible album are merged. What is in both counts once.
 */
function firstOf(tx: Tx, position: SQL | undefined) {
  const { id, createdAt } = highlights
  const pageOf = (...part: SQL[]) =>
    tx
      .select({ id, createdAt })
      .from(highlights)
      .where(and(org, ...part, isNull(highlights.deletedAt), position))
      .orderBy(...newestFirst)
  const visible = visibleAlbums(tx)
  const ofVisible = pageOf(eq(highlights.albumId, visible.id)).limit(limit).as('highlights')
  const ofAlbums = tx
    .select({ id, createdAt })
    .from(visible)
    .crossJoinLateral(ofVisible)
    .orderBy(...newestFirst)
  const created = eq(highlights.createdBy, caller)
  const ofAlbum = eq(highlights.albumId, sql.placeholder('album'))
  return {
    all: () => pageOf().limit(limit),
    visible: () => union(pageOf(created).limit(limit), ofAlbums.limit(limit)),
    album: () => pageOf(ofAlbum).limit(limit),
    // Of an album that the caller does not see any more. It reads the highlights of the album, which are few.
    created_in_album: () => pageOf(ofAlbum, created).limit(limit),
  }
}

/** Newest first. */
export async function listHighlights(tx: Tx, o: Asked & PageWanted & { listed: Listed }): Promise<ShownHighlight[]> {
  const { of: kind } = o.listed
  const albumId = 'albumId' in o.listed ? o.listed.albumId : undefined
  const name = `list_highlights_${kind}_${o.after ? 'next' : 'first'}`
  const values = {
    org: o.orgId,
    caller: o.callerId,
    album: albumId,
    limit: o.limit,
    at: o.after?.at,
    id: o.after?.id,
  }
  return prepared(tx, name, values, () => {
    const merged = firstOf(tx, o.after && afterCursor(highlights.createdAt, highlights.id))
      [kind]()
      .as('merged')
    const page = tx.select().from(merged).orderBy(desc(merged.createdAt), desc(merged.id)).limit(limit).as('page')
    // There is one. The limit keeps the planner from reading the whole table where it takes the page for a large one.
    const itself = tx.select().from(highlights).where(eq(highlights.id, page.id)).limit(1).as('highlights')
    return tx
      .select(shown)
      .from(page)
      .crossJoinLateral(itself)
      .orderBy(...newestFirst)
  })
}

/**
 * Returns the media items that exist, in any order, and locks them in the order of `lockWithCounterpart`. None of them is
 * deleted before this transaction ends: a deletion that waits for it finds the highlight.
 */
export async function holdSources(
  tx: Tx,
  orgId: Uuid,
  ids: readonly Uuid[],
): Promise<Omit<Source, 'caption' | 'captionBy'>[]> {
  const rows = await prepared(tx, 'hold_sources', { org: orgId, ids }, () => {
    const given = sql`any(${sql.placeholder('ids')}::uuid[])`
    return tx
      .select({
        id: media.id,
        uploaderId: media.uploaderId,
        kind: media.kind,
        pairedMediaId: media.pairedMediaId,
        isUsable: sql<boolean>`${media.uploadStatus} <> 'failed'`,
        // Of the pictures, which is what a highlight shows. Their sound may go on.
        durationSec: sql<number | null>`(${media.manifest} -> 'source' ->> 'durationSec')::float8`,
        takenOn,
      })
      .from(media)
      .where(
        and(
          eq(media.orgId, sql.placeholder('org')),
          isNull(media.deletedAt),
          or(sql`${media.id} = ${given}`, sql`${media.pairedMediaId} = ${given}`),
        ),
      )
      .orderBy(asc(media.id))
      .for('share')
  })
  const byId = new Map(rows.map((row) => [row.id, row]))
  return ids.flatMap((id) => {
    const row = byId.get(id)
    if (!row) return []
    const half = row.kind === 'image' && row.pairedMediaId !== null ? byId.get(row.pairedMediaId) : undefined
    return [{ ...row, motion: half?.isUsable ? half : undefined }]
  })
}

/** Whether a new highlight may use the track. One that is retired at the same time still plays. */
export const isTrackOffered = async (tx: Tx, id: Uuid): Promise<boolean> =>
  (await tx.$count(musicTracks, and(eq(musicTracks.id, id), isNull(musicTracks.retiredAt)))) > 0

type NewHighlight = Pick<HighlightRow, keyof typeof PLACEHOLDERS>

export async function insertHighlight(tx: Tx, row: NewHighlight, of: readonly Item[]): Promise<HighlightRow> {
  const [made] = await prepared(tx, 'insert_highlight', { ...row }, () =>
    tx.insert(highlights).values(PLACEHOLDERS).returning(),
  )
  if (!made) throw new Error('a highlight was not inserted')
  // One parameter for all: a statement with hundreds takes longer to build and to parse than to run.
  await tx.execute(sql`
    insert into ${highlightItems} (highlight_id, org_id, position, media_id, source_id, uploader_id, type, seconds, caption,
      caption_by, skipped)
    select ${made.id}, ${made.orgId}, place - 1, i."mediaId", i."sourceId", i."uploaderId", i.type, i.seconds, i.caption,
      i."captionBy", i.skipped
    from rows from (jsonb_to_recordset(${JSON.stringify(of)}::jsonb) as ("mediaId" uuid, "sourceId" uuid,
      "uploaderId" uuid, type text, seconds float8, caption text, "captionBy" uuid, skipped text)) with ordinality
      as i("mediaId", "sourceId", "uploaderId", type, seconds, caption, "captionBy", skipped, place)`)
  return made
}

const PLACEHOLDERS = {
  id: sql.placeholder('id'),
  orgId: sql.placeholder('orgId'),
  createdBy: sql.placeholder('createdBy'),
  albumId: sql.placeholder('albumId'),
  title: sql.placeholder('title'),
  transition: sql.placeholder('transition'),
  musicTrackId: sql.placeholder('musicTrackId'),
  orientation: sql.placeholder('orientation'),
  fill: sql.placeholder('fill'),
  kenBurns: sql.placeholder('kenBurns'),
  showTitle: sql.placeholder('showTitle'),
  captions: sql.placeholder('captions'),
  skipBroken: sql.placeholder('skipBroken'),
  estimatedDurationSec: sql.placeholder('estimatedDurationSec'),
}

/** Deletes a highlight and withdraws it at once; the worker removes its files. Call it with the row locked. */
export async function markDeleted(tx: Tx, id: Uuid, by: Uuid): Promise<HighlightRow> {
  const [row] = await tx
    .update(highlights)
    .set({
      deletedAt: sql`now()`,
      deletedBy: by,
      purgeAt: sql`now()`,
      purgeLeaseUntil: null,
      version: sql`${highlights.version} + 1`,
      updatedAt: sql`now()`,
    })
    .where(eq(highlights.id, id))
    .returning()
  if (!row) throw new Error(`the highlight ${id} was locked and is gone`)
  return row
}

/** What delivery needs to know about a highlight before it sends a file. Undefined once the highlight is withdrawn. */
export async function findDeliveredHighlight(tx: Tx, orgId: Uuid, id: Uuid) {
  const [row] = await prepared(tx, 'find_delivered_highlight', { org: orgId, id }, () =>
    tx
      .select({ status: highlights.status })
      .from(highlights)
      .where(
        and(
          eq(highlights.orgId, sql.placeholder('org')),
          eq(highlights.id, sql.placeholder('id')),
          isNull(highlights.deletedAt),
          isNotNull(highlights.outputPrefix),
        ),
      ),
  )
  return row
}
