import { setTimeout as sleep } from 'node:timers/promises'
import { decodeJwt, type JWTPayload } from 'jose'
import type { Id, Uuid } from '../../lib/contract/ids.ts'
import { notFound, Problem } from '../../lib/contract/problem.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { type AuditDetails, insertAudit } from '../audit/queries.ts'
import type { Refusals } from '../audit/refusals.ts'
import type { Database, Tx } from '../db/db.ts'
import type { TakeOfAddress, TakePoints } from '../limits/points.ts'
import type { Actor } from '../requests/actor.ts'
import type { Context } from '../requests/context.ts'
import type { Exchanges } from './exchanges.ts'
import { type IdentityProvider, type TokenReply, wrongCode, wrongPassword } from './identity-provider.ts'
import { isEnded, paddingOf, signInOf } from './policy.ts'
import { saveRefreshToken } from './refresh-queries.ts'
import { hashOfToken } from './refresh-reply.ts'
import type { CompleteLoginBody, LoginBody, Tokens } from './session.ts'
import { endSignIns, insertSessionByRefresh, takeOverDevices } from './session-queries.ts'
import { record, type Users } from './users.ts'
import { type Claims, factsOf, sessionOf, type VerifierOptions, verifyToken } from './verify-token.ts'

export interface AuthDeps {
  db: Database
  log: Log
  users: Users
  verifier: VerifierOptions
  /** Undefined where users sign in at the identity provider itself: the proxied operations are 404 then. */
  provider: IdentityProvider | undefined
  /** Counts the exchanges of refresh tokens of a user. */
  takeExchange: TakePoints
  /** Counts the exchanges of refresh tokens that this server does not know, by the address that sends them. */
  takeUnknown: TakeOfAddress
  /** Those of this process that run. */
  exchanges: Exchanges
  /** Counts refused refreshes, which anyone can ask for. */
  refusals: Refusals
  /** What the identity provider tells of sign-ins and sign-outs. */
  notices: {
    /** Secrets of its webhook, the newest first; none: there is no webhook. */
    secrets: readonly string[]
    /** The clients whose logout tokens count; none: there is no back-channel logout. */
    clientIds: readonly string[]
  }
}

/** What clients are told of a refresh token whose lifetime the provider does not say. A used one is known for as long. */
const UNTOLD_SECONDS = 7 * 24 * 3600
/** For how long such a token is known here: as long as its session is listed. It may last longer than clients are told. */
const KNOWN_SECONDS = 30 * 24 * 3600
const SAME_SECOND_TRIES = 3

/** Signs in with e-mail and password at the identity provider. */
export function login(deps: AuthDeps, context: Context, given: LoginBody): Promise<Tokens> {
  const provider = providerOf(deps)
  const ask = () => provider.login(given.email, given.password)
  return signIn(deps, context, given, { provider, ask, refused: wrongPassword, tries: SAME_SECOND_TRIES })
}

/** Completes a sign-in that was answered with MFA_REQUIRED. */
export function completeLogin(deps: AuthDeps, context: Context, given: CompleteLoginBody): Promise<Tokens> {
  const provider = providerOf(deps)
  const ask = () => provider.complete(given.challenge_id, given.code)
  return signIn(deps, context, given, { provider, ask, refused: wrongCode, tries: 1 })
}

type Device = Pick<LoginBody, 'device_id' | 'device_name'>

async function signIn(
  deps: AuthDeps,
  context: Context,
  device: Device,
  o: { provider: IdentityProvider; ask(): Promise<TokenReply>; refused(): Problem; tries: number },
): Promise<Tokens> {
  const begun = performance.now()
  const refuse = async (error: unknown): Promise<never> => {
    await recordRefusal(deps, context, error)
    if (isUnauthorized(error)) await sleep(paddingOf(performance.now() - begun))
    throw error
  }
  await deps.db.check()
  for (let tried = 1; ; tried++) {
    const reply = await o.ask().catch(refuse)
    const claims = await claimsOf(deps, reply)
    const sessionId = await deps.db.inTransaction({}, (tx) =>
      beginSession(deps, tx, context, { reply, claims, device }),
    )
    deps.users.forget(claims.userId)
    if (sessionId !== undefined && sessionId !== 'closed') return tokensOf(reply, sessionId)
    if (reply.refresh_token !== undefined) await o.provider.revoke(reply.refresh_token)
    // Nothing tells a closed account from a wrong password, not even the time that the answer takes.
    if (sessionId === 'closed' || tried === o.tries) return refuse(o.refused())
    // Tokens count in seconds: a sign-in within the second of a sign-out looks older than the sign-out.
    await sleep(1000)
  }
}

/** Undefined for a sign-in that looks as if it had ended; `closed` where the account is. */
async function beginSession(
  { users }: Pick<AuthDeps, 'users'>,
  tx: Tx,
  context: Context,
  { reply, claims, device }: { reply: TokenReply; claims: Claims; device: Device },
): Promise<Id<'session'> | 'closed' | undefined> {
  const details = {
    ip: context.ip,
    deviceId: device.device_id,
    deviceName: device.device_name,
    refreshFor: reply.refresh_token === undefined ? undefined : refreshForOf(reply),
  }
  const state = await record(users, tx, claims, { ...details, isWitnessed: true })
  if (state.notBefore === Number.POSITIVE_INFINITY) return 'closed'
  if (isEnded(claims, state)) return undefined
  const { userId, sid: logoutSid } = claims
  const sessionId = state.signIn?.id ?? (await insertSessionByRefresh(tx, { ...details, userId, logoutSid }))
  const { deviceId } = details
  if (deviceId !== undefined) await takeOverDevices(tx, { userId, sessionId, deviceId })
  if (reply.refresh_token !== undefined) {
    await saveRefreshToken(tx, hashOfToken(reply.refresh_token), { userId, sessionId }, knownForOf(reply))
  }
  await insertAudit(tx, entry(context, 'LOGIN', { userId, sessionId }, 'success'))
  return sessionId
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
    await insertAudit(tx, entry(context, 'LOGOUT', actor, 'success'))
    await context.remember(tx, 204, null)
  })
  deps.users.forget(actor.userId)
  // This server refuses the tokens from now on; revoking them at the provider is best effort.
  if (refreshToken !== undefined) await deps.provider?.revoke(refreshToken)
}

export function providerOf(deps: Pick<AuthDeps, 'provider'>): IdentityProvider {
  if (deps.provider) return deps.provider
  throw notFound()
}

export const isUnauthorized = (error: unknown): error is Problem =>
  error instanceof Problem && error.code === 'UNAUTHORIZED'

/** Seconds; null where the provider does not say it. A guess would hide a session whose token works. */
export const refreshForOf = (reply: TokenReply): number | null => reply.refresh_expires_in ?? null

export const knownForOf = (reply: TokenReply): number => reply.refresh_expires_in ?? KNOWN_SECONDS

/** Of the token that was used for it: it is only known to notice that it comes again, and each refresh leaves one. */
export const usedForOf = (reply: TokenReply): number => reply.refresh_expires_in ?? UNTOLD_SECONDS

/** Claims of the access token, completed by those of the ID token, which says more at many providers. */
export async function claimsOf(deps: Pick<AuthDeps, 'verifier' | 'provider'>, reply: TokenReply): Promise<Claims> {
  const claims = await verifyToken(reply.access_token, deps.verifier).catch((error: unknown) => {
    if (error instanceof Problem && error.code === 'AUTH_UNAVAILABLE') throw error
    // The configuration is wrong (issuer, audience, token type); the user's password was correct.
    throw new Error('the identity provider issued a token that this server does not accept', { cause: error })
  })
  const payload = idTokenOf(reply, claims, deps.provider?.clientId)
  if (!payload) return claims
  const said = sessionOf(payload)
  const facts = factsOf(payload)
  const times = [claims.authTime, said.authTime].filter((time) => time !== undefined)
  const { email = facts.email, phoneNumber = facts.phoneNumber } = claims
  const { displayName = facts.displayName, locale = facts.locale } = claims
  return {
    ...claims,
    ...{ email, phoneNumber, displayName, locale },
    // What names the access tokens comes first: they are looked up by it.
    signIn: claims.signIn ?? signInOf(said),
    isNamedByIdToken: claims.signIn === null,
    sid: claims.sid ?? said.sid,
    authTime: times.length > 0 ? Math.min(...times) : undefined,
  }
}

/** The token came directly from the provider, so its signature need not be checked (OpenID Connect Core §3.1.3.7). */
function idTokenOf(reply: TokenReply, { issuer, subject }: Claims, clientId?: string): JWTPayload | undefined {
  if (reply.id_token === undefined) return undefined
  try {
    const payload = decodeJwt(reply.id_token)
    const isOurs = [payload.aud].flat().includes(clientId)
    return payload.iss === issuer && payload.sub === subject && isOurs ? payload : undefined
  } catch {
    return undefined
  }
}

/** `sent`: the refresh token of the request, which stays valid where the provider does not rotate them. */
export const tokensOf = (reply: TokenReply, sessionId: Id<'session'>, sent?: string): Tokens => ({
  access_token: reply.access_token,
  token_type: 'Bearer',
  expires_in: reply.expires_in,
  refresh_token: reply.refresh_token ?? sent ?? null,
  refresh_expires_in: reply.refresh_expires_in ?? UNTOLD_SECONDS,
  id_token: reply.id_token ?? null,
  session_id: sessionId,
})

type Action = 'LOGIN' | 'TOKEN_REFRESH' | 'LOGOUT' | 'SESSION_REVOKE'

interface Subject {
  userId: Uuid | null
  sessionId: Uuid | null
}

export const entry = (
  context: Context,
  action: Action,
  { userId, sessionId }: Subject,
  result: 'success' | 'denied',
  details: AuditDetails = {},
) => ({
  orgId: null,
  actorId: userId,
  action,
  resourceId: sessionId,
  result,
  context,
  details,
})

/** Records refusals only; an unavailable identity provider is not a refusal. */
async function recordRefusal(deps: Pick<AuthDeps, 'db' | 'log'>, context: Context, error: unknown): Promise<void> {
  if (!(error instanceof Problem) || error.status >= 500) return
  const refused = entry(context, 'LOGIN', { userId: null, sessionId: null }, 'denied', { code: error.code })
  await deps.db
    .inTransaction({}, (tx) => insertAudit(tx, refused))
    .catch((cause: unknown) => deps.log.error({ err: cause }, 'could not record a refused sign-in'))
}
