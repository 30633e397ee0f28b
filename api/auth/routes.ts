import { publicRoute, type Route, route } from '../http/route.ts'
import { exampleId } from '../requests/schemas.ts'
import { type AuthDeps, completeLogin, login, logout } from './commands.ts'
import { sessionActions } from './policy.ts'
import { refresh } from './refresh.ts'
import { hashOfToken } from './refresh-reply.ts'
import { CompleteLoginBody, Keys, LoginBody, LogoutBody, RefreshBody, Tokens } from './session.ts'

const tags = ['Authentication']
const example: Tokens = {
  access_token: 'eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCJ9…',
  token_type: 'Bearer',
  expires_in: 900,
  refresh_token: 'q0yA2Y0…',
  refresh_expires_in: 604800,
  id_token: null,
  session_id: exampleId('session'),
}
const deprecated = 'Deprecated: sign in directly at the identity provider.'
const OUTAGE =
  '503 `AUTH_UNAVAILABLE` while the identity provider does not answer: the client keeps its tokens and tries again.'

export const authRoutes = (deps: AuthDeps): Route[] => [
  publicRoute({
    method: 'post',
    path: '/api/auth/login',
    operationId: 'login',
    tags,
    summary: 'Sign in with e-mail and password',
    description: `${deprecated} 422 \`MFA_REQUIRED\` for an account with a second factor; its \`details\` have a \`challenge_id\` for \`POST /api/auth/login/mfa\`, the \`methods\` that the user has, as the identity provider calls them, and \`expires_in\` seconds. ${OUTAGE}`,
    deprecated: true,
    limit: 'login',
    account: (body) => body.email,
    problems: ['UNAUTHORIZED', 'NOT_FOUND', 'MFA_REQUIRED', 'AUTH_UNAVAILABLE'],
    body: LoginBody,
    status: 200,
    response: Tokens,
    examples: {
      request: {
        email: 'ann@example.org',
        password: 'correct horse battery staple',
        device_id: 'phone-7f3a',
        device_name: 'Ann’s phone',
      },
      response: example,
    },
    handle: async ({ context, body }) => ({ data: await login(deps, context, body) }),
  }),

  publicRoute({
    method: 'post',
    path: '/api/auth/login/mfa',
    operationId: 'completeLogin',
    tags,
    summary: 'Complete a sign-in with a second factor',
    description: `After \`MFA_REQUIRED\`. A wrong code is \`UNAUTHORIZED\`, and can be repeated as often as the identity provider allows. ${OUTAGE}`,
    limit: 'login',
    // As a hash, as below.
    account: (body) => hashOfToken(body.challenge_id).toString('hex'),
    problems: ['UNAUTHORIZED', 'NOT_FOUND', 'MFA_REQUIRED', 'AUTH_UNAVAILABLE'],
    body: CompleteLoginBody,
    status: 200,
    response: Tokens,
    examples: { request: { challenge_id: 'Fe26.2**05b3…', code: '287082' }, response: example },
    handle: async ({ context, body }) => ({ data: await completeLogin(deps, context, body) }),
  }),

  publicRoute({
    method: 'post',
    path: '/api/auth/refresh',
    operationId: 'refreshTokens',
    tags,
    summary: 'Exchange a refresh token for new tokens',
    description: `${deprecated} A refresh token that was replaced gets the same answer for 90 seconds, for two tabs and for answers that were lost; using it later ends the session. ${OUTAGE}`,
    deprecated: true,
    limit: 'refresh',
    // As a hash: a token is long, and the counters of the process keep its key.
    account: (body) => hashOfToken(body.refresh_token).toString('hex'),
    problems: ['UNAUTHORIZED', 'NOT_FOUND', 'MFA_REQUIRED', 'AUTH_UNAVAILABLE'],
    body: RefreshBody,
    status: 200,
    response: Tokens,
    examples: { request: { refresh_token: 'q0yA2Y0…' }, response: example },
    handle: async ({ context, body }) => ({ data: await refresh(deps, context, body.refresh_token) }),
  }),

  route({
    method: 'post',
    path: '/api/auth/logout',
    operationId: 'logout',
    tags,
    summary: 'Sign out on all devices',
    description: `${deprecated} Every access and refresh token of the caller is refused from now on.`,
    deprecated: true,
    action: sessionActions.endAll,
    body: LogoutBody,
    status: 204,
    examples: { request: { refresh_token: 'q0yA2Y0…' } },
    async handle({ context, actor, body }) {
      await logout(deps, context, actor, body.refresh_token)
      return { data: null }
    },
  }),

  publicRoute({
    method: 'get',
    path: '/.well-known/jwks.json',
    operationId: 'getSigningKeys',
    tags,
    summary: 'The public keys of access tokens',
    limit: 'public',
    description: 'The keys of the identity provider that this server uses, for other services that verify its tokens.',
    atRoot: true,
    unwrapped: true,
    problems: ['AUTH_UNAVAILABLE'],
    status: 200,
    response: Keys,
    examples: {
      response: { keys: [{ kty: 'RSA', kid: '2026-11', use: 'sig', alg: 'RS256', n: 'u1SU1L…', e: 'AQAB' }] },
    },
    async handle() {
      const { keys } = await deps.verifier.keys.published()
      return { data: { keys: keys as { kty: string }[] }, headers: { 'Cache-Control': 'public, max-age=300' } }
    },
  }),
]
