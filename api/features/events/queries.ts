import type { Id, Uuid } from '../../../lib/contract/ids.ts'
import type { Role } from '../../../lib/contract/roles.ts'
import type { Tx } from '../../db/db.ts'
import { afterCursor, microseconds } from '../../db/keyset.ts'
import {
  and,
  desc,
  eq,
  getTableColumns,
  isNotNull,
  ne,
  or,
  type PgUpdateSetSource,
  type Placeholder,
  type SQL,
  sql,
  unionAll,
} from '../../db/orm.ts'
import { prepared } from '../../db/prepared.ts'
import type { RowOf } from '../../db/row-of.ts'
import { albums } from '../../db/schema/albums.ts'
import {
  type EventRow,
  type EventStatus,
  eventParticipants,
  events,
  type ParticipantStatus,
} from '../../db/schema/events.ts'
import { memberships } from '../../db/schema/organizations.ts'
import { users } from '../../db/schema/users.ts'
import type { PageWanted } from '../../requests/page.ts'
import { ownReaction, reactionCounts } from '../reaction-counts/queries.ts'
import type { columnsOf } from './plan.ts'
import { shownPurgeTime } from './purge-time-queries.ts'

const org = sql.placeholder('org')
const caller = sql.placeholder('caller')
const limit = sql.placeholder('limit')

/**
 * An event in whatever state. The lock order is event, album, comment, media item, and event, invitation, membership,
 * participant, as the trigger end_participation has it: a transaction that changes what belongs to an event locks the
 * event `for share` first, and one that changes the event itself `for update`. So an archive waits for changes in
 * progress, and those that come after it see it.
 */
export const findEvent = (tx: Tx, orgId: Uuid, id: Uuid, { lock }: Locking = {}): Promise<EventRow | undefined> =>
  inQueue(tx, id, lock, () =>
    prepared(tx, `find_event_${lock ?? 'unlocked'}`, { org: orgId, id }, () => {
      const found = tx.select().from(events).where(isThis)
      return lock ? found.for(lock) : found
    }),
  )

interface Locking {
  lock?: 'share' | 'update'
}
const isThis = and(eq(events.orgId, org), eq(events.id, sql.placeholder('id')))

async function inQueue<T>(tx: Tx, id: Uuid, lock: Locking['lock'], find: () => Promise<T[]>): Promise<T | undefined> {
  // Both leave together; the second runs when the first is over.
  const queued = lock && queueFor(tx, id, lock)
  const rows = find()
  // If the first fails, the second fails too, and only the first one says why.
  rows.catch(() => {})
  await queued
  return (await rows)[0]
}

/**
 * The lock of a row lets others share it while one waits for it alone, so that an archive would wait as long as people
 * react: Postgres grants advisory locks in the order of the requests. Every transaction takes this one for one event at
 * most.
 */
async function queueFor(tx: Tx, id: Uuid, lock: 'share' | 'update'): Promise<void> {
  const take = sql.raw(lock === 'share' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock')
  await prepared(tx, `queue_for_event_${lock}`, { id }, () =>
    tx
      .select({ taken: sql`${take}(hashtextextended('event ' || ${sql.placeholder('id')}::text, 0))` })
      .from(sql`(select 1) one`),
  )
}

/** The same, and whether this caller takes part in it: for actions that admit guests. */
export const findEventFor = (
  tx: Tx,
  orgId: Uuid,
  id: Uuid,
  callerId: Uuid,
  { lock }: Locking = {},
): Promise<EventFor | undefined> =>
  inQueue(tx, id, lock, () =>
    prepared(tx, `find_event_for_${lock ?? 'unlocked'}`, { org: orgId, id, caller: callerId }, () => {
      const found = tx.select(forCaller).from(events).where(isThis)
      return lock ? found.for(lock) : found
    }),
  )

/** Whether this user has accepted an invitation to the event of the row. Write out the names of its columns. */
export const isParticipant = (event: SQL, user: SQL | Placeholder) => sql<boolean>`exists (select
  from event_participants p where p.event_id = ${event} and p.user_id = ${user} and p.status = 'accepted')`

/** Whether this user takes part in an event of the organization that is no draft. */
export async function takesPart(
  tx: Tx,
  { orgId, userId, eventId }: { orgId: Uuid; userId: Uuid; eventId?: Uuid | undefined },
): Promise<boolean> {
  const [row] = await tx
    .select({ id: events.id })
    .from(eventParticipants)
    .innerJoin(events, eq(events.id, eventParticipants.eventId))
    .where(
      and(
        eq(eventParticipants.orgId, orgId),
        eq(eventParticipants.userId, userId),
        eq(eventParticipants.status, 'accepted'),
        ne(events.status, 'draft'),
        eventId === undefined ? undefined : eq(events.id, eventId),
      ),
    )
    .limit(1)
  return row !== undefined
}

const forCaller = { ...getTableColumns(events), isParticipant: isParticipant(sql`events.id`, caller) }
export type EventFor = RowOf<typeof forCaller>

const reactedTo = { type: 'meta', event: sql`events.id`, id: sql`events.id` } as const

/**
 * What callers see of an event. Counts are counted, so they cannot drift; each subquery is a look-up in an index for the
 * rows of the page alone. Names are written out: in a query of one table drizzle leaves out the table.
 */
const shown = {
  id: events.id,
  orgId: events.orgId,
  ownerId: events.ownerId,
  // An owner who has left has no name here any more.
  hostName: sql<string | null>`(select u.display_name from memberships m join users u on u.id = m.user_id
    where m.org_id = events.org_id and m.user_id = events.owner_id)`,
  title: events.title,
  description: events.description,
  startAt: events.startAt,
  endAt: events.endAt,
  locationName: events.locationName,
  latitude: events.latitude,
  longitude: events.longitude,
  status: events.status,
  createdAt: microseconds(events.createdAt),
  updatedAt: events.updatedAt,
  activatedAt: events.activatedAt,
  archivedAt: events.archivedAt,
  purgeAt: shownPurgeTime(sql`events`).mapWith(events.archivedAt),
  participantCount: sql<number>`(select count(*)::int from event_participants p
    where p.event_id = events.id and p.status = 'accepted')`,
  participation: sql<ParticipantStatus | null>`(select p.status from event_participants p
    where p.event_id = events.id and p.user_id = ${caller})`,
  // At most one, by the index invitations_pending_user. What could not be answered now is left out.
  invitationId: sql<Id<'invitation'> | null>`(select i.id from invitations i
    where i.event_id = events.id and i.user_id = ${caller} and i.status = 'pending'
      and events.status = 'active')`,
  reactionCounts: reactionCounts(reactedTo),
  myReaction: ownReaction(reactedTo, sql`${caller}`),
}
const album = { id: albums.id, ownerId: albums.ownerId, status: albums.status, visibility: albums.visibility }
export type ShownEvent = RowOf<typeof shown> & { album: RowOf<typeof album> | null }

/** An event as this caller sees it. Whether the caller may see it at all is decided on `ownerId` and `status`. */
export async function findShownEvent(tx: Tx, orgId: Uuid, id: Uuid, callerId: Uuid): Promise<ShownEvent | undefined> {
  const [row] = await prepared(tx, 'find_shown_event', { org: orgId, id, caller: callerId }, () =>
    tx
      .select({ ...shown, album })
      .from(events)
      .leftJoin(albums, eq(albums.eventId, events.id))
      .where(and(eq(events.orgId, org), eq(events.id, sql.placeholder('id')))),
  )
  return row
}

export interface ListEventsOptions extends PageWanted {
  orgId: Uuid
  callerId: Uuid
  status: EventStatus | undefined
  /** Whether the drafts of others are in the list. */
  allDrafts: boolean
}

// Written out instead of passed: the planner compares it with the predicate of the partial index.
const has = (status: EventStatus) => sql`${events.status} = ${sql.raw(`'${status}'`)}`
const OWN_DRAFTS = and(has('draft'), eq(events.ownerId, caller))
const PUBLISHED = [has('active'), has('archived')]

/** The parts of each kind of list. A page merges one page of each part, so that it skips no drafts of other users. */
const PARTS = {
  all: [has('draft'), ...PUBLISHED],
  visible: [OWN_DRAFTS, ...PUBLISHED],
  own_draft: [OWN_DRAFTS],
  draft: [has('draft')],
  active: [has('active')],
  archived: [has('archived')],
} satisfies Record<string, Parts>
type Parts = [SQL | undefined, ...SQL[]]

function kindOf({ status, allDrafts }: ListEventsOptions): keyof typeof PARTS {
  if (status === undefined) return allDrafts ? 'all' : 'visible'
  return status === 'draft' && !allDrafts ? 'own_draft' : status
}

const newestFirst = [desc(events.createdAt), desc(events.id)]

/** Newest first. */
export async function listEvents(tx: Tx, o: ListEventsOptions): Promise<ShownEvent[]> {
  const kind = kindOf(o)
  const position = o.after && afterCursor(events.createdAt, events.id)
  const name = `list_events_${kind}_${o.after ? 'next' : 'first'}`
  const values = {
    org: o.orgId,
    caller: o.callerId,
    limit: o.limit,
    at: o.after?.at,
    id: o.after?.id,
  }
  return prepared(tx, name, values, () => {
    const pageOf = (part: SQL | undefined) =>
      tx
        .select()
        .from(events)
        .where(and(eq(events.orgId, org), part, position))
        .orderBy(...newestFirst)
        .limit(limit)
    const [first, ...others]: Parts = PARTS[kind]
    const [second, ...rest] = others.map(pageOf)
    const rows = second ? unionAll(pageOf(first), second, ...rest) : pageOf(first)
    return tx
      .select({ ...shown, album })
      .from(rows.as('events'))
      .leftJoin(albums, eq(albums.eventId, events.id))
      .orderBy(...newestFirst)
      .limit(limit)
  })
}

const shownOfParticipant = {
  id: sql<Uuid>`(f.event).id`,
  orgId: sql<Uuid>`(f.event).org_id`,
  ownerId: sql<Uuid>`(f.event).owner_id`,
  hostName: sql<string | null>`f.host_name`,
  title: sql<string>`(f.event).title`,
  description: sql<string | null>`(f.event).description`,
  startAt: sql<Date>`(f.event).start_at`.mapWith(events.startAt),
  endAt: sql<Date | null>`(f.event).end_at`.mapWith(events.endAt),
  locationName: sql<string | null>`(f.event).location_name`,
  latitude: sql<number | null>`(f.event).latitude`,
  longitude: sql<number | null>`(f.event).longitude`,
  status: sql<EventStatus>`(f.event).status`,
  createdAt: sql<string>`to_char((f.event).created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
  updatedAt: sql<Date>`(f.event).updated_at`.mapWith(events.updatedAt),
  activatedAt: sql<Date | null>`(f.event).activated_at`.mapWith(events.activatedAt),
  archivedAt: sql<Date | null>`(f.event).archived_at`.mapWith(events.archivedAt),
  purgeAt: shownPurgeTime(sql`(f.event)`).mapWith(events.archivedAt),
  participantCount: sql<number>`f.participant_count`,
  participation: sql<ParticipantStatus | null>`'accepted'`,
  invitationId: sql<Id<'invitation'> | null>`f.invitation_id`,
  reactionCounts: sql<ShownEvent['reactionCounts']>`f.reaction_counts`,
  myReaction: sql<ShownEvent['myReaction']>`f.my_reaction`,
  album: sql<ShownEvent['album']>`f.album`,
  orgName: sql<string>`f.org_name`,
  /** Of the caller; null for a guest. */
  role: sql<Role | null>`f.role`,
  joinedAt: sql<string>`to_char(f.joined_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
}
export type EventOfParticipant = RowOf<typeof shownOfParticipant>

/** The events that the user of the scope takes part in, the latest joined first: see migration 0041. */
export async function listEventsOfParticipant(
  tx: Tx,
  o: PageWanted & { status: EventStatus | undefined; asGuest: boolean | undefined },
): Promise<EventOfParticipant[]> {
  const values = {
    status: o.status ?? null,
    asGuest: o.asGuest ?? null,
    at: o.after?.at ?? null,
    id: o.after?.id ?? null,
    limit: o.limit,
  }
  const p = (name: keyof typeof values) => sql.placeholder(name)
  return prepared(tx, 'list_events_of_participant', values, () =>
    tx
      .select(shownOfParticipant)
      .from(
        sql`events_of_participant(${p('status')}::text, ${p('asGuest')}::boolean, ${p('at')}::timestamptz,
          ${p('id')}::uuid, ${p('limit')}::integer) f`,
      )
      .orderBy(sql`f.joined_at desc, (f.event).id desc`),
  )
}

export interface ListedParticipant {
  id: Uuid
  createdAt: string
  displayName: string | null
  status: ParticipantStatus
  joinedAt: Date | null
}

/** The latest invitation first. Members and guests have names here; who is invited and no member has none. */
export async function listParticipants(
  tx: Tx,
  { eventId, after, limit: most }: PageWanted & { eventId: Uuid },
): Promise<ListedParticipant[]> {
  const { createdAt, userId, status, joinedAt } = eventParticipants
  const name = `list_participants_${after ? 'next' : 'first'}`
  const values = { event: eventId, limit: most, at: after?.at, id: after?.id }
  return prepared(tx, name, values, () =>
    tx
      .select({ id: userId, createdAt: microseconds(createdAt), displayName: users.displayName, status, joinedAt })
      .from(eventParticipants)
      .leftJoin(memberships, and(eq(memberships.orgId, eventParticipants.orgId), eq(memberships.userId, userId)))
      .leftJoin(users, and(eq(users.id, userId), or(isNotNull(memberships.userId), eq(status, 'accepted'))))
      .where(and(eq(eventParticipants.eventId, sql.placeholder('event')), after && afterCursor(createdAt, userId)))
      .orderBy(desc(createdAt), desc(userId))
      .limit(limit),
  )
}

export const countParticipants = (tx: Tx, eventId: Uuid): Promise<number> =>
  tx.$count(eventParticipants, eq(eventParticipants.eventId, eventId))

type NewEvent = Pick<EventRow, 'id' | 'orgId' | 'ownerId' | 'title' | 'startAt'> & EventColumns
/** Columns that requests set; undefined leaves one as it is. */
type EventColumns = Partial<ReturnType<typeof columnsOf>>

/** A draft whose owner takes part in it. */
export async function insertEvent(tx: Tx, row: NewEvent): Promise<EventRow> {
  const [made] = await tx.insert(events).values(row).returning()
  if (!made) throw new Error('an event was not inserted')
  await tx
    .insert(eventParticipants)
    .values({ eventId: made.id, userId: made.ownerId, orgId: made.orgId, status: 'accepted', joinedAt: sql`now()` })
  return made
}

/** Call with the event locked. */
async function setEvent(tx: Tx, id: Uuid, columns: PgUpdateSetSource<typeof events>): Promise<EventRow> {
  const [row] = await tx
    .update(events)
    .set({ ...columns, version: sql`${events.version} + 1`, updatedAt: sql`now()` })
    .where(eq(events.id, id))
    .returning()
  if (!row) throw new Error(`the event ${id} was locked and is gone`)
  return row
}

export const updateEvent = (tx: Tx, id: Uuid, columns: EventColumns) => setEvent(tx, id, columns)
export const markActive = (tx: Tx, id: Uuid) => setEvent(tx, id, { status: 'active', activatedAt: sql`now()` })
export const markArchived = (tx: Tx, id: Uuid) => setEvent(tx, id, { status: 'archived', archivedAt: sql`now()` })
