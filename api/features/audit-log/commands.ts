import { insertAudit } from '../../audit/queries.ts'
import type { ApiDeps } from '../../deps.ts'
import type { Actor } from '../../requests/actor.ts'
import type { Context } from '../../requests/context.ts'
import type { AuditPage, QueryAudit } from './entry.ts'
import { outputMillis } from './export-present.ts'
import { entryFilterOf } from './filter.ts'
import { auditedFilter, presentEntry } from './present.ts'
import { countLog, readLog } from './read.ts'

/** What one query reads from the object store, and for how long it goes on: then it answers with what it has. */
const BUDGET = { bytes: 64 * 1024 ** 2, ms: 3000 }

/** One page of the audit log. The query is in the log itself before its answer leaves. */
export async function queryAudit(
  deps: Pick<ApiDeps, 'db' | 'store' | 'cursors' | 'personalData'>,
  { actor, context }: { actor: Actor; context: Context },
  { limit, cursor, ...given }: QueryAudit,
): Promise<AuditPage> {
  const { db, cursors } = deps
  const filter = entryFilterOf(given)
  const scope = { list: 'audit', caller: actor.userId, filters: { ...filter } }
  const decoded = cursor === undefined ? undefined : cursors.decode(scope, cursor, 'body.cursor')
  const after = decoded && { at: String(decoded.at), id: decoded.id }
  const wanted = { filter, after, limit, budget: BUDGET, signal: context.signal }
  const [page, { total, isEstimate }] = await Promise.all([
    readLog(deps, wanted),
    after ? { total: null, isEstimate: false } : countLog(deps, filter),
  ])
  await db.inTransaction({}, (tx) =>
    insertAudit(tx, {
      orgId: null,
      actorId: actor.userId,
      action: 'ADMIN_ACTION',
      resourceType: 'audit_log',
      resourceId: null,
      result: 'success',
      context,
      details: {
        operation: 'query audit log',
        ...auditedFilter(filter),
        limit,
        is_first_page: after === undefined,
        entries: page.entries.length,
      },
    }),
  )
  return {
    logs: page.entries.map(presentEntry),
    next_cursor: page.next ? cursors.encode(scope, page.next) : null,
    has_more: page.next !== undefined,
    total,
    total_is_estimate: isEstimate,
    tiers_searched: page.tiers,
    sealed_until: outputMillis(page.sealedUntil),
  }
}
