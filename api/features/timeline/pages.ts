import type { Uuid } from '../../../lib/contract/ids.ts'
import { originalKey } from '../../../lib/contract/object-keys.ts'
import { notFound } from '../../../lib/contract/problem.ts'
import type { Tx } from '../../db/db.ts'
import type { ApiDeps } from '../../deps.ts'
import type { CursorScope } from '../../requests/cursor.ts'
import { seesItem } from './policy.ts'
import { toTimelineItem } from './present.ts'
import { findFeedState, type Scan, type ScannedItem, type Source, scanItems } from './queries.ts'
import type { TimelineItems } from './timeline-item.ts'

type Deps = Pick<ApiDeps, 'db' | 'cursors' | 'links'>

export interface PageQuery {
  limit: number
  cursor?: string | undefined
  from?: Date | undefined
  to?: Date | undefined
}

export interface PageAsked {
  source: Source
  callerId: Uuid
  query: PageQuery
}

/** Items that are looked at beyond those of the page, in its first query: few are hidden. */
const MIN_SPARE = 4
const SPARE_SHARE = 0.25
/** Where more are hidden: at least so many, and twice as many in each step. */
const MIN_SCANNED = 40
/** Then a page is short, and its cursor goes on: about a thousand items in a row that the reader may not see. */
const MAX_STEPS = 5

type Step = Pick<Scan, 'after' | 'limit'>
/** Reads the next items below a position. */
type Scanner = (step: Step) => Promise<ScannedItem[]>

/** How many items a step looks at, from step 0. */
export const itemsScanned = (limit: number, step: number) =>
  step === 0
    ? limit + 1 + Math.max(MIN_SPARE, Math.ceil(limit * SPARE_SHARE))
    : Math.max(2 * limit, MIN_SCANNED) * 2 ** step

/** Throws VALIDATION_FAILED for a cursor of another list. */
const firstStep = ({ cursors }: Deps, asked: PageAsked): Step => {
  const { cursor, limit } = asked.query
  return {
    after: cursor === undefined ? undefined : cursors.decode(scopeOf(asked), cursor),
    limit: itemsScanned(limit, 0),
  }
}

const scanOf = ({ source, callerId, query: { from, to } }: PageAsked, step: Step): Scan => ({
  source,
  callerId,
  from,
  to,
  ...step,
})

/** One page, in the scope of `tx`. */
export const pageOfItems = (tx: Tx, deps: Deps, asked: PageAsked): Promise<TimelineItems> =>
  pageOf(deps, asked, firstStep(deps, asked), undefined, (step) => scanItems(tx, scanOf(asked, step)))

/**
 * It leaves out what the reader may not see and goes on behind it, as a rule in the same query. `scanned`: the items of the
 * first step, if they were read already.
 */
async function pageOf(
  { cursors, links }: Deps,
  asked: PageAsked,
  first: Step,
  scanned: ScannedItem[] | undefined,
  scan: Scanner,
): Promise<TimelineItems> {
  const { callerId, query } = asked
  const { limit } = query
  let { after } = first
  const visible: ScannedItem[] = []
  let isEnd = false
  for (let step = 0; step < MAX_STEPS && !isEnd && visible.length <= limit; step++) {
    const wanted = itemsScanned(limit, step)
    const items = (step === 0 && scanned) || (await scan({ after, limit: wanted }))
    visible.push(...items.filter((item) => seesItem(item, callerId)))
    isEnd = items.length < wanted
    const last = items.at(-1)
    if (last) after = { at: last.at, id: last.id }
  }
  const items = visible.slice(0, limit)
  const hasMore = visible.length > limit || !isEnd
  // Behind the last item that is shown, or else behind the last one that was looked at.
  const last = visible.length > limit ? items.at(-1) : undefined
  const position = last ? { at: last.at, id: last.id } : after
  return {
    items: items.map((item) => toTimelineItem(item, links)),
    next_cursor: hasMore && position ? cursors.encode(scopeOf(asked), position) : null,
    has_more: hasMore,
  }
}

function scopeOf({ source, callerId, query: { from, to } }: PageAsked): CursorScope {
  return {
    list: `timeline_${source.of}`,
    ...('orgId' in source && { org: source.orgId }),
    ...('userId' in source && { of: { user: source.userId } }),
    ...(source.of === 'feed' && { caller: callerId }),
    filters: { from: from?.toISOString(), to: to?.toISOString() },
  }
}

export interface Versioned {
  /** Of everything on which the page depends. */
  etag: string
  /** Reads it; for a client that has not got it already. */
  data: () => Promise<TimelineItems>
}

/**
 * `hasTag`: the client has read the page before, and mostly there is nothing new. Otherwise the versions and the page are
 * one round trip. Throws NOT_FOUND for a user with whom the caller shares no organization, VALIDATION_FAILED for a cursor
 * of another list.
 */
export async function versionedPage(
  deps: Deps,
  asked: PageAsked & { source: Exclude<Source, { of: 'organization' }> },
  { hasTag }: { hasTag: boolean },
): Promise<Versioned> {
  const { source, callerId } = asked
  const scope = { user: callerId }
  const first = firstStep(deps, asked)
  const scan: Scanner = (step) => deps.db.readAtOnce(scope, (tx) => scanItems(tx, scanOf(asked, step)))
  // The versions first: what changes in between is then newer than the tag says, and never older.
  const [state, scanned] = await deps.db.readAtOnce(scope, (tx) =>
    Promise.all([findFeedState(tx, source), hasTag ? undefined : scanItems(tx, scanOf(asked, first))]),
  )
  if (source.of === 'user' && source.userId !== callerId && state === null) throw notFound()
  return {
    etag: etagOf(deps, asked, state),
    data: () => pageOf(deps, asked, first, scanned, scan),
  }
}

/** Links and cursors last for hours and change every quarter of an hour: after a 304 those of the client are valid. */
function etagOf({ cursors, links }: Deps, asked: PageAsked, state: string | null): string {
  const sample = { at: 0, id: asked.callerId }
  return JSON.stringify([
    state,
    links.url(originalKey(asked.callerId, asked.callerId)),
    cursors.encode(scopeOf(asked), sample),
    asked.query,
  ])
}
