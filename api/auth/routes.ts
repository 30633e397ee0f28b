import { publicRoute, type Route, route } from '../http/route.ts'
import { type AuthDeps, login, logout, refresh } from './commands.ts'
import { sessionActions } from './policy.ts'
import { Keys, LoginBody, LogoutBody, RefreshBody, Session } from './session.ts'

const tags = ['Authentication']
const example: Session = {
  access_token: 'eyJhbGciOiJSUzI1NiIsInR5cCI6ImF0K2p3dCJ9…',
  token_type: 'Bearer',
  expires_in: 900,
  refresh_token: 'q0yA2Y0…',
  refresh_expires_in: 604800,
  id_token: null,
  session_id: 'ses_01j4p0f84wfhz8mpfz3mjs2qaf',
}
const deprecated = 'Deprecated: sign in directly at the identity provider.'

export const authRoutes = (deps: AuthDeps): Route[] => [
  publicRoute({
    method: 'post',
    path: '/api/auth/login',
    operationId: 'login',
    tags,
    summary: 'Sign in with e-mail and password',
    description: deprecated,
    deprecated: true,
    limit: 'login',
    account: (body) => body.email,
    problems: ['UNAUTHORIZED', 'NOT_FOUND', 'MFA_REQUIRED', 'AUTH_UNAVAILABLE'],
    body: LoginBody,
    status: 200,
    response: Session,
    examples: { request: { email: 'ann@example.org', password: 'correct horse battery staple' }, response: example },
    handle: async ({ context, body }) => ({ data: await login(deps, context, body.email, body.password) }),
  }),

  publicRoute({
    method: 'post',
    path: '/api/auth/refresh',
    operationId: 'refreshTokens',
    tags,
    summary: 'Exchange a refresh token for new tokens',
    description: `${deprecated} A refresh token can be used once; using it again ends the whole session.`,
    deprecated: true,
    limit: 'refresh',
    problems: ['UNAUTHORIZED', 'NOT_FOUND', 'MFA_REQUIRED', 'AUTH_UNAVAILABLE'],
    body: RefreshBody,
    status: 200,
    response: Session,
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
