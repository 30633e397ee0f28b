import { setTimeout as sleep } from 'node:timers/promises'
import { decodeJwt } from 'jose'
import { formatId, parseId, type Uuid } from '../../lib/contract/ids.ts'
import { notFound, Problem } from '../../lib/contract/problem.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { insertAudit } from '../audit/queries.ts'
import type { Database } from '../db/db.ts'
import type { Actor } from '../requests/actor.ts'
import type { Context } from '../requests/context.ts'
import type { IdentityProvider, TokenReply } from './identity-provider.ts'
import { endSignIns } from './queries.ts'
import type { Session } from './session.ts'
import type { Users } from './users.ts'
import { type Claims, sessionOf, unauthorized, type VerifierOptions, verifyToken } from './verify-token.ts'

export interface AuthDeps {
  db: Database
  log: Log
  users: Users
  verifier: VerifierOptions
  /** Undefined where users sign in at the identity provider itself: the proxied operations are 404 then. */
  provider: IdentityProvider | undefined
}

const REFRESH_SECONDS = 7 * 24 * 3600
const SAME_SECOND_TRIES = 3

/** Signs in with e-mail and password at the identity provider. */
export async function login(deps: AuthDeps, context: Context, email: string, password: string): Promise<Session> {
  const provider = providerOf(deps)
  await deps.db.check()
  for (let tried = 1; ; tried++) {
    const reply = await provider.login(email, password).catch(async (error: unknown) => {
      await recordRefusal(deps, context, 'LOGIN', error)
      throw error
    })
    const claims = await claimsOf(deps, reply)
    if (!(await deps.users.isRevokedNow(claims))) {
      await record(deps, context, 'LOGIN', claims.userId)
      return replyOf(reply, claims)
    }
    // Tokens count in seconds: a sign-in within the second of a sign-out looks older than the sign-out.
    if (tried === SAME_SECOND_TRIES) throw unauthorized('revoked')
    await sleep(1000)
  }
}

/** Exchanges a refresh token for new tokens. A session from before a sign-out gets none. */
export async function refresh(deps: AuthDeps, context: Context, refreshToken: string): Promise<Session> {
  const provider = providerOf(deps)
  // The request uses up the old token, so first check that this server can finish its part.
  await deps.db.check()
  const reply = await provider.refresh(refreshToken).catch(async (error: unknown) => {
    await recordRefusal(deps, context, 'TOKEN_REFRESH', error)
    throw error
  })
  const claims = await claimsOf(deps, reply)
  if (await deps.users.isRevokedNow(claims)) {
    await provider.revoke(reply.refresh_token)
    await recordRefusal(deps, context, 'TOKEN_REFRESH', unauthorized('revoked'), claims.userId)
    throw unauthorized('revoked')
  }
  await record(deps, context, 'TOKEN_REFRESH', claims.userId)
  return replyOf(reply, claims)
}

/** Immediately ends every sign-in of the caller, on all devices. */
export async function logout(
  deps: AuthDeps,
  context: Context,
  actor: Actor,
  refreshToken: string | undefined,
): Promise<void> {
  await deps.db.inTransaction({}, async (tx) => {
    await endSignIns(tx, actor.userId)
    await insertAudit(tx, entry(context, 'LOGOUT', actor.userId, 'success'))
    await context.remember(tx, 204, null)
  })
  deps.users.forget(actor.userId)
  // This server refuses the tokens from now on; revoking them at the provider is best effort.
  if (refreshToken !== undefined) await deps.provider?.revoke(refreshToken)
}

function providerOf(deps: AuthDeps): IdentityProvider {
  if (deps.provider) return deps.provider
  throw notFound()
}

/** Claims of the access token with the session claims of the ID token, which has more of them at many providers. */
async function claimsOf(deps: AuthDeps, reply: TokenReply): Promise<Claims> {
  const claims = await verifyToken(reply.access_token, deps.verifier).catch((error: unknown) => {
    if (error instanceof Problem && error.code === 'AUTH_UNAVAILABLE') throw error
    // The configuration is wrong (issuer, audience, token type); the user's password was correct.
    throw new Error('the identity provider issued a token that this server does not accept', { cause: error })
  })
  const said = idTokenSession(reply.id_token)
  const times = [claims.authTime, said?.authTime].filter((time) => time !== undefined)
  return {
    ...claims,
    sessionId: claims.sessionId ?? said?.sessionId ?? null,
    authTime: times.length > 0 ? Math.min(...times) : undefined,
  }
}

/** The token came directly from the provider, so its signature need not be checked. */
function idTokenSession(idToken: string | undefined): ReturnType<typeof sessionOf> | undefined {
  try {
    return idToken === undefined ? undefined : sessionOf(decodeJwt(idToken))
  } catch {
    return undefined
  }
}

function replyOf(reply: TokenReply, { sessionId }: Claims): Session {
  const uuid = sessionId === null ? undefined : parseId('session', sessionId)
  return {
    access_token: reply.access_token,
    token_type: 'Bearer',
    expires_in: reply.expires_in,
    refresh_token: reply.refresh_token,
    refresh_expires_in: reply.refresh_expires_in ?? REFRESH_SECONDS,
    id_token: reply.id_token ?? null,
    session_id: uuid ? formatId('session', uuid) : sessionId,
  }
}

type Action = 'LOGIN' | 'TOKEN_REFRESH' | 'LOGOUT'

const entry = (context: Context, action: Action, userId: Uuid | null, result: 'success' | 'denied') => ({
  orgId: null,
  actorId: userId,
  action,
  resourceType: 'session',
  resourceId: userId,
  result,
  context,
})

const record = (deps: AuthDeps, context: Context, action: Action, userId: Uuid) =>
  deps.db.inTransaction({}, (tx) => insertAudit(tx, entry(context, action, userId, 'success')))

/** Records refusals only; an unavailable identity provider is not a refusal. */
async function recordRefusal(deps: AuthDeps, context: Context, action: Action, error: unknown, userId?: Uuid) {
  if (!(error instanceof Problem) || error.status >= 500) return
  const refused = { ...entry(context, action, userId ?? null, 'denied'), details: { code: error.code } }
  await deps.db
    .inTransaction({}, (tx) => insertAudit(tx, refused))
    .catch((cause: unknown) => deps.log.error({ err: cause }, 'could not record a refused sign-in'))
}
