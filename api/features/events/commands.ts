import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { invalid } from '../../../lib/contract/problem.ts'
import type { EventRow } from '../../db/schema/events.ts'
import { holdMembership } from '../../permissions/queries.ts'
import type { Change } from '../../requests/change.ts'
import { found } from '../../requests/found.ts'
import { lockPermitted } from '../../requests/lock-permitted.ts'
import type { Write } from '../../requests/request.ts'
import { BEFORE_START, type CreateEvent, type Event, fieldsOf } from './event.ts'
import { columnsOf, type EventChanges, misplacedTime } from './plan.ts'
import type { eventActions } from './policy.ts'
import { type SeesAlbum, toEvent } from './present.ts'
import { findEvent, findShownEvent, insertEvent, markActive, markArchived, updateEvent } from './queries.ts'

/** What features above this one add to it. */
export interface AboveEvents {
  seesAlbum: SeesAlbum
  /** In the transaction that activates the event, which has locked it. */
  onActivated(change: Change, event: EventRow): Promise<void>
}

/** Creates a draft, with its owner as the first participant. */
export async function createEvent(
  request: Write<typeof eventActions.create>,
  given: CreateEvent,
  above: AboveEvents,
): Promise<Event> {
  const { tx, orgId, actor, announce, audit } = request
  const { title, start_at: startAt } = given
  const owner = { id: newUuid(), orgId, ownerId: actor.userId }
  const row = await insertEvent(tx, { ...columnsOf(given), ...owner, title, startAt })
  await announce('EventCreated', row, { ...idsOf(row), owner_id: row.ownerId, title: row.title })
  await audit('EVENT_CREATE', row)
  // A membership that ended since the request was admitted has taken only the participants that it saw with it.
  found((await holdMembership(tx, orgId, actor.userId)) || undefined)
  return show(request, row, above)
}

export async function changeEvent(
  request: Write<typeof eventActions.update>,
  id: Uuid,
  changes: EventChanges,
  above: AboveEvents,
): Promise<Event> {
  const { tx, permit, ready, audit } = request
  const event = await lock(request, id, permit)
  ready(event)
  const misplaced = misplacedTime(changes, event)
  if (misplaced) throw invalid([{ field: `body.${misplaced}`, issue: ISSUES[misplaced] }])
  const row = await updateEvent(tx, id, columnsOf(changes))
  await audit('EVENT_ACTION', row, { operation: 'update', fields: fieldsOf(changes).join() })
  return show(request, row, above)
}
const ISSUES = { start_at: 'must not be after end_at', end_at: BEFORE_START }

/** A repeat sends no second notification. */
export async function activateEvent(
  request: Write<typeof eventActions.activate>,
  id: Uuid,
  above: AboveEvents,
): Promise<Event> {
  const { tx, permit, ready, announce, audit } = request
  const event = await lock(request, id, permit)
  if (ready(event)) {
    const row = await markActive(tx, id)
    await announce('EventActivated', row, {
      ...idsOf(row),
      owner_id: row.ownerId,
      actor_id: request.actor.userId,
      title: row.title,
      activated_at: (row.activatedAt as Date).toISOString(),
    })
    await audit('EVENT_ACTIVATE', row)
    await above.onActivated(request, row)
  }
  return show(request, event, above)
}

export async function archiveEvent(
  request: Write<typeof eventActions.archive>,
  id: Uuid,
  above: AboveEvents,
): Promise<Event> {
  const { tx, permit, ready, announce, audit } = request
  const event = await lock(request, id, permit)
  if (ready(event)) {
    const row = await markArchived(tx, id)
    await announce('EventArchived', row, {
      ...idsOf(row),
      actor_id: request.actor.userId,
      archived_at: (row.archivedAt as Date).toISOString(),
    })
    await audit('EVENT_ARCHIVE', row)
  }
  return show(request, event, above)
}

type Changing = Pick<Write<typeof eventActions.update>, 'tx' | 'orgId' | 'actor' | 'can' | 'now'>

/** Waits for other changes of the event and of what belongs to it, so that the decision sees their result. */
const lock = ({ tx, orgId }: Changing, id: Uuid, permit: (row: EventRow) => unknown): Promise<EventRow> =>
  lockPermitted((isLocked) => findEvent(tx, orgId, id, isLocked ? { lock: 'update' } : {}), permit)

const show = async (
  { tx, orgId, actor, ...deciding }: Changing,
  { id }: { id: Uuid },
  { seesAlbum }: AboveEvents,
): Promise<Event> => toEvent(found(await findShownEvent(tx, orgId, id, actor.userId)), deciding, seesAlbum)

const idsOf = ({ id, orgId }: EventRow) => ({
  event_id: id,
  org_id: orgId,
})
