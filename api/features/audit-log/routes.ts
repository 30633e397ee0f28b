import * as z from 'zod'
import type { ApiDeps } from '../../deps.ts'
import { type Route, route } from '../../http/route.ts'
import { exampleId, pathId } from '../../requests/schemas.ts'
import { queryAudit } from './commands.ts'
import { AuditExport, AuditPage, QueryAudit, RequestAuditExport } from './entry.ts'
import { requestExport, showExport } from './export-commands.ts'
import { auditLogActions } from './policy.ts'

const tags = ['Audit']
const processing: z.output<typeof AuditExport> = {
  export_id: exampleId('export'),
  status: 'processing',
  format: 'csv',
  created_at: '2026-11-21T09:30:00.000Z',
  completed_at: null,
  progress: { entries: 0, bytes: 0, reached: null },
  download_url: null,
  expires_in: null,
  expires_at: null,
}
const completed: z.output<typeof AuditExport> = {
  ...processing,
  status: 'completed',
  completed_at: '2026-11-21T09:31:00.000Z',
  progress: { entries: 48_211, bytes: 19_530_112, reached: '2026-08-02T06:11:52.002911Z' },
  download_url: 'https://api.example.org/v1/d/k1.tp4b60.x7Xp0s1YdQ0mZ3yJx2Qk4g/downloads/…/audit-log-2026-11-21.csv',
  expires_in: 86_400,
  expires_at: '2026-11-28T09:31:00.000Z',
}

export const auditLogRoutes = (deps: ApiDeps): Route[] => [
  route({
    method: 'post',
    path: '/admin/audit/query',
    operationId: 'queryAudit',
    tags,
    summary: 'Query the audit log',
    description:
      'For platform administrators (`ROLE_ADMIN`); other callers get 404. The latest entries first, over all tiers. A page ends early, with `has_more`, when it would have to read more than 64 MiB from the object store or for longer than 3 seconds. Without `actor_id`, an archived day over 64 MiB is not searched: the answer is 400. Entries that are not yet sealed are left out unless `include_unsealed` is given. The query itself becomes an entry, with its filter; the address is left out of that.',
    action: auditLogActions.query,
    limit: 'audit',
    problems: ['NOT_FOUND', 'INVALID_CURSOR'],
    isQuery: true,
    body: QueryAudit,
    status: 200,
    response: AuditPage,
    examples: {
      request: { actor_id: exampleId('user'), action: ['MEDIA_DELETE'], from: '2026-11-01T00:00:00Z', limit: 50 },
      response: {
        logs: [
          {
            audit_id: exampleId('audit'),
            actor_id: exampleId('user'),
            action: 'MEDIA_DELETE',
            resource_type: 'media',
            resource_id: exampleId('media'),
            result: 'success',
            ip_address: '203.0.113.7',
            user_agent: 'Mozilla/5.0',
            occurred_at: '2026-11-21T09:30:00.123456Z',
            org_id: exampleId('organization'),
            request_id: exampleId('request'),
            client_request_id: null,
            details: { operation: 'delete' },
            personal: null,
            personal_data: 'shown',
            sealed: true,
          },
        ],
        next_cursor: null,
        has_more: false,
        total: 1,
        total_is_estimate: false,
        tiers_searched: ['hot'],
        sealed_until: '2026-11-21T09:30:02.000Z',
      },
    },
    handle: async ({ actor, context, body }) => ({ data: await queryAudit(deps, { actor, context }, body) }),
  }),
  route({
    method: 'post',
    path: '/admin/audit/export',
    operationId: 'requestAuditExport',
    tags,
    summary: 'Export the audit log',
    description:
      'For platform administrators (`ROLE_ADMIN`); other callers get 404. The file is made in the background, with the entries up to now that match; the caller gets an e-mail when it is ready. CSV is in UTF-8 with a byte order mark, with every field quoted; a field that a spreadsheet would take for a formula has an apostrophe before it, so CSV is not reversible: JSON Lines is the exact form. At most 10 a day.',
    action: auditLogActions.export,
    limit: 'export',
    problems: ['NOT_FOUND'],
    body: RequestAuditExport,
    status: 201,
    response: AuditExport,
    examples: { request: { format: 'csv', org_id: exampleId('organization') }, response: processing },
    handle: async ({ actor, context, body }) => ({ data: await requestExport(deps, { actor, context }, body) }),
  }),
  route({
    method: 'get',
    path: '/admin/audit/export/{export_id}',
    operationId: 'getAuditExport',
    tags,
    summary: 'Show an export of the audit log',
    description: 'Only to the administrator who requested it. Links work for a day; the file is kept for a week.',
    action: auditLogActions.export,
    problems: ['NOT_FOUND'],
    params: z.object({ export_id: pathId('export') }),
    status: 200,
    response: AuditExport,
    examples: { response: completed },
    handle: async ({ actor, params }) => ({ data: await showExport(deps, actor, params.export_id) }),
  }),
]
