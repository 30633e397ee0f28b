import { createSign } from 'node:crypto'
import * as z from 'zod'
import type { Guard } from '../../../../lib/runtime/guarded-http/guarded-http.ts'
import { safeMessage } from '../../../../lib/runtime/log-error.ts'
import type { ServiceAccount } from './settings.ts'

const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging'
const GRANT = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
const LASTS_SECONDS = 3600
/** A token that ends sooner is replaced, so that none ends on its way. */
const MARGIN_SECONDS = 300

/** `invalid_grant` and `invalid_client`, mostly. */
const REFUSALS = [400, 401]
/** Google refuses an assertion whose times are off, with `invalid_grant` as well. */
const CLOCK_SECONDS = 120

const Reply = z.object({ access_token: z.string().min(1), expires_in: z.number().positive() })

/**
 * FCM was not asked: the token service gives no token, or cannot be reached. `isRefused`: because of the service account,
 * such as one whose key was revoked, so that waiting does not help. A clock that is off is not: time servers set it right.
 */
export class NoAccessToken extends Error {
  override readonly name = 'NoAccessToken'
  readonly isRefused: boolean
  constructor(cause: unknown, isRefused = false) {
    const { code } = cause as { code?: unknown }
    super(`no access token: ${typeof code === 'string' ? code : safeMessage(cause)}`)
    this.isRefused = isRefused
  }
}

export interface AccessTokens {
  /** Rejects with NoAccessToken. */
  get(): Promise<string>
  /** After the API refused this token. */
  forget(token: string): void
}

/** OAuth 2.0 for service accounts (RFC 7523). One request at a time, however many messages wait for the token. */
export function accessTokens(guard: Guard, account: ServiceAccount, now: () => number = Date.now): AccessTokens {
  let known: { token: string; endsAt: number } | undefined
  let coming: Promise<string> | undefined

  function assertion(): string {
    try {
      return assertionOf(account, now())
    } catch (error) {
      throw new NoAccessToken(error, true)
    }
  }

  async function fetchToken(): Promise<string> {
    const body = new URLSearchParams({ grant_type: GRANT, assertion: assertion() }).toString()
    const headers = { 'content-type': 'application/x-www-form-urlencoded' }
    // Without the signal of a message: others wait for the same token.
    const answer = await guard.ask(account.token_uri, { method: 'POST', headers, body })
    const reply = answer.status === 200 ? Reply.safeParse(parsed(answer.body)) : undefined
    if (!reply?.success) {
      const isRefusal = REFUSALS.includes(answer.status)
      const isClockOff = Math.abs(Date.parse(answer.headers.date ?? '') - now()) > CLOCK_SECONDS * 1000
      const why = isRefusal && isClockOff ? ', and has another time' : ''
      throw new NoAccessToken(new Error(`the token service answered ${answer.status}${why}`), isRefusal && !isClockOff)
    }
    const { access_token: token, expires_in: lasts } = reply.data
    known = { token, endsAt: now() + (lasts - MARGIN_SECONDS) * 1000 }
    return token
  }

  return {
    async get() {
      if (known && now() < known.endsAt) return known.token
      coming ??= fetchToken().finally(() => {
        coming = undefined
      })
      return coming.catch((cause: unknown) => {
        throw cause instanceof NoAccessToken ? cause : new NoAccessToken(cause)
      })
    },
    forget(token) {
      if (known?.token === token) known = undefined
    },
  }
}

function assertionOf(
  { client_email: iss, private_key_id: kid, private_key: key, token_uri: aud }: ServiceAccount,
  nowMs: number,
) {
  const iat = Math.floor(nowMs / 1000)
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const header = { alg: 'RS256', typ: 'JWT', ...(kid !== undefined && { kid }) }
  const text = `${part(header)}.${part({ iss, scope: SCOPE, aud, iat, exp: iat + LASTS_SECONDS })}`
  return `${text}.${createSign('RSA-SHA256').update(text).sign(key, 'base64url')}`
}

/** Undefined for what is no JSON, such as the HTML page of a proxy. */
export function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'))
  } catch {
    return undefined
  }
}
