import { formatId, parseId } from '../../../lib/contract/ids.ts'
import { invalid } from '../../../lib/contract/problem.ts'
import type { Database } from '../../db/db.ts'
import type { Catalog } from '../../permissions/catalog.ts'
import { findMembership } from '../../permissions/queries.ts'
import { type Action, explain, isOnRow, saysOf } from '../../permissions/rule.ts'
import type { Actor } from '../../requests/actor.ts'
import { changesOf } from '../../requests/change.ts'
import type { Context } from '../../requests/context.ts'
import type { ExplainPermission, PermissionExplanation } from './explanation.ts'

/**
 * Explains why a user may or may not do something: applies the rules that decide on requests, without performing the
 * action. Platform roles are claims of the user's token, which is not available here, so they count as missing.
 */
export function explainPermission(
  { db, catalog }: { db: Database; catalog: Catalog },
  { actor, context }: { actor: Actor; context: Context },
  { user_id: userId, org_id: orgId, action: name, resource_id: resourceId }: ExplainPermission,
): Promise<PermissionExplanation> {
  const action = catalog.actions.find((known) => known.name === name)
  if (!action) throw invalid([{ field: 'body.action', issue: 'is not an action' }])
  const wanted = resourceOf(catalog, action, resourceId)
  return db.inTransaction({ org: orgId }, async (tx) => {
    const member = await findMembership(tx, orgId, userId)
    const row = wanted && (await wanted.find(tx, { orgId, id: wanted.uuid, userId, action }))
    const { reason, facts } = explain(action, { userId, role: member?.role ?? null, platformAdmin: false }, row)
    const allowed = reason === 'allowed'
    const { audit } = changesOf(tx, { orgId, actorId: actor.userId, context })
    const about = { operation: 'explain permission', permission: name, allowed, reason }
    await audit('ADMIN_ACTION', { id: userId }, { ...about, ...(wanted && { resource: wanted.shown }) })
    const data = { allowed, reason, rule: saysOf(action.allow), facts }
    await context.remember(tx, 200, data)
    return data
  })
}

function resourceOf({ rows }: Catalog, action: Action, given: string | null | undefined) {
  if (!isOnRow(action)) return undefined
  const kind = action.on
  const found = rows[kind]
  if (!found) throw new Error(`no rows of kind ${kind} for ${action.name}`)
  if (!given) throw invalid([{ field: 'body.resource_id', issue: `is required: the action applies to one ${kind}` }])
  const uuid = parseId(found.id, given)
  if (!uuid) throw invalid([{ field: 'body.resource_id', issue: `is not an id of kind ${kind}` }])
  return { ...found, uuid, shown: formatId(found.id, uuid) }
}
