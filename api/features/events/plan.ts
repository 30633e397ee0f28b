import type { EventRow, EventStatus } from '../../db/schema/events.ts'

/** What a request to activate does: a repeat changes nothing, so that a client may retry. */
export const ACTIVATE_MOVES = { draft: 'activate', active: 'nothing', archived: 'refuse' } as const satisfies Moves
/** What a request to archive does. */
export const ARCHIVE_MOVES = { draft: 'refuse', active: 'archive', archived: 'nothing' } as const satisfies Moves
type Moves = Record<EventStatus, string>

/** What a request sets. A missing field stays as it is; null clears an optional one. */
export interface EventChanges {
  title?: string | undefined
  description?: string | null | undefined
  start_at?: Date | undefined
  end_at?: Date | null | undefined
  location_name?: string | null | undefined
  /** `[latitude, longitude]`. */
  location_geo?: number[] | null | undefined
}

/** The columns that the changes set; undefined leaves one as it is, null clears it. */
export function columnsOf({ location_geo: geo, ...given }: EventChanges) {
  const [latitude, longitude] = geo === null ? [null, null] : (geo ?? [])
  return {
    title: given.title,
    description: given.description,
    startAt: given.start_at,
    endAt: given.end_at,
    locationName: given.location_name,
    latitude,
    longitude,
  }
}

/**
 * The field that makes the event end before it starts, given what the event has already: of two changed fields it is the
 * end. Undefined if the times fit.
 */
export function misplacedTime(
  changes: EventChanges,
  event: Pick<EventRow, 'startAt' | 'endAt'>,
): 'start_at' | 'end_at' | undefined {
  const { start_at: startAt = event.startAt, end_at: endAt = event.endAt } = changes
  if (endAt === null || endAt >= startAt) return undefined
  return changes.end_at === undefined ? 'start_at' : 'end_at'
}
