import { formatId, type IdKind, parseId, type Uuid } from '../../lib/contract/ids.ts'
import { invalid } from '../../lib/contract/problem.ts'
import type { Database, Tx } from '../db/db.ts'
import { findAlbum } from '../features/albums/queries.ts'
import { findComment } from '../features/discussions/comments/queries.ts'
import { findReaction } from '../features/discussions/reactions/queries.ts'
import { findEvent } from '../features/events/queries.ts'
import { findHighlight } from '../features/highlights/queries.ts'
import { findInvitation } from '../features/invitations/queries.ts'
import { findMediaOrTrash } from '../features/media/deletion/queries.ts'
import { findMedia } from '../features/media/queries.ts'
import { findUpload } from '../features/media/uploads/queries.ts'
import type { AuthedInput } from '../http/route.ts'
import { changesOf } from '../requests/change.ts'
import { type Action, isAction, ruleOf } from './actions.ts'
import type { ExplainPermission, PermissionExplanation } from './explain.ts'
import { findMembership } from './queries.ts'
import { explain, type ResourceKind, saysOf } from './rule.ts'

/** How a dry run finds the resource of an action; a feature adds its tables. */
const RESOURCES: Record<Exclude<ResourceKind, 'caller' | 'organization'>, Resource> = {
  album: { id: 'album', find: (tx, orgId, id, callerId) => findAlbum(tx, { orgId, id, callerId }) },
  comment: { id: 'comment', find: (tx, orgId, id) => findComment(tx, { orgId, id }) },
  event: { id: 'event', find: (tx, orgId, id) => findEvent(tx, orgId, id) },
  highlight: { id: 'highlight', find: (tx, orgId, id, callerId) => findHighlight(tx, { orgId, id, callerId }) },
  invitation: {
    id: 'invitation',
    // A token is presented with a request only.
    find: async (tx, orgId, id, userId) => {
      const row = await findInvitation(tx, { orgId, id, userId })
      return row && { ...row, isPresented: false }
    },
  },
  media: { id: 'media', find: findMedia },
  // A member is named by the user.
  membership: { id: 'user', find: findMembership },
  reaction: { id: 'reaction', find: (tx, orgId, id) => findReaction(tx, { orgId, id }) },
  upload: { id: 'upload', find: (tx, orgId, id) => findUpload(tx, orgId, id) },
}
/** Actions on rows that other actions do not find. */
const FINDS: Partial<Record<Action, Resource['find']>> = {
  'media.delete': findMediaOrTrash,
  'media.restore': findMediaOrTrash,
}
interface Resource {
  id: IdKind
  find(tx: Tx, orgId: Uuid, id: Uuid, userId: Uuid): Promise<unknown>
}

/**
 * Explains why a user may or may not do something: applies the rules that decide on requests, without performing the
 * action. Platform roles are claims of the user's token, which is not available here, so they count as missing.
 */
export function explainPermission(
  db: Database,
  { actor, context }: Pick<AuthedInput<unknown, unknown, unknown>, 'actor' | 'context'>,
  { user_id: userId, org_id: orgId, action, resource_id: resourceId }: ExplainPermission,
): Promise<PermissionExplanation> {
  if (!isAction(action)) throw invalid([{ field: 'body.action', issue: 'is not an action' }])
  const wanted = resourceOf(action, resourceId)
  return db.inTransaction({ org: orgId }, async (tx) => {
    const member = await findMembership(tx, orgId, userId)
    const row = wanted && (await wanted.find(tx, orgId, wanted.uuid, userId))
    const { reason, facts } = explain(ruleOf(action), { userId, role: member?.role ?? null, platformAdmin: false }, row)
    const allowed = reason === 'allowed'
    const { audit } = changesOf(tx, { orgId, actorId: actor.userId, context })
    const about = { operation: 'explain permission', permission: action, allowed, reason }
    await audit('ADMIN_ACTION', { id: userId }, { ...about, ...(wanted && { resource: wanted.shown }) })
    const data = { allowed, reason, rule: saysOf(ruleOf(action).allow), facts }
    await context.remember(tx, 200, data)
    return data
  })
}

function resourceOf(action: Action, given: string | null | undefined) {
  const { on } = ruleOf(action)
  if (on === 'caller' || on === 'organization') return undefined
  const resource = RESOURCES[on]
  if (!given) throw invalid([{ field: 'body.resource_id', issue: `is required: the action applies to one ${on}` }])
  const uuid = parseId(resource.id, given)
  if (!uuid) throw invalid([{ field: 'body.resource_id', issue: `is not an id of kind ${on}` }])
  return { ...resource, find: FINDS[action] ?? resource.find, uuid, shown: formatId(resource.id, uuid) }
}
