import { setTimeout as sleep } from 'node:timers/promises'
import { type Id, newUuid, type Uuid } from '../../lib/contract/ids.ts'
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
  knownForOf,
  providerOf,
  refreshForOf,
  tokensOf,
  usedForOf,
} from './commands.ts'
import { GrantEnded, type IdentityProvider, type TokenReply } from './identity-provider.ts'
import { isEnded, stateOfRefreshToken } from './policy.ts'
import {
  claimRefreshToken,
  findRefreshToken,
  isSessionOver,
  keepAnswer,
  type Owner,
  type RefreshTokenRow,
  releaseRefreshToken,
  replaceAnswer,
  saveRefreshToken,
  useRefreshToken,
} from './refresh-queries.ts'
import { hashOfToken, openReply, sealReply } from './refresh-reply.ts'
import type { Tokens } from './session.ts'
import { endSession, insertSessionByRefresh, lockUser, renewSession } from './session-queries.ts'
import { record } from './users.ts'
import { type Claims, isTooOld, refreshRefused } from './verify-token.ts'

/** The first pause of a request that waits for another one. Each is twice as long as the one before, up to a second. */
const LOOK_AGAIN_MS = 50
const MAX_PAUSE_MS = 1000
/** Longer than the request that asks the identity provider waits for it. */
const WAIT_MS = 8000
/**
 * Before the identity provider is asked. Its answer takes up to half a minute more, and is tried to be kept for
 * `KEEP_WITHIN_MS`: the lease lasts longer than all three.
 */
const MAX_WAITED_MS = 5000
const TRIES = 3
const TRY_AGAIN_MS = 200
/**
 * For how long the process tries to keep an answer, or to release a token, while the database is away: a failover takes
 * less.
 */
const KEEP_WITHIN_MS = 45_000

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
  const until = performance.now() + WAIT_MS
  let [isHeld, pauseMs] = [false, LOOK_AGAIN_MS]
  while (performance.now() < until) {
    context.signal.throwIfAborted()
    const [holder, since] = [newUuid(), performance.now()]
    // An outage of the provider may be long: those who wait for another request write nothing.
    const attempt = isHeld ? await look(deps, hash) : await claim(deps, context, hash, holder)
    const { isMine, before, known } = attempt
    const claimed = { holder, since, tookOver: Boolean(before?.holder), kept: known?.reply ?? undefined }
    const e: Exchange = { deps, provider, context, token, hash, owner: ownerOf(known), ...claimed }
    const tokens = await (isMine ? outcomeOf(e) : repeated(deps, context, token, known))
    if (tokens) return tokens
    isHeld = !isMine && stateOf(known) === 'refreshing'
    await sleep(pauseMs)
    pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)
  }
  throw busy()
}

const stateOf = (known: RefreshTokenRow | undefined) => stateOfRefreshToken(known, known?.now ?? 0)

function outcomeOf(e: Exchange): Promise<Tokens | undefined> {
  return e.deps.exchanges.outcome(exchange(e), () => {
    e.isLate = true
  })
}

/** Undefined while the token is not used up. */
async function repeated(
  deps: AuthDeps,
  context: Context,
  token: string,
  known: RefreshTokenRow | undefined,
): Promise<Tokens | undefined> {
  const state = stateOf(known)
  if (state === 'answered') return answerAgain(deps, context, token, known)
  if (state === 'reused') return refuseReuse(deps, context, token, known)
  return undefined
}

interface Attempt {
  isMine: boolean
  /** The row before the claim, and after it. */
  before?: RefreshTokenRow | undefined
  known: RefreshTokenRow | undefined
}

const look = async ({ db }: AuthDeps, hash: Buffer): Promise<Attempt> => ({
  isMine: false,
  known: await db.read({}, (tx) => findRefreshToken(tx, hash)),
})

const claim = (deps: AuthDeps, context: Context, hash: Buffer, holder: Uuid): Promise<Attempt> =>
  deps.db.inTransaction({}, async (tx) => {
    const [before, isMine] = [await findRefreshToken(tx, hash), await claimRefreshToken(tx, hash, holder)]
    const known = await findRefreshToken(tx, hash)
    // Only who has a token of the user can use up the limit of the user. A refusal takes the claim back.
    if (isMine && known?.userId) await deps.takeExchange(tx, known.userId, 1)
    else if (isMine && !known?.reply) deps.takeUnknown(context.ip)
    return { before, isMine, known }
  })

const busy = () => new Problem('AUTH_UNAVAILABLE', 'The token is being refreshed. Please try again.', { retryAfter: 1 })

const ownerOf = (known: RefreshTokenRow | undefined): Owner | undefined =>
  known?.userId && known.sessionId ? { userId: known.userId, sessionId: known.sessionId } : undefined

interface Exchange {
  deps: AuthDeps
  provider: IdentityProvider
  context: Context
  token: string
  hash: Buffer
  /** Names this request's claim to the token. */
  holder: Uuid
  /** When it was made, by `performance.now()`. */
  since: number
  /** That the lease of another request ended before its outcome was known. */
  tookOver: boolean
  /** What the provider has answered to an earlier request that could not record it. */
  kept: Buffer | undefined
  /** Of the token, where it is known. */
  owner: Owner | undefined
  /** That the answer to record is in the database. */
  isKept?: boolean
  /** That the client was told to come again. */
  isLate?: boolean
}

/** Undefined where another request was faster after all, and where the answer is kept for a later one. */
async function exchange(e: Exchange): Promise<Tokens | undefined> {
  let tokens: Tokens | undefined
  try {
    tokens = await carriedThrough(e)
    return tokens
  } finally {
    // What the provider has answered is kept: the next attempt goes on from there.
    if (!tokens) await release(e)
  }
}

/** Until then, and for as long as its lease lasts, all who have the token get 503. */
function release({ deps, hash, holder }: Exchange): Promise<void> {
  const released = () => deps.db.inTransaction({}, (tx) => releaseRefreshToken(tx, hash, holder))
  return insistently(released, performance.now() + KEEP_WITHIN_MS).catch((cause: unknown) =>
    deps.log.error({ err: cause }, 'could not release a refresh token: its lease ends'),
  )
}

async function carriedThrough(e: Exchange): Promise<Tokens | undefined> {
  const { deps, token, owner } = e
  const kept = e.kept && (openReply(token, e.kept) as TokenReply)
  if (owner && (await deps.db.read({}, (tx) => isSessionOver(tx, owner)))) {
    return refuseEnded(e, kept?.refresh_token ?? token, owner)
  }
  if (kept) {
    // Of one that has expired, the refresh token alone is of use.
    const claims = isTooOld(kept.access_token, deps.verifier) ? undefined : await claimsOf(deps, kept)
    e.isKept = claims !== undefined
    if (claims) return recorded(e, later(kept, deps.verifier.clock.now().getTime() / 1000 - claims.issuedAt), claims)
  }
  const reply = await answerOf(e, kept?.refresh_token ?? token)
  return reply && recorded(e, reply, await claimsOf(deps, reply))
}

/** Asks the identity provider, and keeps its answer. Undefined where another request was faster. */
async function answerOf(e: Exchange, sent: string): Promise<TokenReply | undefined> {
  const { deps, provider, context, token, hash, owner } = e
  // Without keys the new tokens could not be verified, and the old one would be gone.
  await deps.verifier.keys.published()
  // The lease has to last until the answer is kept.
  if (performance.now() - e.since > MAX_WAITED_MS) throw busy()
  const leave = deps.exchanges.enter()
  if (!leave) throw busy()
  const reply = await provider
    .refresh(sent)
    .finally(leave)
    .catch(async (error: unknown) => {
      if ((await settleFailure(e, error)) === 'open') return undefined
      await recordRefused(deps, context, error, owner)
      throw error
    })
  if (!reply) return undefined
  failpoint('refresh.exchanged')
  const sealed = sealReply(token, reply)
  const keep = e.kept ? replaceAnswer : keepAnswer
  const kept = () => deps.db.inTransaction({}, (tx) => keep(tx, hash, sealed, knownForOf(reply)))
  // After five seconds the client has its 503. The answer is also kept once the lease has ended.
  e.isKept = await insistently(kept, performance.now() + KEEP_WITHIN_MS).then(
    () => true,
    (cause: unknown) => {
      deps.log.error({ err: cause }, 'could not keep new tokens that are not recorded yet')
      return false
    },
  )
  failpoint('refresh.kept')
  return reply
}

async function recorded(e: Exchange, reply: TokenReply, claims: Claims): Promise<Tokens | undefined> {
  const { deps, token } = e
  const taken = () => deps.db.inTransaction({}, (tx) => take(tx, e, reply, claims)).catch(keptIfLate)
  const outcome = await insistently(taken)
  failpoint('refresh.recorded')
  deps.users.forget(claims.userId)
  // No one has got the tokens of this answer. To revoke them would end the others, too: many providers revoke the grant.
  if (outcome === 'late' || outcome === 'kept') return undefined
  if ('endedOf' in outcome) return refuseEnded(e, reply.refresh_token ?? token, outcome.endedOf)
  return outcome
}

/** A connection that breaks now must not cost the session, nor hold the token up. At least three tries. */
async function insistently<T>(work: () => Promise<T>, until = 0): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await work()
    } catch (error) {
      if (error instanceof Problem || (tried >= TRIES && performance.now() > until)) throw error
      await sleep(Math.min(tried * TRY_AGAIN_MS, MAX_PAUSE_MS))
    }
  }
}

/** That no client waits for the answer, which is kept: it was told to come again, or has closed its connection. */
const isLeft = ({ isLate, isKept, context }: Exchange) => isKept === true && (isLate === true || context.signal.aborted)

/** Undoes a transaction whose client waits no longer. */
class CameLate extends Error {}

function keptIfLate(error: unknown): 'kept' {
  if (error instanceof CameLate) return 'kept'
  throw error
}

async function take(
  tx: Tx,
  e: Exchange,
  reply: TokenReply,
  claims: Claims,
): Promise<Tokens | 'late' | 'kept' | { endedOf: { userId: Uuid; sessionId: Uuid | null } }> {
  // The time in which the answer is given again begins when a client gets it: the one that asked may come hours later.
  if (isLeft(e)) return 'kept'
  const { deps, context, token, hash, owner } = e
  const known = await findRefreshToken(tx, hash, true)
  // This request took longer than its lease, and another one has asked, too: one of them has used the token up.
  if (known?.usedAt) return 'late'
  const { userId } = claims
  const isForeign = owner !== undefined && owner.userId !== userId
  const [refreshFor, knownFor] = [refreshForOf(reply), knownForOf(reply)]
  const state = await record(deps.users, tx, claims, { ip: context.ip, refreshFor })
  const isOver = isForeign || isEnded(claims, state) || (owner !== undefined && (await isSessionOver(tx, owner, true)))
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
    await saveRefreshToken(tx, hashOfToken(reply.refresh_token ?? ''), { userId, sessionId }, knownFor)
    await useRefreshToken(tx, hash, { userId, sessionId }, sealReply(token, tokens), usedForOf(reply))
  } else {
    await saveRefreshToken(tx, hash, { userId, sessionId }, knownFor)
  }
  await insertAudit(tx, entry(context, 'TOKEN_REFRESH', { userId, sessionId }, 'success'))
  // It may have waited for the session for long.
  if (isLeft(e)) throw new CameLate()
  return tokens
}

/**
 * What the identity provider said, or did not say, about the token. `open`: it has used the token up for another request,
 * whose outcome counts.
 */
async function settleFailure(e: Exchange, error: unknown): Promise<'open' | 'settled'> {
  const { deps, context, hash, owner, holder } = e
  if (!isUnauthorized(error) || !(error.cause instanceof GrantEnded)) return 'settled'
  const outcome = await deps.db.inTransaction({}, async (tx) => {
    const known = await findRefreshToken(tx, hash, true)
    const isOthers = known !== undefined && known.holder !== holder
    if (known?.usedAt || isOthers || (known?.reply && !e.kept?.equals(known.reply))) return 'open'
    if (!owner) return 'settled'
    // The request whose lease has ended has had its time, and may be about to keep its answer all the same: once more.
    if (e.tookOver) return 'busy'
    await revoke(tx, context, owner, 'refused_by_provider')
    await useRefreshToken(tx, hash, owner, null)
    return 'ended'
  })
  if (outcome === 'busy') throw busy()
  if (outcome === 'ended' && owner) deps.users.forget(owner.userId)
  return outcome === 'open' ? 'open' : 'settled'
}

/** The session has ended here, and the identity provider does not know: it is told, as far as it listens. */
async function refuseEnded(
  { deps, provider, context, hash }: Pick<Exchange, 'deps' | 'provider' | 'context' | 'hash'>,
  token: string,
  of: { userId: Uuid; sessionId: Uuid | null },
): Promise<never> {
  await provider.revoke(token)
  await deps.db.inTransaction({}, (tx) => useRefreshToken(tx, hash, {}, null))
  const refused = refreshRefused()
  await recordRefused(deps, context, refused, of)
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
  if (!isOver) return later(openReply(token, known.reply as Buffer) as Tokens, known.now - (known.usedAt ?? known.now))
  const refused = refreshRefused()
  await recordRefused(deps, context, refused, owner)
  throw refused
}

/** An answer says how long its tokens last from when it was made, so many seconds ago. */
function later<T extends Pick<TokenReply, 'expires_in' | 'refresh_expires_in'>>(answer: T, seconds: number): T {
  const left = (lifetime: number) => Math.max(1, lifetime - Math.max(0, Math.floor(seconds)))
  const { expires_in, refresh_expires_in: refreshFor } = answer
  return { ...answer, expires_in: left(expires_in), ...(refreshFor && { refresh_expires_in: left(refreshFor) }) }
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
  const refused = refreshRefused()
  await recordRefused(deps, context, refused, owner)
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

/** Anyone can send tokens that are none: repeats from one address, or for one session, are counted and not written. */
async function recordRefused(
  { refusals }: Pick<AuthDeps, 'refusals'>,
  context: Context,
  error: unknown,
  of: { userId: Uuid; sessionId: Uuid | null } | undefined,
): Promise<void> {
  if (!(error instanceof Problem) || error.status >= 500) return
  const subject = of ?? { userId: null, sessionId: null }
  const { result: _denied, ...refusal } = entry(context, 'TOKEN_REFRESH', subject, 'denied', { code: error.code })
  await refusals.record(`TOKEN_REFRESH ${error.code} ${of?.sessionId ?? of?.userId ?? context.ip}`, refusal)
}
