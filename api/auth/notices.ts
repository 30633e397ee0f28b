import type { IncomingHttpHeaders } from 'node:http'
import * as z from 'zod'
import type { Uuid } from '../../lib/contract/ids.ts'
import { invalid, notFound, Problem } from '../../lib/contract/problem.ts'
import { verifiedId } from '../../lib/runtime/standard-webhooks.ts'
import { insertAudit, type Origin } from '../audit/queries.ts'
import type { Tx } from '../db/db.ts'
import type { Context } from '../requests/context.ts'
import { inputTime, ipAddress, optional, text, verbatim } from '../requests/schemas.ts'
import type { AuthDeps } from './commands.ts'
import { verifyLogoutToken } from './logout-token.ts'
import { ensureUserRow, insertNotice } from './notice-queries.ts'
import { isEnded, signInOf } from './policy.ts'
import { findUser } from './queries.ts'
import {
  endNamedSessions,
  endSignIns,
  hasSid,
  insertEndedSession,
  listUsersOfSid,
  lockUser,
  upsertSession,
} from './session-queries.ts'
import { userIdOf } from './verify-token.ts'

type Deps = Pick<AuthDeps, 'db' | 'log' | 'users' | 'verifier' | 'notices'>

/** What the identity provider tells by its webhook. */
export const ProviderEvent = z.object({
  type: z.enum(['login', 'logout']).meta({ id: 'ProviderEventType' }),
  timestamp: inputTime().meta({ description: 'When it happened' }),
  data: z
    .object({
      sub: verbatim(255).meta({ description: 'Of the tokens of the user' }),
      sid: optional(verbatim(255)).meta({ description: 'Of the tokens, if they have one' }),
      origin_jti: optional(verbatim(255)),
      auth_time: optional(
        z
          .int()
          .min(0)
          .max(2 ** 40),
      ).meta({ description: 'Unix seconds, as in the tokens' }),
      ip_address: optional(ipAddress),
      user_agent: optional(text(1, 512)),
      device_name: optional(text(1, 200)),
    })
    .meta({ id: 'ProviderEventData' }),
})
type ProviderEvent = z.output<typeof ProviderEvent>

export const LogoutTokenBody = z.object({ logout_token: verbatim(100_000) })

/** A login or a logout at the identity provider itself. A repetition has no further effect. */
export async function receiveProviderEvent(
  deps: Deps,
  context: Context,
  { headers, body }: { headers: IncomingHttpHeaders; body: string },
): Promise<void> {
  const { secrets } = deps.notices
  if (secrets.length === 0) throw notFound()
  const id = verifiedId(secrets, headers, { body, nowMs: deps.verifier.clock.now().getTime() })
  if (id === undefined) {
    throw new Problem('UNAUTHORIZED', 'The signature is wrong, or too old', {
      headers: { 'WWW-Authenticate': 'Bearer' },
    })
  }
  const event = eventIn(body)
  const userId = userIdOf(deps.verifier.issuer, event.data.sub)
  await deps.db.inTransaction({}, async (tx) => {
    if (!(await insertNotice(tx, `webhook ${id}`))) return
    if (!(await isOpen(deps, tx, userId, event.data.sub))) return
    if (event.type === 'login') await recordLogin(tx, context, userId, event)
    else await endAtProvider(tx, context, userId, { ...namesOf(event), ofUser: true, at: event.timestamp })
  })
  deps.users.forget(userId)
}

/** Makes sure of the user's row. False for who was erased, or is about to be: nothing is recorded of them again. */
async function isOpen(
  { users, verifier: { issuer } }: Pick<Deps, 'users' | 'verifier'>,
  tx: Tx,
  userId: Uuid,
  subject: string,
): Promise<boolean> {
  const known = await findUser(tx, userId, null)
  if (known) return known.notBefore !== Number.POSITIVE_INFINITY
  if (await users.isErased(tx, userId)) return false
  await ensureUserRow(tx, { userId, issuer, subject })
  return true
}

function eventIn(body: string): ProviderEvent {
  let data: unknown
  try {
    data = JSON.parse(body)
  } catch (cause) {
    throw new Problem('MALFORMED_JSON', 'The request body is not valid JSON in UTF-8', { cause })
  }
  const parsed = ProviderEvent.safeParse(data)
  if (parsed.success) return parsed.data
  throw invalid(
    parsed.error.issues.map(({ path, message }) => ({
      field: ['body', ...path.map(String)].join('.'),
      issue: message,
    })),
  )
}

const namesOf = ({ data }: ProviderEvent) => ({
  sid: data.sid ?? null,
  originJti: data.origin_jti ?? null,
  authTime: data.auth_time,
})

const requestOf = ({ requestId, clientRequestId, personalData }: Context) => ({
  requestId,
  clientRequestId,
  personalData,
})

/** The address is the user's, as the identity provider saw it, and not that of its own request. */
const originOf = (context: Context, { data }: ProviderEvent): Origin => ({
  ...requestOf(context),
  ip: data.ip_address ?? '',
  userAgent: data.user_agent ?? null,
})

async function recordLogin(tx: Tx, context: Context, userId: Uuid, event: ProviderEvent): Promise<void> {
  const names = namesOf(event)
  const signIn = signInOf(names)
  const at = Math.floor(event.timestamp.getTime() / 1000)
  if (signIn !== null) {
    await upsertSession(tx, {
      userId,
      signIn,
      since: names.authTime ?? at,
      authTime: names.authTime,
      logoutSid: names.sid,
      isUsed: false,
      deviceName: event.data.device_name,
      ip: event.data.ip_address,
    })
  }
  const state = await findUser(tx, userId, signIn)
  const hasEnded = state !== undefined && isEnded({ authTime: names.authTime, issuedAt: at }, state)
  await insertAudit(tx, {
    orgId: null,
    actorId: userId,
    action: 'LOGIN',
    resourceId: state?.signIn?.id ?? null,
    result: 'success',
    context: originOf(context, event),
    details: { at_provider: true, ...(hasEnded && { ended: true }) },
  })
}

/** An event of the webhook is repeated for hours. Clocks may differ by so much, see `verify-token.ts`. */
const TOLERANCE_MS = 30_000

interface Ending {
  sid: string | null
  originJti: string | null
  authTime: number | undefined
  /** Whether the identity provider has named the user, and not the sign-in alone. */
  ofUser: boolean
  /** When it happened, where that is known; now otherwise. */
  at?: Date
}

/** Ends what these claims name, or everything where they name nothing that tokens name. */
async function endAtProvider(tx: Tx, context: Context, userId: Uuid, { ofUser, at, ...names }: Ending): Promise<void> {
  await lockUser(tx, userId)
  const signIn = signInOf(names)
  const logout = (sessionId: Uuid | null) =>
    insertAudit(tx, {
      orgId: null,
      actorId: userId,
      action: 'LOGOUT',
      resourceId: sessionId,
      result: 'success',
      context: { ...requestOf(context), ip: '', userAgent: null },
      details: { at_provider: true },
    })
  const endAll = async () => {
    await endSignIns(tx, userId, at && new Date(at.getTime() + TOLERANCE_MS))
    await logout(null)
  }
  if (signIn === null) {
    await endAll()
    return
  }
  const ended = await endNamedSessions(tx, userId, { signIn, sid: names.sid })
  // Its first token may still be on the way.
  const early = await insertEndedSession(tx, { userId, signIn, sid: names.sid, authTime: names.authTime })
  if (early !== undefined && names.sid !== null && ofUser && !(await hasSid(tx, userId))) {
    // The access tokens of this provider name no `sid`: which of the user's sign-ins this is cannot be told.
    await endAll()
    return
  }
  for (const id of early === undefined ? ended : [early]) await logout(id)
}

/** OpenID Connect Back-Channel Logout 1.0. */
export async function receiveLogoutToken(deps: Deps, context: Context, body: string): Promise<void> {
  const { clientIds } = deps.notices
  if (clientIds.length === 0) throw notFound()
  const token = new URLSearchParams(body).get('logout_token')
  if (token === null) throw invalid([{ field: 'body.logout_token', issue: 'is required' }])
  const { jti, subject, sid } = await verifyLogoutToken(token, { ...deps.verifier, clientIds })
  const names = { sid: sid ?? null, originJti: null, authTime: undefined, ofUser: subject !== undefined }
  const users = await deps.db.inTransaction({}, async (tx) => {
    if (!(await insertNotice(tx, `logout ${jti}`))) return []
    const userId = subject === undefined ? undefined : userIdOf(deps.verifier.issuer, subject)
    if (userId !== undefined && subject !== undefined && !(await isOpen(deps, tx, userId, subject))) return []
    const found = userId === undefined ? await listUsersOfSid(tx, sid ?? '') : [{ userId }]
    const concerned = [...new Set(found.map((one) => one.userId))].sort()
    for (const one of concerned) await endAtProvider(tx, context, one, names)
    return concerned
  })
  for (const one of users) deps.users.forget(one)
}
