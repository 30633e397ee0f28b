/** UTC days as `2026-11-21`, which sort as the days do. */
export type Day = string

const DAY_MS = 86_400_000
const msOf = (day: Day) => Date.parse(`${day}T00:00:00Z`)
export const dayOf = (ms: number): Day => new Date(ms).toISOString().slice(0, 10)
export const addDays = (day: Day, days: number): Day => dayOf(msOf(day) + days * DAY_MS)

/**
 * A part of the log that is read at once. `hot`: the days from `from` (null: whatever is older) to `to`, both included,
 * from the database. `archived`: one day, from its object.
 */
export type Segment = { kind: 'hot'; from: Day | null; to: Day } | { kind: 'archived'; day: Day }

/** A query over more days would be planned over more partitions, which costs more than it saves. */
const MAX_HOT_DAYS = 7

/** The days from `first` down to `last`, archived and hot ones, the latest first. */
export function* segmentsOf(o: {
  first: Day
  /** Null: without end. */
  last: Day | null
  archived: ReadonlySet<Day>
  /** From this day on the log has a partition for each day; what is older is one table. */
  since: Day
}): Generator<Segment> {
  const [oldest = o.since] = [o.since, ...o.archived].sort()
  // From here on nothing is archived, and no day is a partition of its own.
  const end = o.last === null || o.last < oldest ? oldest : o.last
  let to: Day | undefined
  let day = o.first
  for (; day >= end; day = addDays(day, -1)) {
    if (o.archived.has(day)) {
      if (to !== undefined) yield { kind: 'hot', from: addDays(day, 1), to }
      to = undefined
      yield { kind: 'archived', day }
      continue
    }
    to ??= day
    if (addDays(day, MAX_HOT_DAYS - 1) > to) continue
    yield { kind: 'hot', from: day, to }
    to = undefined
  }
  if (to !== undefined) yield { kind: 'hot', from: addDays(day, 1), to }
  if (o.last === null || o.last < end) yield { kind: 'hot', from: o.last, to: day }
}

/**
 * The same of these days only, given with the latest first. A hot segment spans days without entries, but no archived one.
 */
export function* segmentsOfDays(days: readonly Day[], archived: ReadonlySet<Day>): Generator<Segment> {
  let hot: { from: Day; to: Day } | undefined
  for (const day of days) {
    if (hot && !archived.has(day) && addDays(day, MAX_HOT_DAYS - 1) >= hot.to && !hasBetween(day, hot.from, archived)) {
      hot.from = day
      continue
    }
    if (hot) yield { kind: 'hot', ...hot }
    hot = undefined
    if (archived.has(day)) yield { kind: 'archived', day }
    else hot = { from: day, to: day }
  }
  if (hot) yield { kind: 'hot', ...hot }
}

function hasBetween(after: Day, before: Day, archived: ReadonlySet<Day>): boolean {
  for (let day = addDays(after, 1); day < before; day = addDays(day, 1)) if (archived.has(day)) return true
  return false
}

/** Whether a segment has a day in the archive now. */
export const touches = (segment: { from: Day | null; to: Day }, days: Iterable<Day>): boolean =>
  [...days].some((day) => day <= segment.to && (segment.from === null || day >= segment.from))
