import * as z from 'zod'
import type { ApiDeps } from '../../deps.ts'
import { type Route, route } from '../../http/route.ts'
import { exampleId, pathId } from '../../requests/schemas.ts'
import { removeExport, requestExport, showExport, showExports } from './commands.ts'
import { DataExport, DataExports } from './data-export.ts'
import { MAX_A_DAY } from './plan.ts'
import { dataExportActions } from './policy.ts'

const tags = ['Privacy']
const params = z.object({ export_id: pathId('export') })
const processing: z.output<typeof DataExport> = {
  export_id: exampleId('export'),
  status: 'processing',
  created_at: '2026-11-21T09:30:00.000Z',
  completed_at: null,
  expires_at: null,
  progress: { parts_total: 0, parts_done: 0, bytes_total: 0, bytes_done: 0, percent: 0 },
  parts: [],
}
const completed: z.output<typeof DataExport> = {
  ...processing,
  status: 'completed',
  completed_at: '2026-11-21T09:42:00.000Z',
  expires_at: '2026-11-28T09:42:00.000Z',
  progress: {
    parts_total: 1,
    parts_done: 1,
    bytes_total: 1_482_190_331,
    bytes_done: 1_482_190_331,
    percent: 100,
  },
  parts: [
    {
      number: 1,
      name: 'keepsake-2026-11-21.zip',
      bytes: 1_482_190_331,
      download_url: 'https://api.example.org/v1/d/k1.tp4b60.x7Xp0s1YdQ0mZ3yJx2Qk4g/downloads/…/keepsake-2026-11-21.zip',
      expires_in: 86_400,
    },
  ],
}

/** Copies of all that a person has here (GDPR, Article 20). */
export const dataExportRoutes = (deps: ApiDeps): Route[] => [
  route({
    method: 'post',
    path: '/gdpr/export',
    operationId: 'requestDataExport',
    tags,
    summary: 'Request a copy of the caller’s own data',
    description: `The copy has the originals that the caller uploaded, and what they wrote, own and take part in, as ZIP archives of at most 4 GB; a larger file has an archive of its own. It is made in the background: the caller gets an e-mail when it is ready. While one is being made, the answer is that one, with status 200. At most ${MAX_A_DAY} within 24 hours.`,
    action: dataExportActions.request,
    problems: ['RATE_LIMITED'],
    status: 202,
    alsoStatus: { 200: 'One is being made already' },
    response: DataExport,
    examples: { response: processing },
    handle: ({ actor, context }) => requestExport(deps, actor, context),
  }),
  route({
    method: 'get',
    path: '/gdpr/export',
    operationId: 'listDataExports',
    tags,
    summary: 'Show the copies of the caller’s own data',
    description: 'Those of the last 30 days, the latest first.',
    action: dataExportActions.read,
    status: 200,
    response: DataExports,
    examples: { response: { exports: [completed] } },
    handle: async ({ actor }) => ({ data: await showExports(deps, actor) }),
  }),
  route({
    method: 'get',
    path: '/gdpr/export/{export_id}',
    operationId: 'getDataExport',
    tags,
    summary: 'Show a copy of the caller’s own data',
    description:
      'With a link for each archive once it is completed. Links work for a day; the archives are kept for a week.',
    action: dataExportActions.read,
    problems: ['NOT_FOUND'],
    params,
    status: 200,
    response: DataExport,
    examples: { response: completed },
    handle: async ({ actor, params }) => ({ data: await showExport(deps, actor, params.export_id) }),
  }),
  route({
    method: 'delete',
    path: '/gdpr/export/{export_id}',
    operationId: 'deleteDataExport',
    tags,
    summary: 'Remove a copy of the caller’s own data',
    description: 'Also one that is being made. Its links stop working at once.',
    action: dataExportActions.remove,
    problems: ['NOT_FOUND'],
    params,
    status: 204,
    async handle({ actor, params, context }) {
      await removeExport(deps, actor, context, { id: params.export_id, ofEvents: false })
      return { data: null }
    },
  }),
]
