import type { HighlightManifest } from '../../../../lib/contract/highlight-manifest.ts'
import { formatId, type Uuid } from '../../../../lib/contract/ids.ts'
import type { OriginalTier } from '../../../../lib/contract/object-keys.ts'
import type { Tx } from '../../../db/db.ts'
import {
  and,
  asc,
  eq,
  exists,
  getTableColumns,
  gt,
  inArray,
  isNotNull,
  isNull,
  lte,
  ne,
  or,
  type SQL,
  sql,
} from '../../../db/orm.ts'
import { type HighlightError, highlightItems, highlights } from '../../../db/schema/highlights.ts'
import { media } from '../../../db/schema/media.ts'
import { isHeld, lockHolds } from '../../../retention/holds-queries.ts'
import type { RunKey, RunTable } from '../../../worker/runs/kind.ts'
import type { HighlightToRender } from './render-spec.ts'

/** The highlight is withdrawn, and its files are removed. */
const WITHDRAWN = {
  status: 'failed',
  outputPrefix: null,
  hlsMaster: null,
  purgeAt: sql`now()`,
  purgeLeaseUntil: null,
  purgeLooks: 0,
} as const

export const RENDERED_HIGHLIGHTS: RunTable<HighlightManifest> = {
  table: highlights,
  columns: {
    id: highlights.id,
    orgId: highlights.orgId,
    generation: highlights.generation,
    version: highlights.version,
    status: highlights.status,
    state: highlights.renderState,
    attempts: highlights.renderAttempts,
    startedAt: highlights.renderStartedAt,
    finishedAt: highlights.finishedAt,
    admittedAt: highlights.renderAdmittedAt,
    progress: highlights.renderProgress,
    error: highlights.error,
    outputPrefix: highlights.outputPrefix,
    hlsMaster: highlights.hlsMaster,
    updatedAt: highlights.updatedAt,
    deletedAt: highlights.deletedAt,
  },
  more: {},
  mayHaveResource: isNotNull(highlights.renderAdmittedAt),
  made: ({ hls, images }) => ({
    hlsMaster: hls.master,
    webpFile: images?.webp.file ?? null,
    thumbFile: images?.thumb.file ?? null,
    placeholder: images?.placeholder ?? null,
    durationSec: hls.durationSec,
  }),
  failed: WITHDRAWN,
}

/** A highlight whose files are to be removed. */
export async function findWithdrawn(tx: Tx, id: Uuid): Promise<RunKey | undefined> {
  const [row] = await tx
    .select({ id: highlights.id, generation: highlights.generation })
    .from(highlights)
    .where(and(eq(highlights.id, id), isNotNull(highlights.purgeAt)))
  return row
}

/** Items that the creation of the highlight did not leave out. */
const isShown = isNull(highlightItems.skipped)

const rendering = and(eq(highlights.status, 'processing'), isNull(highlights.deletedAt))

/** What an admitted highlight is made of; undefined when it waits, is finished or deleted. */
export async function findToRender(tx: Tx, id: Uuid): Promise<HighlightToRender | undefined> {
  const [row] = await tx
    .select()
    .from(highlights)
    .where(and(eq(highlights.id, id), rendering, isNotNull(highlights.renderAdmittedAt)))
  if (!row) return undefined
  const items = await tx
    // A source that is gone fails the render, wherever it was.
    .select({
      ...getTableColumns(highlightItems),
      originalTier: sql<OriginalTier>`coalesce(${media.originalTier}, 'hot')`,
    })
    .from(highlightItems)
    .leftJoin(media, eq(media.id, highlightItems.sourceId))
    .where(and(eq(highlightItems.highlightId, id), isShown))
    .orderBy(asc(highlightItems.position))
  return { ...row, items }
}

/** Highlights that are made of this media item, and not finished. */
export async function listRenderingWith(tx: Tx, mediaId: Uuid): Promise<Uuid[]> {
  const rows = await tx
    .selectDistinct({ id: highlights.id })
    .from(highlightItems)
    .innerJoin(highlights, eq(highlights.id, highlightItems.highlightId))
    .where(and(or(eq(highlightItems.mediaId, mediaId), eq(highlightItems.sourceId, mediaId)), isShown, rendering))
  return rows.map(({ id }) => id)
}

/**
 * The first media item of the highlight that is deleted or gone; undefined while all are there. None of them is deleted or
 * restored before this transaction ends. Lock the highlight after it: media items come first everywhere.
 */
export async function holdDeletedSource(tx: Tx, highlightId: Uuid): Promise<Uuid | undefined> {
  const items = await tx
    .select({ mediaId: highlightItems.mediaId, sourceId: highlightItems.sourceId })
    .from(highlightItems)
    .where(and(eq(highlightItems.highlightId, highlightId), isShown))
    .orderBy(asc(highlightItems.position))
  const ids = items.flatMap(({ mediaId, sourceId }) => [mediaId, sourceId])
  const rows = await tx
    .select({ id: media.id, deletedAt: media.deletedAt })
    .from(media)
    .where(inArray(media.id, ids))
    .orderBy(asc(media.id))
    .for('share')
  const there = new Set(rows.flatMap(({ id, deletedAt }) => (deletedAt === null ? [id] : [])))
  return items.find(({ mediaId, sourceId }) => !there.has(mediaId) || !there.has(sourceId))?.mediaId
}

/** What the event about a highlight says, with its media items in playback order. */
export async function findRendered(tx: Tx, id: Uuid) {
  const { orgId, version, outputPrefix, hlsMaster } = highlights
  const mediaIds = sql<Uuid[]>`array(select i.media_id from highlight_items i where i.highlight_id = highlights.id
    order by i.position)`
  const [row] = await tx
    .select({ id: highlights.id, orgId, version, outputPrefix, hlsMaster, mediaIds })
    .from(highlights)
    .where(eq(highlights.id, id))
  if (!row) throw new Error(`there is no highlight ${id}`)
  return row
}

/**
 * Withdraws highlights, finished or not, in which media items of this user are, and removes the captions of all that were
 * chosen for one. Begins behind `after`, in order of id. Returns the last that it found, and how many it has withdrawn,
 * which another transaction had not withdrawn meanwhile.
 */
export async function withdrawHighlightsOf(
  tx: Tx,
  o: { userId: Uuid; error: HighlightError; after: Uuid | undefined; limit: number },
): Promise<{ last: Uuid | undefined; withdrawn: number }> {
  const theirs = (more?: SQL) =>
    exists(
      tx
        .select({ one: sql`1` })
        .from(highlightItems)
        .where(and(eq(highlightItems.highlightId, highlights.id), eq(highlightItems.uploaderId, o.userId), more)),
    )
  // Apart from the rest of the condition, so that the index on uploaders finds the highlights.
  const isLeft = and(
    theirs(),
    or(
      and(sql`${highlights.error} ->> 'code' is distinct from ${o.error.code}`, theirs(isShown)),
      // A highlight that was withdrawn for another user.
      theirs(ne(highlightItems.caption, '')),
    ),
  )
  const idsOf = (condition: SQL | undefined) => tx.select({ id: highlights.id }).from(highlights).where(condition)
  // In order of id, and before their items: otherwise two erasures could wait for each other.
  const locked = await idsOf(and(isLeft, o.after && gt(highlights.id, o.after)))
    .orderBy(asc(highlights.id))
    .limit(o.limit)
    .for('update')
  const last = locked.at(-1)?.id
  if (last === undefined) return { last, withdrawn: 0 }
  const among = inArray(
    highlights.id,
    locked.map(({ id }) => id),
  )
  // A separate statement: the locking statement sees the captions as they were before it waited.
  const left = await tx
    .select({
      id: highlights.id,
      skipped: sql<HighlightManifest['skipped'] | null>`${highlights.manifest} -> 'skipped'`,
      mediaIds: sql<Uuid[]>`array(select i.media_id from highlight_items i
        where i.highlight_id = highlights.id and i.uploader_id = ${o.userId} and i.skipped is null)`,
    })
    .from(highlights)
    .where(and(among, isLeft))
  if (left.length === 0) return { last, withdrawn: 0 }
  // What the render left out is not to be seen in the highlight, which stays.
  const ids = left.flatMap(({ id, skipped, mediaIds }) => {
    const leftOut = new Set(skipped?.map((item) => item.id))
    return mediaIds.some((mediaId) => !leftOut.has(formatId('media', mediaId))) ? [id] : []
  })
  // One statement: a highlight is never withdrawn with the captions left.
  const blanked = tx.$with('blanked').as(
    tx
      .update(highlightItems)
      .set({ caption: '' })
      .where(
        and(
          inArray(
            highlightItems.highlightId,
            left.map(({ id }) => id),
          ),
          eq(highlightItems.uploaderId, o.userId),
        ),
      )
      .returning({ highlightId: highlightItems.highlightId }),
  )
  await tx
    .with(blanked)
    .update(highlights)
    .set({
      version: sql`${highlights.version} + 1`,
      updatedAt: sql`now()`,
      finishedAt: sql`now()`,
      renderProgress: null,
      ...WITHDRAWN,
      webpFile: null,
      thumbFile: null,
      placeholder: null,
      manifest: null,
      durationSec: null,
      renderState: 'failed',
      error: o.error,
    })
    .where(inArray(highlights.id, ids))
  return { last, withdrawn: ids.length }
}

/** The hold on a highlight: on who made it, its organization, or the event of its album. */
const isHighlightHeld = isHeld({
  person: sql`highlights.created_by`,
  organization: sql`highlights.org_id`,
  event: (id) => sql`exists (select from albums al where al.id = highlights.album_id and al.event_id = ${id})`,
})

/** Whether a hold keeps the files of the highlight. */
export async function isKept(tx: Tx, id: Uuid): Promise<boolean> {
  return (await tx.$count(highlights, and(eq(highlights.id, id), isHighlightHeld))) > 0
}

/**
 * Claims highlights whose files are to be removed. Until the lease ends no other worker gets them. Those under a hold are
 * due again when it ends.
 */
export async function claimPurges(tx: Tx, o: { limit: number; leaseSeconds: number }) {
  // A common table expression with FOR UPDATE runs once; as a subquery it could run per row and lock more than `limit`.
  const due = tx.$with('due').as(
    tx
      .select({ id: highlights.id })
      .from(highlights)
      .where(
        and(
          lte(highlights.purgeAt, sql`now()`),
          sql`coalesce(${highlights.purgeLeaseUntil} <= now(), true)`,
          sql`not ${isHighlightHeld}`,
        ),
      )
      .orderBy(asc(highlights.purgeAt))
      .limit(o.limit)
      .for('update', { skipLocked: true }),
  )
  return tx
    .with(due)
    .update(highlights)
    .set({ purgeLeaseUntil: sql`now() + make_interval(secs => ${o.leaseSeconds})` })
    .where(inArray(highlights.id, sql`(select id from ${due})`))
    .returning({
      id: highlights.id,
      orgId: highlights.orgId,
      generation: highlights.generation,
      version: highlights.version,
      looks: highlights.purgeLooks,
    })
}

/**
 * When to look next; undefined for never again: then a deleted highlight goes, with its items. Does nothing if the
 * highlight changed since it was claimed: one that was deleted meanwhile has its looks before it. Nor under a hold that came
 * meanwhile: the row says what there was.
 */
export async function recordPurge(
  tx: Tx,
  highlight: { id: Uuid; version: number },
  next: { looks: number; inSeconds: number } | undefined,
): Promise<void> {
  await lockHolds(tx)
  if (await isKept(tx, highlight.id)) return
  const isUnchanged = and(
    eq(highlights.id, highlight.id),
    eq(highlights.version, highlight.version),
    isNotNull(highlights.purgeAt),
  )
  if (!next) await tx.delete(highlights).where(and(isUnchanged, isNotNull(highlights.deletedAt)))
  await tx
    .update(highlights)
    .set({
      purgeLooks: next?.looks ?? 0,
      purgeAt: next ? sql`now() + make_interval(secs => ${next.inSeconds})` : null,
      purgeLeaseUntil: null,
    })
    .where(isUnchanged)
}

/** How long the oldest highlight has been due for its purge, in seconds; 0 when none is. */
export async function oldestHighlightPurgeSeconds(tx: Tx): Promise<number> {
  const { rows } = await tx.execute<{ seconds: number }>(sql`
    select greatest(0, coalesce(extract(epoch from now() - min(purge_at)), 0))::float8 as seconds
    from ${highlights} where purge_at is not null`)
  return rows[0]?.seconds ?? 0
}
