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

/** How often a page goes on to look for an item that the reader may see, before it is empty and says that there are more. */
const STEPS = 3

/**
 * One page. It looks at twice as many items as it shows and leaves out what the reader may not see, so it may be shorter
 * than the limit. The cursor is behind the last item that it decided on, visible or not.
 */
export async function pageOfItems(tx: Tx, { cursors, links }: Deps, asked: PageAsked): Promise<TimelineItems> {
  const { source, callerId, query } = asked
  const { limit, cursor, from, to } = query
  const scope = scopeOf(asked)
  let after = cursor === undefined ? undefined : cursors.decode(scope, cursor)
  const wanted = 2 * limit
  let items: ScannedItem[] = []
  let hasMore = true
  for (let step = 0; step < STEPS && hasMore && items.length === 0; step++) {
    const scanned = await scanItems(tx, { source, callerId, after, from, to, limit: wanted })
    const visible = scanned.filter((item) => seesItem(item, callerId))
    items = visible.slice(0, limit)
    hasMore = visible.length > limit || scanned.length === wanted
    const last = visible.length > limit ? items.at(-1) : scanned.at(-1)
    if (last) after = { at: last.at, id: last.id }
  }
  return {
    items: items.map((item) => toTimelineItem(item, links)),
    next_cursor: hasMore && after ? cursors.encode(scope, after) : null,
    has_more: hasMore && after !== undefined,
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
