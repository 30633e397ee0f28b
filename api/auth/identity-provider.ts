import * as z from 'zod'
import { Problem } from '../../lib/contract/problem.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { askUpstream, UpstreamError, type UpstreamReply } from './upstream.ts'
import { unauthorized } from './verify-token.ts'

const TIMEOUT_MS = 5000
const SCOPE = 'openid offline_access api'

/** Response of the token endpoint of an OpenID provider (RFC 6749 §5.1, OpenID Connect Core §3.1.3.3). */
const TokenReply = z.object({
  access_token: z.string().min(1),
  token_type: z.string(),
  expires_in: z.int().positive(),
  refresh_token: z.string().min(1),
  refresh_expires_in: z.int().positive().optional(),
  id_token: z.string().optional(),
})
export type TokenReply = z.infer<typeof TokenReply>

/** RFC 6749 §5.2, with the fields that providers add for a second factor. */
const ErrorReply = z.object({
  error: z.string(),
  mfa_token: z.string().max(4096).optional(),
  challenge_id: z.string().max(4096).optional(),
})

/** The identity provider, for the deprecated sign-in operations. Passwords and tokens are never logged. */
export interface IdentityProvider {
  /** Throws Problem UNAUTHORIZED, MFA_REQUIRED, RATE_LIMITED or AUTH_UNAVAILABLE. */
  login(email: string, password: string): Promise<TokenReply>
  refresh(refreshToken: string): Promise<TokenReply>
  /** Best effort; true if the provider has revoked the token. */
  revoke(refreshToken: string): Promise<boolean>
}

export interface ProviderOptions {
  tokenUrl: string
  revocationUrl: string | undefined
  clientId: string
  clientSecret: string
  log: Log
}

export function identityProvider(o: ProviderOptions): IdentityProvider {
  const ask = (url: string, form: Record<string, string>) =>
    askUpstream(url, {
      form: new URLSearchParams({ ...form, client_id: o.clientId, client_secret: o.clientSecret }),
      timeoutMs: TIMEOUT_MS,
      maxBytes: 64 * 1024,
    })

  async function tokens(form: Record<string, string>, refused: Problem): Promise<TokenReply> {
    const reply = await ask(o.tokenUrl, form).catch((error: unknown) => {
      if (!(error instanceof UpstreamError)) throw error
      o.log.error({ err: error }, 'identity provider')
      throw unavailable()
    })
    if (reply.status !== 200) throw refusalOf(reply, o.log) ?? refused
    const parsed = TokenReply.safeParse(reply.body)
    if (parsed.success) return parsed.data
    o.log.error('the identity provider responded without tokens')
    throw unavailable()
  }

  return {
    login: (username, password) =>
      tokens({ grant_type: 'password', username, password, scope: SCOPE }, wrongPassword()),
    refresh: (refreshToken) =>
      tokens({ grant_type: 'refresh_token', refresh_token: refreshToken }, unauthorized('revoked')),
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

const unavailable = () =>
  new Problem('AUTH_UNAVAILABLE', 'Sign-in is temporarily unavailable. Please try again.', { retryAfter: 5 })

// The registration of this server at the provider is wrong. The client is not at fault, and a 401 would sign it out.
const OUR_MISTAKES = ['invalid_client', 'unauthorized_client', 'unsupported_grant_type', 'invalid_scope']

/** The same message for an unknown account, a locked account and a wrong password. */
const wrongPassword = () =>
  new Problem('UNAUTHORIZED', 'Wrong e-mail address or password', { headers: { 'WWW-Authenticate': 'Bearer' } })

/** The problem if the refusal has another reason than wrong credentials; else undefined. */
function refusalOf({ status, body, retryAfter }: UpstreamReply, log: Log): Problem | undefined {
  const reply = ErrorReply.safeParse(body).data
  if (status === 429) {
    return new Problem('RATE_LIMITED', 'Too many attempts. Please wait.', { retryAfter: secondsOf(retryAfter) })
  }
  if (reply?.error === 'mfa_required') return mfaRequired(reply.challenge_id ?? reply.mfa_token)
  if (reply && OUR_MISTAKES.includes(reply.error)) {
    log.error({ error: reply.error }, 'the identity provider refuses this client')
    return unavailable()
  }
  return undefined
}

const mfaRequired = (challengeId: string | undefined) =>
  new Problem('MFA_REQUIRED', 'A second factor is required', {
    details: [{ field: 'body', issue: 'a second factor is required', challenge_id: challengeId ?? null }],
  })

function secondsOf(retryAfter: string | null): number {
  const seconds = Number(retryAfter ?? Number.NaN)
  return Number.isFinite(seconds) ? Math.min(Math.max(Math.ceil(seconds), 1), 3600) : 60
}
