import * as z from 'zod'
import { type Route, signedRoute } from '../http/route.ts'
import type { AuthDeps } from './commands.ts'
import { LogoutTokenBody, ProviderEvent, receiveLogoutToken, receiveProviderEvent } from './notices.ts'

const tags = ['Sessions']
const Nothing = z.object({}).meta({ id: 'NoticeReceived' })

/** For the identity provider. Both are `NOT_FOUND` until they are configured. */
export const noticeRoutes = (deps: AuthDeps): Route[] => [
  signedRoute({
    method: 'post',
    path: '/api/auth/provider-events',
    operationId: 'receiveProviderEvent',
    tags,
    summary: 'Tell of a login or a logout at the identity provider itself',
    description:
      'For the identity provider, signed as Standard Webhooks 1.0 says (`webhook-id`, `webhook-timestamp`, `webhook-signature`). A login is recorded in the audit log. A logout ends the session that it names, or all sessions of the user.',
    headers: z.object({
      'webhook-id': z.string().optional().meta({ description: 'Of the event: the same in repetitions' }),
      'webhook-timestamp': z.string().optional().meta({ description: 'Unix seconds; at most five minutes ago' }),
      'webhook-signature': z.string().optional().meta({ description: '`v1,` and base64 of the HMAC-SHA-256' }),
    }),
    limit: 'provider',
    problems: ['UNAUTHORIZED', 'NOT_FOUND', 'MALFORMED_JSON'],
    textType: 'application/json',
    body: ProviderEvent,
    status: 200,
    response: Nothing,
    examples: {
      request: {
        type: 'login',
        timestamp: '2026-11-21T09:30:00Z',
        data: { sub: '01932c07-209c-7c3e-8a5a-3f1d2b4c5d6e', sid: '8b1f3c', ip_address: '203.0.113.7' },
      },
      response: {},
    },
    async handle({ context, headers, body }) {
      await receiveProviderEvent(deps, context, { headers, body })
      return { data: {} }
    },
  }),
  signedRoute({
    method: 'post',
    path: '/api/auth/backchannel-logout',
    operationId: 'receiveLogoutToken',
    tags,
    summary: 'End the sessions that a logout token names',
    description:
      'For the identity provider (OpenID Connect Back-Channel Logout 1.0): the session of its `sid`, or all sessions of its `sub`.',
    limit: 'provider',
    problems: ['NOT_FOUND', 'AUTH_UNAVAILABLE'],
    textType: 'application/x-www-form-urlencoded',
    body: LogoutTokenBody,
    status: 200,
    response: Nothing,
    examples: { request: { logout_token: 'eyJhbGciOiJSUzI1NiIsInR5cCI6ImxvZ291dCtqd3QifQ…' }, response: {} },
    async handle({ context, body }) {
      await receiveLogoutToken(deps, context, body)
      return { data: {} }
    },
  }),
]
