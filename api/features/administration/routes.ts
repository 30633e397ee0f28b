import type { ApiDeps } from '../../deps.ts'
import { type Route, route } from '../../http/route.ts'
import type { Catalog } from '../../permissions/catalog.ts'
import { exampleId } from '../../requests/schemas.ts'
import { explainPermission } from './commands.ts'
import { ExplainPermission, PermissionExplanation } from './explanation.ts'
import { permissionActions } from './policy.ts'

export const permissionRoutes = ({ db }: ApiDeps, catalog: Catalog): Route[] => [
  route({
    method: 'post',
    path: '/admin/permissions/explain',
    operationId: 'explainPermission',
    tags: ['Administration'],
    summary: 'Explain why a user may or may not do something',
    description:
      'For platform administrators (`ROLE_ADMIN`); other callers get 404. A dry run of the rules of docs/permissions.md: it performs no action and adds an entry to the audit log.',
    action: permissionActions.explain,
    problems: ['NOT_FOUND'],
    body: ExplainPermission,
    status: 200,
    response: PermissionExplanation,
    examples: {
      request: {
        user_id: exampleId('user'),
        org_id: exampleId('organization'),
        action: 'media.read_location',
        resource_id: exampleId('media'),
      },
      response: {
        allowed: false,
        reason: 'rule_not_met',
        rule: 'the uploader, or owners and administrators of the organization',
        facts: { role: 'member', uploader: false, organization_admin: false },
      },
    },
    handle: async ({ actor, context, body }) => ({
      data: await explainPermission({ db, catalog }, { actor, context }, body),
    }),
  }),
]
