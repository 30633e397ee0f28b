import type { Uuid } from '../../../lib/contract/ids.ts'
import { originalKey } from '../../../lib/contract/object-keys.ts'
import { notFound } from '../../../lib/contract/problem.ts'
import type { Tx } from '../../db/db.ts'
import type { ApiDeps } from '../../deps.ts'
import type { CursorScope } from '../../requests/cursor.ts'
import { seesItem } from './policy.ts'
import { toTimelineItem } from './present.ts'
import { findFeedVersions, type ScannedItem, type Source, scanItems } from './queries.ts'
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

/** At first twice the items of the page, and at least so many; then twice as many in each step. */
const MIN_SCANNED = 40
/** Then a page is short, and its cursor goes on: about a thousand items in a row that the reader may not see. */
const MAX_STEPS = 5

/** One page. It leaves out what the reader may not see and goes on behind it, as a rule in the same query. */
export async function pageOfItems(tx: Tx, { cursors, links }: Deps, asked: PageAsked): Promise<TimelineItems> {
  const { source, callerId, query } = asked
  const { limit, cursor, from, to } = query
  const scope = scopeOf(asked)
  let after = cursor === undefined ? undefined : cursors.decode(scope, cursor)
  const visible: ScannedItem[] = []
  let isEnd = false
  for (let step = 0; step < MAX_STEPS && !isEnd && visible.length <= limit; step++) {
    const wanted = Math.max(2 * limit, MIN_SCANNED) * 2 ** step
    const scanned = await scanItems(tx, { source, callerId, after, from, to, limit: wanted })
    visible.push(...scanned.filter((item) => seesItem(item, callerId)))
    isEnd = scanned.length < wanted
    const last = scanned.at(-1)
    if (last) after = { at: last.at, id: last.id }
  }
  const items = visible.slice(0, limit)
  const hasMore = visible.length > limit || !isEnd
  // Behind the last item that is shown, or else behind the last one that was looked at.
  const last = visible.length > limit ? items.at(-1) : undefined
  const position = last ? { at: last.at, id: last.id } : after
  return {
    items: items.map((item) => toTimelineItem(item, links)),
    next_cursor: hasMore && position ? cursors.encode(scope, position) : null,
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

/** Throws NOT_FOUND for a user with whom the caller shares no organization. */
export async function versionedPage(
  deps: Deps,
  asked: PageAsked & { source: Exclude<Source, { of: 'organization' }> },
): Promise<Versioned> {
  const { source, callerId, query } = asked
  const versions = await deps.db.readAtOnce({ user: callerId }, (tx) => findFeedVersions(tx, source))
  if (source.of === 'user' && source.userId !== callerId && versions.length === 0) throw notFound()
  return {
    etag: etagOf(deps, asked, versions),
    data: () => deps.db.read({ user: callerId }, (tx) => pageOfItems(tx, deps, { source, callerId, query })),
  }
}

/** Links and cursors last for hours and change every quarter of an hour: after a 304 those of the client are valid. */
function etagOf({ cursors, links }: Deps, asked: PageAsked, versions: readonly unknown[]): string {
  const sample = { at: 0, id: asked.callerId }
  return JSON.stringify([
    versions,
    links.url(originalKey(asked.callerId, asked.callerId)),
    cursors.encode(scopeOf(asked), sample),
    asked.query,
  ])
}
