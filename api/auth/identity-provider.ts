import * as z from 'zod'
import { Problem, Throttled } from '../../lib/contract/problem.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { askUpstream, UpstreamError, type UpstreamReply } from './upstream.ts'
import { refreshRefused } from './verify-token.ts'

const TIMEOUT_MS = 5000
/** A refresh token may be used up although its answer is late: see `exchanges.ts`. */
const REFRESH_TIMEOUT_MS = 30_000

/** Response of the token endpoint of an OpenID provider (RFC 6749 §5.1, OpenID Connect Core §3.1.3.3). */
const TokenReply = z.object({
  access_token: z.string().min(1),
  token_type: z.string(),
  expires_in: z.int().positive(),
  /** Without one in the answer to a refresh, the token that was sent stays valid (RFC 6749 §6). */
  refresh_token: z.string().min(1).optional(),
  /** Keycloak says 0 of a token that does not expire with a session (scope `offline_access`): as if it said nothing. */
  refresh_expires_in: z
    .int()
    .nonnegative()
    .optional()
    .transform((seconds) => seconds || undefined),
  id_token: z.string().optional(),
})
export type TokenReply = z.infer<typeof TokenReply>

const Challenge = z.string().min(1).max(4096)
/** RFC 6749 §5.2, with the fields that providers add for a second factor. */
const ErrorReply = z.object({
  error: z.string(),
  mfa_token: Challenge.optional(),
  challenge_id: Challenge.optional(),
  expires_in: z.int().positive().optional(),
  /** The kinds of factors that the user has, as Auth0 lists them. */
  mfa_requirements: z.object({ challenge: z.array(z.object({ type: z.string().max(50) })).max(20) }).optional(),
})

/** The identity provider, for the deprecated sign-in operations. Passwords and tokens are never logged. */
export interface IdentityProvider {
  clientId: string
  /** Throws Problem UNAUTHORIZED, MFA_REQUIRED, RATE_LIMITED or AUTH_UNAVAILABLE. */
  login(email: string, password: string): Promise<TokenReply>
  /** With the code of a second factor, after MFA_REQUIRED. */
  complete(challengeId: string, code: string): Promise<TokenReply>
  /** UNAUTHORIZED, with `GrantEnded` as its cause, only where the provider says that this token is no longer valid. */
  refresh(refreshToken: string): Promise<TokenReply>
  /** Best effort; true if the provider has revoked the token. */
  revoke(refreshToken: string): Promise<boolean>
}

/** `invalid_grant`: the refresh token is unknown, expired, revoked, or was used before. */
export class GrantEnded extends Error {
  override readonly name = 'GrantEnded'
}

export interface ProviderOptions {
  tokenUrl: string
  revocationUrl: string | undefined
  clientId: string
  /** Undefined for a public client. */
  clientSecret: string | undefined
  /** Where the secret is sent: in the body, or in the header Authorization. */
  clientAuth: 'post' | 'basic'
  scope: string
  mfaGrant: string
  log: Log
}

export function identityProvider(o: ProviderOptions): IdentityProvider {
  const isBasic = o.clientAuth === 'basic' && o.clientSecret !== undefined
  const inBody = { client_id: o.clientId, ...(o.clientSecret !== undefined && { client_secret: o.clientSecret }) }
  const ask = (url: string, form: Record<string, string>, timeoutMs = TIMEOUT_MS) =>
    askUpstream(url, {
      form: new URLSearchParams({ ...form, ...(!isBasic && inBody) }),
      ...(isBasic && { authorization: basic(o.clientId, o.clientSecret ?? '') }),
      timeoutMs,
      maxBytes: 64 * 1024,
    })

  async function tokens(
    form: Record<string, string>,
    refused: (cause?: Error) => Problem,
    timeoutMs?: number,
  ): Promise<TokenReply> {
    const reply = await ask(o.tokenUrl, form, timeoutMs).catch((error: unknown) => {
      if (!(error instanceof UpstreamError)) throw error
      o.log.error({ err: error }, 'identity provider')
      throw unavailable()
    })
    if (reply.status !== 200) throw refusalOf(reply, o.log) ?? refused(grantEnded(reply))
    const parsed = TokenReply.safeParse(reply.body)
    if (parsed.success) return parsed.data
    o.log.error('the identity provider responded without tokens')
    throw unavailable()
  }

  return {
    clientId: o.clientId,
    login: (username, password) =>
      tokens({ grant_type: 'password', username, password, scope: o.scope }, wrongPassword),
    complete: (challenge, code) => tokens({ grant_type: o.mfaGrant, mfa_token: challenge, otp: code }, wrongCode),
    refresh(refreshToken) {
      const refused = (cause?: Error) => {
        // Clients drop a refresh token on 401: a gateway that refuses the request, or a mistake of ours, must not cost it.
        if (cause) return refreshRefused(cause)
        o.log.error('the identity provider refuses a refresh for another reason than the token')
        return unavailable()
      }
      return tokens({ grant_type: 'refresh_token', refresh_token: refreshToken }, refused, REFRESH_TIMEOUT_MS)
    },
    async revoke(refreshToken) {
      if (!o.revocationUrl) return false
      try {
        const { status } = await ask(o.revocationUrl, { token: refreshToken, token_type_hint: 'refresh_token' })
        return status === 200
      } catch (error) {
        o.log.warn({ err: error }, 'could not revoke a refresh token at the identity provider')
        return false
      }
    },
  }
}

/** RFC 6749 §2.3.1: both parts are form-encoded first. */
function basic(id: string, secret: string): string {
  const encoded = (text: string) => new URLSearchParams({ '': text }).toString().slice(1)
  return `Basic ${Buffer.from(`${encoded(id)}:${encoded(secret)}`).toString('base64')}`
}

export const unavailable = () =>
  new Problem('AUTH_UNAVAILABLE', 'Sign-in is temporarily unavailable. Please try again.', { retryAfter: 5 })

// The registration of this server at the provider is wrong. The client is not at fault, and a 401 would sign it out.
const OUR_MISTAKES = ['invalid_client', 'unauthorized_client', 'unsupported_grant_type', 'invalid_scope']

/** The same message for an unknown account, a locked account and a wrong password. */
export const wrongPassword = () =>
  new Problem('UNAUTHORIZED', 'Wrong e-mail address or password', { headers: { 'WWW-Authenticate': 'Bearer' } })

export const wrongCode = () =>
  new Problem('UNAUTHORIZED', 'Wrong code, or the time to enter it is over', {
    headers: { 'WWW-Authenticate': 'Bearer' },
  })

const grantEnded = ({ body }: UpstreamReply) =>
  ErrorReply.safeParse(body).data?.error === 'invalid_grant' ? new GrantEnded('invalid_grant') : undefined

/** The problem if the refusal has another reason than wrong credentials; else undefined. */
function refusalOf({ status, body, retryAfter }: UpstreamReply, log: Log): Problem | undefined {
  const reply = ErrorReply.safeParse(body).data
  if (status === 429) {
    const cause = new Throttled('the identity provider')
    return new Problem('RATE_LIMITED', 'Too many attempts. Please wait.', { cause, retryAfter: secondsOf(retryAfter) })
  }
  if (reply?.error === 'mfa_required') return mfaRequired(reply)
  if (reply && OUR_MISTAKES.includes(reply.error)) {
    log.error({ error: reply.error }, 'the identity provider refuses this client')
    return unavailable()
  }
  return undefined
}

/** With what the client needs for `POST /api/auth/login/mfa`. */
function mfaRequired(reply: z.output<typeof ErrorReply>): Problem {
  const detail = {
    field: 'body',
    issue: 'a second factor is required',
    challenge_id: reply.challenge_id ?? reply.mfa_token ?? null,
    methods: reply.mfa_requirements?.challenge.map(({ type }) => type) ?? [],
    expires_in: reply.expires_in ?? null,
  }
  return new Problem('MFA_REQUIRED', 'A second factor is required', { details: [detail] })
}

function secondsOf(retryAfter: string | null): number {
  const seconds = Number(retryAfter ?? Number.NaN)
  return Number.isFinite(seconds) ? Math.min(Math.max(Math.ceil(seconds), 1), 3600) : 60
}
