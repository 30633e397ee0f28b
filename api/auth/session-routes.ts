import * as z from 'zod'
import { type Route, route } from '../http/route.ts'
import { exampleId, pathId } from '../requests/schemas.ts'
import type { AuthDeps } from './commands.ts'
import { sessionActions } from './policy.ts'
import { LogoutBody, Sessions } from './session.ts'
import { revokeOtherSessions, revokeSession, showSessions } from './session-commands.ts'

const tags = ['Sessions']
const LASTING =
  'Its tokens are refused from the next request on, and event streams end, on every server within five seconds.'
const ALONE =
  '422 `SESSION_NOT_REVOCABLE` where the identity provider does not say which session a token belongs to: then only `POST /api/auth/logout` works.'

export const sessionRoutes = (deps: AuthDeps): Route[] => [
  route({
    method: 'get',
    path: '/api/auth/sessions',
    operationId: 'getSessions',
    tags,
    summary: 'Show where the caller is signed in',
    description:
      'The session used last comes first; at most the 100 used last, and none that was unused for 30 days. `current` is true in none where the identity provider does not say which session a token belongs to.',
    action: sessionActions.read,
    status: 200,
    response: Sessions,
    examples: {
      response: {
        sessions: [
          {
            session_id: exampleId('session'),
            device_name: 'Ann’s phone',
            ip_address: '203.0.113.7',
            created_at: '2026-11-21T09:30:00.000Z',
            last_used_at: '2026-11-24T18:05:00.000Z',
            current: true,
          },
        ],
      },
    },
    handle: async ({ actor }) => ({ data: await showSessions(deps, actor) }),
  }),
  route({
    method: 'delete',
    path: '/api/auth/sessions/{session_id}',
    operationId: 'deleteSession',
    tags,
    summary: 'Sign out on one device',
    description: `Also the caller’s own. ${LASTING} Push messages to its devices end. A client that ends its own session sends its refresh token, for the identity provider goes on to accept it otherwise; that of another session is left alone. ${ALONE}`,
    action: sessionActions.end,
    problems: ['SESSION_NOT_REVOCABLE'],
    params: z.object({ session_id: pathId('session') }),
    body: LogoutBody,
    status: 204,
    examples: { request: { refresh_token: 'q0yA2Y0…' } },
    async handle({ context, actor, params, body }) {
      await revokeSession(deps, context, actor, { id: params.session_id, refreshToken: body.refresh_token })
      return { data: null }
    },
  }),
  route({
    method: 'delete',
    path: '/api/auth/sessions',
    operationId: 'deleteOtherSessions',
    tags,
    summary: 'Sign out on all other devices',
    description: `${LASTING} Only the session of the request goes on; \`POST /api/auth/logout\` ends it, too. ${ALONE}`,
    action: sessionActions.end,
    problems: ['SESSION_NOT_REVOCABLE'],
    status: 204,
    async handle({ context, actor }) {
      await revokeOtherSessions(deps, context, actor)
      return { data: null }
    },
  }),
]
