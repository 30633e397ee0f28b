import { setTimeout as sleep } from 'node:timers/promises'
import type { Id, Uuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import { insertAudit } from '../audit/queries.ts'
import type { Tx } from '../db/db.ts'
import type { Context } from '../requests/context.ts'
import {
  type AuthDeps,
  claimsOf,
  entry,
  isUnauthorized,
  lifetimeOf,
  providerOf,
  recordRefusal,
  tokensOf,
} from './commands.ts'
import { GrantEnded, type IdentityProvider, type TokenReply } from './identity-provider.ts'
import { isEnded, stateOfRefreshToken } from './policy.ts'
import {
  claimRefreshToken,
  findRefreshToken,
  isSessionOver,
  type Owner,
  type RefreshTokenRow,
  releaseRefreshToken,
  saveRefreshToken,
  useRefreshToken,
} from './refresh-queries.ts'
import { hashOfToken, openReply, sealReply } from './refresh-reply.ts'
import type { Tokens } from './session.ts'
import { endSession, insertSessionByRefresh, lockUser, renewSession } from './session-queries.ts'
import { record } from './users.ts'
import { type Claims, unauthorized } from './verify-token.ts'

const ASK_AGAIN_MS = 50
/** Longer than the identity provider may take. */
const WAIT_MS = 8000

/**
 * Exchanges a refresh token for new tokens. Of several requests with the same token one asks the identity provider, and
 * all get its answer, also those that come a little later: two tabs, or a phone that lost the answer. After that
 * two have the token, and only one of them is the person: the session ends.
 */
export async function refresh(deps: AuthDeps, context: Context, token: string): Promise<Tokens> {
  const provider = providerOf(deps)
  // The request uses up the token, so first check that this server can finish its part.
  await deps.db.check()
  const hash = hashOfToken(token)
  for (const until = performance.now() + WAIT_MS; performance.now() < until; await sleep(ASK_AGAIN_MS)) {
    context.signal.throwIfAborted()
    const { isMine, known } = await deps.db.inTransaction({}, async (tx) => ({
      isMine: await claimRefreshToken(tx, hash),
      known: await findRefreshToken(tx, hash),
    }))
    if (isMine) {
      const tokens = await exchange({ deps, provider, context, token, hash, owner: ownerOf(known) })
      if (tokens) return tokens
      continue
    }
    const state = stateOfRefreshToken(known, known?.now ?? 0)
    if (state === 'answered') return answerAgain(deps, context, token, known)
    if (state === 'reused') return refuseReuse(deps, context, token, known)
  }
  throw new Problem('AUTH_UNAVAILABLE', 'The token is being refreshed. Please try again.', { retryAfter: 1 })
}

const ownerOf = (known: RefreshTokenRow | undefined): Owner | undefined =>
  known?.userId && known.sessionId ? { userId: known.userId, sessionId: known.sessionId } : undefined

interface Exchange {
  deps: AuthDeps
  provider: IdentityProvider
  context: Context
  token: string
  hash: Buffer
  /** Of the token, where it is known. */
  owner: Owner | undefined
}

/** Undefined where another request was faster after all. */
async function exchange(e: Exchange): Promise<Tokens | undefined> {
  const { deps, provider, context, token, owner } = e
  if (owner && (await deps.db.read({}, (tx) => isSessionOver(tx, owner)))) return refuseEnded(e, token, owner)
  // Without keys the new tokens could not be verified, and the old one would be gone.
  await deps.verifier.keys.published()
  const reply = await provider.refresh(token).catch(async (error: unknown) => {
    await settleFailure(e, error)
    await recordRefusal(deps, context, 'TOKEN_REFRESH', error, owner)
    throw error
  })
  failpoint('refresh.exchanged')
  const claims = await claimsOf(deps, reply)
  const outcome = await deps.db.inTransaction({}, (tx) => take(tx, e, reply, claims))
  failpoint('refresh.recorded')
  deps.users.forget(claims.userId)
  if (outcome === 'late') return undefined
  if ('endedOf' in outcome) return refuseEnded(e, reply.refresh_token ?? token, outcome.endedOf)
  return outcome
}

async function take(
  tx: Tx,
  { deps, context, token, hash, owner }: Exchange,
  reply: TokenReply,
  claims: Claims,
): Promise<Tokens | 'late' | { endedOf: { userId: Uuid; sessionId: Uuid | null } }> {
  const known = await findRefreshToken(tx, hash, true)
  // This request took longer than its lease, and another one has asked, too: one of them has used the token up.
  if (known?.usedAt) return 'late'
  const { userId } = claims
  const isForeign = owner !== undefined && owner.userId !== userId
  const refreshFor = lifetimeOf(reply)
  const state = await record(deps.users, tx, claims, { ip: context.ip, refreshFor })
  const isOver = isForeign || isEnded(claims, state) || (owner !== undefined && (await isSessionOver(tx, owner)))
  if (isOver) {
    await useRefreshToken(tx, hash, {}, null)
    return { endedOf: { userId, sessionId: owner?.sessionId ?? state.signIn?.id ?? null } }
  }
  const sessionId =
    state.signIn?.id ??
    (owner?.sessionId as Id<'session'> | undefined) ??
    (await insertSessionByRefresh(tx, { userId, logoutSid: claims.sid, ip: context.ip, refreshFor }))
  await renewSession(tx, { userId, sessionId, ip: context.ip, refreshFor })
  const tokens = tokensOf(reply, sessionId, token)
  const isRotated = reply.refresh_token !== undefined && reply.refresh_token !== token
  if (isRotated) {
    await saveRefreshToken(tx, hashOfToken(reply.refresh_token ?? ''), { userId, sessionId }, refreshFor)
    await useRefreshToken(tx, hash, { userId, sessionId }, sealReply(token, tokens))
  } else {
    await saveRefreshToken(tx, hash, { userId, sessionId }, refreshFor)
  }
  await insertAudit(tx, entry(context, 'TOKEN_REFRESH', { userId, sessionId }, 'success'))
  return tokens
}

/** What the identity provider said, or did not say, about the token. */
async function settleFailure({ deps, context, hash, owner }: Exchange, error: unknown): Promise<void> {
  const isOver = isUnauthorized(error) && error.cause instanceof GrantEnded
  await deps.db
    .inTransaction({}, async (tx) => {
      if (!owner || !isOver) return releaseRefreshToken(tx, hash)
      await revoke(tx, context, owner, 'refused_by_provider')
      await useRefreshToken(tx, hash, owner, null)
    })
    // The lease ends by itself.
    .catch((cause: unknown) => deps.log.error({ err: cause }, 'could not record a refused refresh'))
  if (owner && isOver) deps.users.forget(owner.userId)
}

/** The session has ended here, and the identity provider does not know: it is told, as far as it listens. */
async function refuseEnded(
  { deps, provider, context, hash }: Pick<Exchange, 'deps' | 'provider' | 'context' | 'hash'>,
  token: string,
  of: { userId: Uuid; sessionId: Uuid | null },
): Promise<never> {
  await provider.revoke(token)
  await deps.db.inTransaction({}, (tx) => useRefreshToken(tx, hash, {}, null))
  const refused = unauthorized('revoked')
  await recordRefusal(deps, context, 'TOKEN_REFRESH', refused, of)
  throw refused
}

async function answerAgain(
  deps: AuthDeps,
  context: Context,
  token: string,
  known: RefreshTokenRow | undefined,
): Promise<Tokens> {
  const owner = ownerOf(known)
  const isOver = !owner || !known?.reply || (await deps.db.read({}, (tx) => isSessionOver(tx, owner)))
  if (!isOver) return openReply(token, known.reply as Buffer) as Tokens
  const refused = unauthorized('revoked')
  await recordRefusal(deps, context, 'TOKEN_REFRESH', refused, owner)
  throw refused
}

/** A used token comes again: two have it, and which of them is the person cannot be told. */
async function refuseReuse(
  deps: AuthDeps,
  context: Context,
  token: string,
  known: RefreshTokenRow | undefined,
): Promise<never> {
  const owner = ownerOf(known)
  if (owner) {
    await deps.db.inTransaction({}, (tx) => revoke(tx, context, owner, 'refresh_token_reused'))
    deps.users.forget(owner.userId)
    await deps.provider?.revoke(token)
  }
  const refused = unauthorized('revoked')
  await recordRefusal(deps, context, 'TOKEN_REFRESH', refused, owner)
  throw refused
}

/** Ends a session for a reason of this server's. Recorded once: a session ends once. */
async function revoke(tx: Tx, context: Context, { userId, sessionId }: Owner, reason: string): Promise<void> {
  await lockUser(tx, userId)
  const ended = await endSession(tx, userId, sessionId)
  if (ended.length > 0) {
    await insertAudit(tx, entry(context, 'SESSION_REVOKE', { userId, sessionId }, 'success', { reason }))
  }
}
