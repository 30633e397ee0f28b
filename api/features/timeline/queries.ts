import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Role } from '../../../lib/contract/roles.ts'
import type { Tx } from '../../db/db.ts'
import { type SQL, sql } from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import type { AlbumRow } from '../../db/schema/albums.ts'
import type { Audience, TargetType } from '../../db/schema/comments.ts'
import type { EventRow } from '../../db/schema/events.ts'
import type { RefType, TimelineItemRow, TimelineType } from '../../db/schema/timeline.ts'
import type { CursorPosition } from '../../requests/cursor.ts'
import type { WithVariants } from '../media/variants.ts'

/** Whose items: of all organizations of the caller, of one organization, or of one actor in those that the two share. */
export type Source = { of: 'feed' } | { of: 'organization'; orgId: Uuid } | { of: 'user'; userId: Uuid }

export interface Scan {
  source: Source
  callerId: Uuid
  after: CursorPosition | undefined
  from: Date | undefined
  to: Date | undefined
  /** How many items to look at. */
  limit: number
}

/** An item with the facts that decide whether the reader sees it, and what a page shows of it. */
export interface ScannedItem
  extends Pick<
    TimelineItemRow,
    'id' | 'orgId' | 'type' | 'actorId' | 'refType' | 'refId' | 'change' | 'summary' | 'eventId' | 'albumId'
  > {
  at: string
  /** Of the reader in the organization. */
  role: Role
  actorName: string | null
  /** Whether the actor is a member, or takes part in the event. */
  isActorPresent: boolean
  event: Pick<EventRow, 'ownerId' | 'status' | 'title'> | null
  album: (Pick<AlbumRow, 'id' | 'ownerId' | 'status' | 'visibility' | 'title'> & { isParticipant: boolean }) | null
  about: { audience?: Audience; on?: TargetType; emoji?: string } | null
  total: number
  media: ItemMedia[] | null
}
export interface ItemMedia extends Omit<WithVariants, 'livePhotoVideo'> {
  kind: 'image' | 'video'
  placeholder: string | null
}

const NIL: Uuid = '00000000-0000-0000-0000-000000000000'
const p = (name: string) => sql.placeholder(name)

/** The organizations that are read. */
const ORGANIZATIONS: Record<Source['of'], SQL> = {
  feed: sql`select m.org_id from memberships m where m.user_id = ${p('caller')}::uuid`,
  organization: sql`select ${p('org')}::uuid as org_id`,
  user: sql`select s.org_id from shared_organizations(${p('actor')}::uuid) s`,
}

/**
 * The next items below a cursor, newest first, visible or not. A page of k items has items of the k organizations with the
 * newest ones alone, and of the r-th of these at most k - r + 1; where there are k, none is older than the newest of the
 * last of them. The cost depends on the page and on the number of organizations, and not on how many items there are.
 */
export async function scanItems(tx: Tx, o: Scan): Promise<ScannedItem[]> {
  const { of: kind } = o.source
  const name = `scan_timeline_${kind}${o.after ? '_next' : ''}${o.from ? '_from' : ''}${o.to ? '_to' : ''}`
  const values = {
    caller: o.callerId,
    org: 'orgId' in o.source ? o.source.orgId : undefined,
    actor: 'userId' in o.source ? o.source.userId : undefined,
    at: o.after?.at,
    id: o.after?.id,
    from: o.from?.toISOString(),
    to: o.to?.toISOString(),
    limit: o.limit,
  }
  return prepared(tx, name, values, () => {
    const these = sql.join(
      [
        sql`i.org_id = o.org_id and i.hidden_at is null`,
        ...(kind === 'user' ? [sql`i.actor_id = ${p('actor')}::uuid`] : []),
        ...(o.after ? [sql`(i.at, i.id) < (${p('at')}::timestamptz, ${p('id')}::uuid)`] : []),
        ...(o.from ? [sql`i.at >= ${p('from')}::timestamptz`] : []),
        ...(o.to ? [sql`i.at < ${p('to')}::timestamptz`] : []),
      ],
      sql` and `,
    )
    const page = sql`
      with heads as materialized (
        select o.org_id, head.at, head.id, row_number() over (order by head.at desc, head.id desc) as rank
        from (${ORGANIZATIONS[kind]}) o cross join lateral (
          select i.at, i.id from timeline_items i where ${these} order by i.at desc, i.id desc limit 1) head
        order by head.at desc, head.id desc limit ${p('limit')}::integer
      ), bound as materialized (
        select b.at, b.id from (
          select at, id from heads where rank = ${p('limit')}::integer
          union all select '-infinity', '${sql.raw(NIL)}') b
        order by b.at desc limit 1
      ), page as materialized (
        select i.id from heads o cross join bound cross join lateral (
          select i.at, i.id from timeline_items i where ${these} and (i.at, i.id) >= (bound.at, bound.id)
          order by i.at desc, i.id desc
          limit ${p('limit')}::integer - o.rank + 1) i
        order by i.at desc, i.id desc limit ${p('limit')}::integer
      )
      select f.* from timeline_facts(${p('caller')}::uuid, array(select id from page)) f`
    return tx
      .select({
        id: sql<Uuid>`f.id`,
        orgId: sql<Uuid>`f.org_id`,
        type: sql<ScannedItem['type']>`f.type`,
        actorId: sql<Uuid>`f.actor_id`,
        refType: sql<ScannedItem['refType']>`f.ref_type`,
        refId: sql<Uuid>`f.ref_id`,
        at: sql<string>`to_char(f.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`,
        change: sql<ScannedItem['change']>`f.change`,
        summary: sql<string | null>`f.summary`,
        eventId: sql<Uuid | null>`f.event_id`,
        albumId: sql<Uuid | null>`f.album_id`,
        role: sql<Role>`f.role`,
        actorName: sql<string | null>`f.actor_name`,
        // Only where it is not known: of few items.
        isActorPresent: sql<boolean>`f.actor_name is not null or is_present(f.org_id, f.event_id, f.actor_id)`,
        event: sql<ScannedItem['event']>`f.event`,
        album: sql<ScannedItem['album']>`f.album`,
        about: sql<ScannedItem['about']>`f.about`,
        total: sql<number>`f.total`,
        media: sql<ItemMedia[] | null>`f.media`,
      })
      .from(sql`(${page}) f`)
      .orderBy(sql`f.at desc, f.id desc`)
  })
}

/**
 * The organizations that are read, with all on which their timelines depend for this reader: another text whenever that
 * changes; null where there is none. Call in the scope of the caller. Of another user, the organizations that the two share.
 */
export async function findFeedState(tx: Tx, source: Exclude<Source, { of: 'organization' }>): Promise<string | null> {
  const values = { actor: 'userId' in source ? source.userId : undefined }
  const shared =
    source.of === 'user' ? sql`where m.org_id in (select org_id from shared_organizations(${p('actor')}::uuid))` : sql``
  const [row] = await prepared(tx, `find_feed_state_${source.of}`, values, () =>
    tx
      // One row, because rows are what a poll of many organizations costs here.
      .select({
        state: sql<string | null>`string_agg(v.org_id || ' ' || v.role || ' ' || v.n, ',' order by v.org_id)`,
      })
      .from(
        // Row-level security leaves the caller's own memberships. A version is looked up for each of them: joined, the plan
        // depends on how many organizations the first caller of the connection has, and can compare all with all.
        sql`(select m.org_id, m.role,
            coalesce((select f.n from feed_versions f where f.org_id = m.org_id), 0) as n
          from memberships m ${shared}) v`,
      ),
  )
  return row?.state ?? null
}

/** An item that a service tells of. */
export interface NewItem {
  type: TimelineType
  actorId: Uuid
  orgId: Uuid
  refType: RefType
  refId: Uuid
  /** One line; without it, the text that items of this type have. */
  summary?: string | undefined
  /** The position; now if left out. */
  createdAt?: Date | undefined
  /** Items of one organization with the same key are one. */
  dedupeKey: string
}

interface Ownership {
  eventId: Uuid | null
  albumId: Uuid | null
}

/** The event and the album that decide who sees an item about this; undefined if the organization has no such thing. */
export async function findOwnership(
  tx: Tx,
  { orgId, refType, refId }: Pick<NewItem, 'orgId' | 'refType' | 'refId'>,
): Promise<Ownership | undefined> {
  const found: Record<NewItem['refType'], SQL> = {
    event: sql`select id as "eventId", null::uuid as "albumId" from events`,
    album: sql`select event_id as "eventId", id as "albumId" from albums`,
    media: sql`select null::uuid as "eventId", null::uuid as "albumId" from media`,
    user: sql`select null::uuid as "eventId", null::uuid as "albumId" from memberships`,
    comment: sql`select event_id as "eventId", null::uuid as "albumId" from comments`,
    reaction: sql`select event_id as "eventId", null::uuid as "albumId" from reactions`,
  }
  const id = refType === 'user' ? sql`user_id` : sql`id`
  const { rows } = await tx.execute<Ownership & Record<string, unknown>>(
    sql`${found[refType]} where org_id = ${orgId} and ${id} = ${refId}`,
  )
  return rows[0]
}

export async function insertRow(tx: Tx, item: NewItem & Ownership): Promise<{ id: Uuid; isNew: boolean }> {
  // The membership that began then is the one that the item is about: see timeline_facts (migration 0029).
  const ofMember = sql`(select joined_at from memberships where org_id = ${item.orgId} and user_id = ${item.refId})`
  const beganAt = item.type === 'member_joined' ? ofMember : sql`null::timestamptz`
  const id = sql`timeline_item_id('internal', ${item.orgId}::text, ${item.dedupeKey}::text)`
  const { rows } = await tx.execute<{ id: Uuid; isNew: boolean }>(sql`
    with inserted as (
      insert into timeline_items (id, org_id, type, actor_id, ref_type, ref_id, at, event_id, album_id, summary)
        values (${id}, ${item.orgId}, ${item.type}, ${item.actorId}, ${item.refType}, ${item.refId},
          date_trunc('milliseconds', coalesce(${beganAt}, ${item.createdAt?.toISOString() ?? null}::timestamptz, now())),
          ${item.eventId}, ${item.albumId}, ${item.summary ?? null})
        on conflict (id) do nothing returning id
    )
    select ${id} as id, exists (select from inserted) as "isNew"`)
  const [row] = rows
  if (!row) throw new Error('a statement that always has a row had none')
  return row
}

export async function hideRow(tx: Tx, orgId: Uuid, id: Uuid): Promise<boolean> {
  const { rowCount } = await tx.execute(sql`
    update timeline_items set hidden_at = now() where org_id = ${orgId} and id = ${id} and hidden_at is null`)
  return rowCount === 1
}
