import type { Id, Uuid } from '../../lib/contract/ids.ts'
import { notFound, Problem } from '../../lib/contract/problem.ts'
import { insertAudit } from '../audit/queries.ts'
import type { Actor } from '../requests/actor.ts'
import type { Context } from '../requests/context.ts'
import { timestamp } from '../requests/schemas.ts'
import { type AuthDeps, entry } from './commands.ts'
import { MAX_SESSIONS, type Session } from './session.ts'
import { endOtherSignIns, endSession, findSession, listSessions, lockUser } from './session-queries.ts'

type Deps = Pick<AuthDeps, 'db' | 'users' | 'provider'>

export async function showSessions({ db }: Deps, actor: Actor): Promise<{ sessions: Session[] }> {
  const rows = await db.read({}, (tx) => listSessions(tx, actor.userId, MAX_SESSIONS))
  return {
    sessions: rows.map((row) => ({
      session_id: row.id as Id<'session'>,
      device_name: row.deviceName,
      ip_address: row.ipAddress,
      created_at: timestamp(row.createdAt),
      last_used_at: timestamp(row.lastUsedAt ?? row.lastSeenAt),
      current: row.id === actor.sessionId,
    })),
  }
}

/** Access tokens of such sessions name none: those of one cannot be refused without those of all. */
const notRevocable = () =>
  new Problem(
    'SESSION_NOT_REVOCABLE',
    'The identity provider does not say which session a token belongs to. You can only sign out on all devices.',
  )

/** Ends one session of the caller. Repeated, it has no further effect. */
export async function revokeSession(
  deps: Deps,
  context: Context,
  actor: Actor,
  { id, refreshToken }: { id: Uuid; refreshToken: string | undefined },
): Promise<void> {
  const { userId } = actor
  await deps.db.inTransaction({}, async (tx) => {
    // A registration of a device, which checks its sign-in, comes before or after.
    await lockUser(tx, userId)
    const session = await findSession(tx, userId, id)
    if (!session) throw notFound()
    // Where the caller's own token names no session, those of the others hardly do.
    if (session.isLive && (session.byRefresh || actor.sessionId === null)) throw notRevocable()
    const ended = await endSession(tx, userId, id)
    for (const sessionId of ended) await insertAudit(tx, revoked(context, { userId, sessionId }))
  })
  deps.users.forget(userId)
  // Best effort. Once for a session, which cannot ask again: what is sent may be made up, and each costs the provider a request.
  if (refreshToken !== undefined && id === actor.sessionId) await deps.provider?.revoke(refreshToken)
}

/** Ends all sessions of the caller but the one of the request. */
export async function revokeOtherSessions(deps: Deps, context: Context, actor: Actor): Promise<void> {
  const { userId, sessionId: own } = actor
  await deps.db.inTransaction({}, async (tx) => {
    await lockUser(tx, userId)
    if (own === null) throw notRevocable()
    const ended = await endOtherSignIns(tx, userId, own)
    // Without a known one the request is recorded all the same: there may be sign-ins that were not seen here.
    for (const sessionId of ended.length > 0 ? ended : [null]) {
      await insertAudit(tx, revoked(context, { userId, sessionId }))
    }
  })
  deps.users.forget(userId)
}

const revoked = (context: Context, of: { userId: Uuid; sessionId: Uuid | null }) =>
  entry(context, 'SESSION_REVOKE', of, 'success', { reason: 'user' })
