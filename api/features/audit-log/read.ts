import { countedAddress } from '../../../lib/contract/counted-address.ts'
import { invalid } from '../../../lib/contract/problem.ts'
import { eitherTier } from '../../../lib/runtime/object-store/either-tier.ts'
import { type ObjectStore, StoreError } from '../../../lib/runtime/object-store/object-store.ts'
import { type DayPage, readDayFile } from '../../audit/archive/day-file.ts'
import { isBehind, type Place, placeOf, type StoredEntry } from '../../audit/archive/line.ts'
import { type ArchiveTier, findArchive, findSince, listArchivedDays } from '../../audit/archive/queries.ts'
import {
  addDays,
  type Day,
  dayOf,
  type Segment,
  segmentsOf,
  segmentsOfDays,
  touches,
} from '../../audit/archive/segments-plan.ts'
import { monthOf, type Opened, type PersonalData } from '../../audit/personal-data.ts'
import type { Database } from '../../db/db.ts'
import { type EntryFilter, isNarrow, matches } from './filter.ts'
import { countAll, countHot, findOldest, findSeal, type HotEntry, listDaysOf, listHot, type Seal } from './queries.ts'

export type Tier = 'hot' | Exclude<ArchiveTier, 'purged'>

/** An entry with its personal data, as far as that can be read. */
export interface ShownEntry {
  entry: StoredEntry
  sealed: boolean
  opened: Opened
}

export interface ReadDeps {
  db: Database
  store: ObjectStore
  personalData: Pick<PersonalData, 'decrypt' | 'addressIndexes'>
}

/** What one call may read. */
export interface Budget {
  bytes: number
  ms: number
}
const NO_BUDGET: Budget = { bytes: Number.POSITIVE_INFINITY, ms: Number.POSITIVE_INFINITY }

export interface Wanted {
  filter: EntryFilter
  after: Place | undefined
  limit: number
  /** Null for one that reads until the page is full: exports. */
  budget: Budget | null
  signal?: AbortSignal
}

export interface LogPage {
  /** The latest first. */
  entries: ShownEntry[]
  /** Where the next page goes on; undefined on the last one. */
  next: Place | undefined
  tiers: Tier[]
  sealedUntil: string
}

/** The database answers no less often than this while a filter matches nothing. */
const SCAN = 20_000
/** Of an archived day, how many entries are decrypted at once to compare their addresses. */
const DECRYPTED = 2000
const AUDIT = { audit: true } as const
/** Behind everything of the days before. */
const beforeDay = (day: Day): Place => ({ at: `${day}T00:00:00.000000Z`, id: NIL })
const NIL = '00000000-0000-0000-0000-000000000000'
const dayAt = (at: string): Day => at.slice(0, 10)
/** The latest day that can have entries behind a place: of `beforeDay(day)` the day before, or nothing would get further. */
const dayBehind = ({ at, id }: Place): Day =>
  id === NIL && beforeDay(dayAt(at)).at === at ? addDays(dayAt(at), -1) : dayAt(at)

/**
 * One page of the log, over all tiers. For each day the manifest decides whether it is read from the database or from its
 * object; the position has no tier in it, so that a day may move between two pages.
 */
export async function readLog(deps: ReadDeps, wanted: Wanted): Promise<LogPage> {
  const reading = await beginReading(deps, wanted)
  for (const segment of reading.segments) {
    const stopped = await readSegment(deps, reading, segment, wanted)
    if (stopped) return pageOf(reading, wanted.limit, stopped)
  }
  return pageOf(reading, wanted.limit, undefined)
}

function pageOf({ found, tiers, seal }: Reading, limit: number, next: Place | undefined): LogPage {
  const last = found.length > limit ? found[limit - 1] : undefined
  return {
    entries: found.slice(0, limit),
    next: last ? placeOf(last.entry) : next,
    tiers: [...tiers],
    sealedUntil: seal.until,
  }
}

/** Where the page ends, if it does within the segment: the page is full, or the budget is spent. */
async function readSegment(
  deps: ReadDeps,
  reading: Reading,
  segment: Segment,
  wanted: Wanted,
): Promise<Place | undefined> {
  const { filter, limit } = wanted
  const { found, tiers } = reading
  // A later segment begins behind the place where this page began: going on from there would repeat entries.
  const start = startOf(segment)
  let after: Place | undefined = wanted.after && isBehind(wanted.after, start) ? wanted.after : start
  while (after) {
    wanted.signal?.throwIfAborted()
    if (isSpent(reading)) return after
    const step: Step = await readStep(deps, reading, segment, {
      signal: wanted.signal,
      filter,
      after,
      limit: limit + 1 - found.length,
    })
    for (const tier of step.tiers) tiers.add(tier)
    found.push(...step.entries)
    reading.bytes += step.bytes
    reading.steps += 1
    // One more than the page shows that there is another page.
    if (found.length > limit) return after
    after = step.reached
  }
  return undefined
}

/** All of the segment is behind it. */
const startOf = (segment: Segment): Place => beforeDay(addDays(segment.kind === 'hot' ? segment.to : segment.day, 1))

interface Reading {
  seal: Seal
  segments: Iterable<Segment>
  addresses: readonly Buffer[]
  budget: Budget
  isLimited: boolean
  began: number
  bytes: number
  steps: number
  found: ShownEntry[]
  tiers: Set<Tier>
}

/** The first step is always made: each page gets further. */
const isSpent = ({ steps, bytes, budget, began }: Reading) =>
  steps > 0 && (bytes >= budget.bytes || performance.now() - began >= budget.ms)

async function beginReading(deps: ReadDeps, { filter, after, budget }: Wanted): Promise<Reading> {
  const began = performance.now()
  const { seal, segments } = await deps.db.read(AUDIT, async (tx) => {
    const seal = await findSeal(tx)
    const today = dayOf(Date.now())
    // A clock of this machine that is behind must not hide entries.
    const first = earliest(addDays(today, 1), after && dayBehind(after), filter.to && dayAt(filter.to))
    const last = filter.from === undefined ? undefined : dayAt(filter.from)
    const archived = new Set((await listArchivedDays(tx, { from: last ?? null, to: first })).keys())
    if (filter.actorId === undefined) {
      const since = await findSince(tx)
      return { seal, segments: segmentsOf({ first, last: last ?? null, archived, since }) }
    }
    const days = await listDaysOf(tx, filter.actorId, { from: last, to: first })
    const all = filter.includeUnsealed ? withOpenDays(days, { first, last, seal }) : days
    return { seal, segments: segmentsOfDays(all, archived) }
  })
  const addresses = await addressIndexes(deps, filter)
  const limits = budget ?? NO_BUDGET
  const begun = { bytes: 0, steps: 0, found: [], tiers: new Set<Tier>() }
  return { seal, segments, addresses, budget: limits, isLimited: budget !== null, began, ...begun }
}

const earliest = (...days: (Day | undefined)[]): Day =>
  days.reduce<Day>((a, b) => (b !== undefined && b < a ? b : a), days[0] ?? '')

/** The days of a person are known of sealed entries only. */
function withOpenDays(
  days: readonly Day[],
  { first, last, seal }: { first: Day; last: Day | undefined; seal: Seal },
): Day[] {
  const open: Day[] = []
  for (let day = first; day >= dayAt(seal.until) && (last === undefined || day >= last); day = addDays(day, -1)) {
    open.push(day)
  }
  return [...open, ...days.filter((day) => !open.includes(day))]
}

async function addressIndexes({ db, personalData }: ReadDeps, { ipAddress }: EntryFilter): Promise<readonly Buffer[]> {
  if (ipAddress === undefined) return []
  const oldest = await db.read(AUDIT, findOldest)
  const now = new Date()
  const months: number[] = []
  for (let n = 0; n === 0 || (oldest !== undefined && (months.at(-1) ?? 0) > monthOf(oldest)); n++) {
    months.push(monthOf(new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - n, 1))))
  }
  return personalData.addressIndexes(ipAddress, months)
}

interface Step {
  entries: ShownEntry[]
  /** Undefined when the segment has nothing more. */
  reached: Place | undefined
  tiers: readonly Tier[]
  bytes: number
}
interface StepWanted {
  signal: AbortSignal | undefined
  filter: EntryFilter
  after: Place
  limit: number
}

function readStep(deps: ReadDeps, reading: Reading, segment: Segment, wanted: StepWanted): Promise<Step> {
  return segment.kind === 'hot' ? readHot(deps, reading, segment, wanted) : readDay(deps, reading, segment.day, wanted)
}

async function readHot(
  deps: ReadDeps,
  reading: Reading,
  segment: { from: Day | null; to: Day },
  wanted: StepWanted,
): Promise<Step> {
  const { seal, addresses } = reading
  const { after, limit } = wanted
  const isBroad = !isNarrow(wanted.filter)
  const scan = isBroad && wanted.filter.includeUnsealed ? wanted.limit : SCAN
  const { page, moved } = await deps.db.read(AUDIT, async (tx) => {
    const page = await listHot(tx, { ...segment, filter: wanted.filter, seal, addresses, scan, after, limit })
    // In this order: a day is switched before it leaves the database, so if it is not switched now, it was there.
    const moved = await listArchivedDays(tx, segment)
    return { page, moved }
  })
  if (touches(segment, moved.keys())) return readMoved(deps, reading, { segment, moved }, wanted)
  const entries = await open(deps, page.rows)
  return { entries, reached: page.reached, tiers: ['hot'], bytes: 0 }
}

/** Days of a segment were archived since it was planned: reads its latest part as it lies now. */
async function readMoved(
  deps: ReadDeps,
  reading: Reading,
  { segment, moved }: { segment: { from: Day | null; to: Day }; moved: ReadonlyMap<Day, ArchiveTier> },
  wanted: StepWanted,
): Promise<Step> {
  const first = earliest(segment.to, dayBehind(wanted.after))
  const [now] = segmentsOf({ first, last: segment.from, archived: new Set(moved.keys()), since: first })
  if (!now) return { entries: [], reached: undefined, tiers: [], bytes: 0 }
  const step = await readStep(deps, reading, now, wanted)
  const end = now.kind === 'archived' ? now.day : now.from
  const isLast = end === null || end === segment.from
  return { ...step, reached: step.reached ?? (isLast ? undefined : beforeDay(end)) }
}

async function readDay(deps: ReadDeps, reading: Reading, day: Day, wanted: StepWanted): Promise<Step> {
  const { filter, after, limit } = wanted
  const found = await deps.db.read(AUDIT, (tx) => findArchive(tx, day))
  if (!found) throw new Error(`the manifest of ${day} is gone`)
  if (found.tier === 'purged') return { entries: [], reached: undefined, tiers: [], bytes: 0 }
  const { actorId, ipAddress } = filter
  if (actorId === undefined && reading.isLimited && found.bytes > reading.budget.bytes) {
    throw invalid([
      {
        field: 'body.actor_id',
        issue: `is required for ${day}, which is too large to be searched whole; or export it`,
      },
    ])
  }
  const few = ipAddress === undefined ? limit : DECRYPTED
  const read = (row: typeof found): Promise<DayPage> =>
    readDayFile(
      eitherTier(deps.store),
      {
        key: row.objectKey,
        bytes: row.bytes,
        members: row.members.map(([actor, at, offset]) => ({ actor, at, offset })),
      },
      { actorId, after, limit: few, accept: (entry) => matches(filter, entry), signal: wanted.signal },
    )
  const { rows, bytes, isDone } = await read(found).catch(async (error: unknown) => {
    if (!(error instanceof StoreError) || error.code !== 'NotFound') throw error
    // Its object moved between the manifest and the request.
    const moved = await deps.db.read(AUDIT, (tx) => findArchive(tx, day))
    if (moved?.tier === 'purged') return { rows: [], bytes: 0, isDone: true }
    if (!moved || moved.objectKey === found.objectKey) throw error
    return read(moved)
  })
  const shown = await open(deps, rows)
  const last = rows.at(-1)
  const reached = isDone || !last ? undefined : placeOf(last)
  const tiers = [found.tier]
  if (ipAddress === undefined) return { entries: shown, reached, tiers, bytes }
  const wantedAddress = countedAddress(ipAddress)
  const same = shown.filter(
    ({ opened }) =>
      opened.state === 'open' &&
      opened.personal.ipAddress !== undefined &&
      countedAddress(opened.personal.ipAddress) === wantedAddress,
  )
  if (same.length <= limit) return { entries: same, reached, tiers, bytes }
  const cut = same.slice(0, limit)
  return { entries: cut, reached: placeOf((cut.at(-1) as ShownEntry).entry), tiers, bytes }
}

async function open({ personalData }: ReadDeps, rows: readonly (StoredEntry | HotEntry)[]): Promise<ShownEntry[]> {
  const opened = await personalData.decrypt(
    rows.map((row) => ({ entryId: row.id, personId: row.actorId, personal: row.personal, keyVersion: row.keyVersion })),
  )
  return rows.map((entry, n) => {
    const one = opened[n] ?? { state: 'none' }
    return { entry, sealed: 'sealed' in entry ? entry.sealed : true, opened: plainOf(entry) ?? one }
  })
}

/** Entries of a version before encryption, until they are sealed. In a sealed one these columns are forged. */
function plainOf(entry: StoredEntry | HotEntry): Opened | undefined {
  if (!('sealed' in entry) || entry.sealed || (entry.ipAddress === null && entry.userAgent === null)) return undefined
  const { ipAddress, userAgent } = entry
  return { state: 'open', personal: { ...(ipAddress && { ipAddress }), ...(userAgent && { userAgent }) } }
}

/** `total` null: counting would take longer than it is worth. */
export interface Total {
  total: number | null
  isEstimate: boolean
}

const MAX_COUNTED = 10_000
const COUNT_MS = 500
const CANCELED = '57014'

/**
 * Without a filter, from what the sealer and the manifests count. For a person or an organization the entries in the
 * database are counted, as far as that takes half a second and 10,000 entries; what archived days add is not known.
 */
export async function countLog(deps: ReadDeps, filter: EntryFilter): Promise<Total> {
  const { actorId, orgId, includeUnsealed, ...others } = filter
  const isOpen = Object.values(others).every((one) => one === undefined)
  if (actorId === undefined && orgId === undefined) {
    if (!isOpen || includeUnsealed) return { total: null, isEstimate: false }
    const { total, exact } = await deps.db.read(AUDIT, countAll)
    return { total, isEstimate: !exact }
  }
  const { seal, segments, addresses, budget } = await beginReading(deps, {
    filter,
    after: undefined,
    limit: 0,
    budget: { bytes: 0, ms: COUNT_MS },
  })
  const until = performance.now() + budget.ms
  let total = 0
  let isEstimate = false
  for (const segment of segments) {
    const ms = until - performance.now()
    if (ms <= 0) return { total: null, isEstimate: false }
    if (segment.kind === 'archived') isEstimate = true
    else {
      const most = MAX_COUNTED - total
      const count = deps.db.read(AUDIT, (tx) => countHot(tx, { ...segment, filter, seal, addresses, most, ms }))
      const n = await count.catch((error: unknown) => {
        if (codeOf(error) === CANCELED) return null
        throw error
      })
      if (n === null) return { total: null, isEstimate: false }
      total += n
    }
    if (total >= MAX_COUNTED) return { total, isEstimate: true }
  }
  return { total, isEstimate }
}

const codeOf = (error: unknown): string | undefined => {
  const { code, cause } = error as { code?: string; cause?: unknown }
  return code ?? (cause ? codeOf(cause) : undefined)
}

/** For exports. */
export const findSealedUntil = async (db: Database): Promise<string> => (await db.read(AUDIT, findSeal)).until
