import * as z from 'zod'
import type { ApiDeps } from '../../deps.ts'
import { inOrganization } from '../../http/in-organization.ts'
import { type Route, route } from '../../http/route.ts'
import { exampleId, pathId } from '../../requests/schemas.ts'
import { removeExport } from './commands.ts'
import { requestEventExport, showEventExport, showEventExports } from './event-commands.ts'
import { EventExport, EventExports } from './event-export.ts'
import { MAX_A_DAY } from './plan.ts'
import { eventExportActions } from './policy.ts'

const tags = ['Events']
const OWN = '/api/users/me/event-exports'
const params = z.object({ export_id: pathId('export') })
const processing: z.output<typeof EventExport> = {
  export_id: exampleId('export'),
  event_id: exampleId('event'),
  org_id: exampleId('organization'),
  event_title: 'Class reunion',
  status: 'processing',
  created_at: '2026-11-21T09:30:00.000Z',
  completed_at: null,
  expires_at: null,
  progress: { parts_total: 0, parts_done: 0, bytes_total: 0, bytes_done: 0, percent: 0 },
  parts: [],
  error: null,
}
const completed: z.output<typeof EventExport> = {
  ...processing,
  status: 'completed',
  completed_at: '2026-11-21T09:42:00.000Z',
  expires_at: '2026-11-28T09:42:00.000Z',
  progress: { parts_total: 1, parts_done: 1, bytes_total: 1_482_190_331, bytes_done: 1_482_190_331, percent: 100 },
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

/** Exports of events. They are read outside of the organization: an export outlives its event. */
export const eventExportRoutes = (deps: ApiDeps): Route[] => [
  inOrganization(deps).steps({
    method: 'post',
    path: '/api/orgs/{org_id}/events/{event_id}/export',
    operationId: 'requestEventExport',
    tags,
    summary: 'Request everything of an event as archives',
    description: `An addition to the interface specification. For the owner of the event and the owners and administrators of the organization, in any state of the event. The archives have what the caller may see: \`event.json\` with the event, its album, comments, numbers of reactions, participants and invitations, the originals of the media items of the album and of those attached to comments, and the films of the album. They are made in the background: the caller gets an e-mail when they are ready. What the caller may see is asked while they are made; who does not manage the event any more gets nothing. While one is being made for the caller, the answer is that one, with status 200. At most ${MAX_A_DAY} within 24 hours, apart from copies of the caller’s own data.`,
    action: eventExportActions.request,
    problems: ['RATE_LIMITED'],
    params: z.object({ org_id: pathId('organization'), event_id: pathId('event') }),
    status: 202,
    alsoStatus: { 200: 'One is being made already' },
    response: EventExport,
    examples: { response: processing },
    handle: (request) => requestEventExport(deps, request, request.params.event_id),
  }),
  route({
    method: 'get',
    path: OWN,
    operationId: 'listEventExports',
    tags,
    summary: 'Show the exports of events that the caller asked for',
    description:
      'An addition to the interface specification. Those of the last 30 days, the latest first, also of events that have been deleted since.',
    action: eventExportActions.read,
    status: 200,
    response: EventExports,
    examples: { response: { exports: [completed] } },
    handle: async ({ actor }) => ({ data: await showEventExports(deps, actor) }),
  }),
  route({
    method: 'get',
    path: `${OWN}/{export_id}`,
    operationId: 'getEventExport',
    tags,
    summary: 'Show an export of an event',
    description:
      'An addition to the interface specification. With a link for each archive once it is completed. Links work for a day; the archives are kept for a week, whatever becomes of the event.',
    action: eventExportActions.read,
    problems: ['NOT_FOUND'],
    params,
    status: 200,
    response: EventExport,
    examples: { response: completed },
    handle: async ({ actor, params }) => ({ data: await showEventExport(deps, actor, params.export_id) }),
  }),
  route({
    method: 'delete',
    path: `${OWN}/{export_id}`,
    operationId: 'deleteEventExport',
    tags,
    summary: 'Remove an export of an event',
    description:
      'An addition to the interface specification. Also one that is being made. Its links stop working at once.',
    action: eventExportActions.remove,
    problems: ['NOT_FOUND'],
    params,
    status: 204,
    async handle({ actor, params, context }) {
      await removeExport(deps, actor, context, { id: params.export_id, ofEvents: true })
      return { data: null }
    },
  }),
]
