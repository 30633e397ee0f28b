import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as jose from 'jose'
import { newUuid } from '../../lib/contract/ids.ts'

interface Teardown {
  teardown(done: () => Promise<void>): void
}

export interface TokenOptions {
  sub?: string
  roles?: string[]
  /** Added to, or put in place of, the usual claims; undefined removes one. */
  claims?: Record<string, unknown>
  header?: Record<string, unknown>
}

/** How the key server behaves: as it should, answering 503, never answering, or answering nonsense. */
export type KeyServerMode = 'up' | 'down' | 'hang' | 'garbage' | 'empty' | 'huge'

export interface TestIdentity {
  issuer: string
  audience: string
  jwksUrl: string
  /** Where the tokens of an account are asked for, and given back. */
  tokenUrl: string
  revocationUrl: string
  /** Lets a user sign in with a password; returns a refresh token of the user. */
  account(account: Account): string
  /** How often the token endpoint was asked. */
  exchanges(): number
  /** The tokens that were given back. */
  revoked(): readonly string[]
  /** The token endpoint answers after this. */
  hold(until: Promise<unknown> | undefined): void
  /** A logout token of OpenID Connect Back-Channel Logout for this client. */
  logoutToken(claims: Record<string, unknown>, clientId?: string): Promise<string>
  /** A token that the API accepts, unless changed by the options. */
  token(options?: TokenOptions): Promise<string>
  mode(mode: KeyServerMode): void
  /** How often the keys have been fetched. */
  fetches(): number
  /** Makes a new signing key: it signs from now on; `keepOld` says whether the one before is still published. */
  rotate(keepOld?: boolean): Promise<void>
  /** The current signing key pair, for forgeries. */
  keys(): { privateKey: jose.CryptoKey; publicKey: jose.CryptoKey; kid: string }
}

export interface Account {
  sub: string
  email: string
  password: string
  /** Asked for after the password, by `mfa_required`. */
  code?: string
  /** Claims of the access tokens of one sign-in. */
  claims?(): Record<string, unknown>
  /** Claims of an ID token beside them. */
  idClaims?: Record<string, unknown>
  /** False: a refresh returns no refresh token, and the old one stays valid. */
  rotates?: false
  /** What answers say of how long refresh tokens last; by default nothing. */
  refreshSeconds?: number
}

/** An issuer of RS256 tokens and the HTTP server of its keys. */
export async function startTestIdentity(t: Teardown): Promise<TestIdentity> {
  const audience = 'urn:keepsake:api'
  let mode: KeyServerMode = 'up'
  let fetches = 0
  const first = idleKeys.pop() ?? (await newKey())
  let current = first
  let published = [current.jwk]

  const accounts: Account[] = []
  interface Begun {
    account: Account
    claims: Record<string, unknown>
  }
  const refreshTokens = new Map<string, Begun>()
  const refreshTokenOf = (begun: Begun) => {
    const made = randomUUID()
    refreshTokens.set(made, begun)
    return made
  }
  const begin = (account: Account): Begun => ({ account, claims: account.claims?.() ?? {} })
  let exchanges = 0
  let held: Promise<unknown> | undefined
  const revoked: string[] = []
  /** The token endpoint (RFC 6749 §4.3, §6): a refresh token is good once. */
  async function exchange(form: URLSearchParams) {
    exchanges += 1
    await held
    const [refreshToken, challenge] = [form.get('refresh_token'), form.get('mfa_token')]
    if (refreshToken !== null) {
      const begun = refreshTokens.get(refreshToken)
      if (begun?.account.rotates !== false) refreshTokens.delete(refreshToken)
      return begun ? answer(begun, begun.account.rotates !== false) : { error: 'invalid_grant' }
    }
    const account =
      challenge === null
        ? accounts.find((a) => a.email === form.get('username') && a.password === form.get('password'))
        : accounts.find((a) => challenge === challengeOf(a) && a.code === form.get('otp'))
    if (!account) return { error: 'invalid_grant' }
    if (account.code === undefined || challenge !== null) return answer(begin(account), true)
    return {
      error: 'mfa_required',
      mfa_token: challengeOf(account),
      mfa_requirements: { challenge: [{ type: 'otp' }] },
    }
  }

  async function answer(begun: Begun, isRotated: boolean) {
    const { sub, idClaims, refreshSeconds } = begun.account
    const access_token = await token({ sub, claims: begun.claims })
    const id_token =
      idClaims && (await token({ sub, claims: { aud: 'keepsake', ...idClaims }, header: { typ: 'JWT' } }))
    return {
      ...{ access_token, token_type: 'Bearer', expires_in: 900 },
      ...(isRotated && { refresh_token: refreshTokenOf(begun) }),
      ...(refreshSeconds !== undefined && { refresh_expires_in: refreshSeconds }),
      ...(id_token && { id_token }),
    }
  }

  const challengeOf = ({ sub }: Account) => `challenge of ${sub}`

  const server = createServer((req, res) => {
    if (req.method === 'POST') {
      void formOf(req)
        .then((form) => {
          if (mode === 'down') return undefined
          if (req.url === '/token') return exchange(form)
          revoked.push(form.get('token') ?? '')
          return {}
        })
        .then((reply) => {
          if (!reply) return void res.writeHead(503).end()
          res.writeHead('error' in reply ? 400 : 200, { 'content-type': 'application/json' })
          res.end(JSON.stringify(reply))
        })
      return
    }
    fetches += 1
    if (mode === 'hang') return
    if (mode === 'down') return void res.writeHead(503).end()
    if (mode === 'garbage') return void res.end('<html>sign in to the hotel network</html>')
    if (mode === 'huge') return void res.end(JSON.stringify({ keys: published, padding: 'x'.repeat(1_000_000) }))
    res.setHeader('content-type', 'application/json')
    res.end(JSON.stringify({ keys: mode === 'empty' ? [] : published }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  t.teardown(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    idleKeys.push(first)
  })

  async function token({ sub = newUuid(), roles, claims = {}, header = {} }: TokenOptions = {}): Promise<string> {
    const now = Math.floor(Date.now() / 1000)
    const all = { iss: issuer, aud: audience, sub, iat: now, exp: now + 900, ...(roles && { roles }), ...claims }
    const payload = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
    return new jose.SignJWT(payload)
      .setProtectedHeader({ alg: 'RS256', kid: current.kid, typ: 'at+jwt', ...header })
      .sign(current.privateKey)
  }

  return {
    issuer,
    audience,
    jwksUrl: `${issuer}/jwks`,
    tokenUrl: `${issuer}/token`,
    revocationUrl: `${issuer}/revoke`,
    token,
    account(account) {
      accounts.push(account)
      return refreshTokenOf(begin(account))
    },
    exchanges: () => exchanges,
    revoked: () => revoked,
    hold(until) {
      held = until
    },
    logoutToken: (claims, clientId = 'keepsake') =>
      token({
        claims: {
          aud: clientId,
          jti: randomUUID(),
          events: { 'http://schemas.openid.net/event/backchannel-logout': {} },
          ...{ sub: undefined, ...claims },
        },
        header: { typ: 'logout+jwt' },
      }),
    mode(next) {
      mode = next
      // What hangs would hang on.
      server.closeAllConnections()
    },
    fetches: () => fetches,
    async rotate(keepOld = true) {
      current = await newKey()
      published = keepOld ? [...published, current.jwk] : [current.jwk]
    },
    keys: () => current,
  }
}

async function formOf(req: IncomingMessage): Promise<URLSearchParams> {
  let text = ''
  for await (const chunk of req.setEncoding('utf8')) text += chunk
  return new URLSearchParams(text)
}

let made = 0
/** Of identity providers that have ended, also those of earlier files in the process: a key takes as long as a small test. */
const idleKeys: Awaited<ReturnType<typeof newKey>>[] = []
async function newKey() {
  const { privateKey, publicKey } = await jose.generateKeyPair('RS256', { extractable: true })
  const kid = `key-${++made}`
  return { privateKey, publicKey, kid, jwk: { ...(await jose.exportJWK(publicKey)), kid, alg: 'RS256', use: 'sig' } }
}

/** The settings of an API that takes the tokens of this provider. */
export const tokenSettings = ({ issuer, audience }: Pick<TestIdentity, 'issuer' | 'audience'>) => ({
  AUTH_ISSUER: issuer,
  AUTH_AUDIENCE: [audience],
  AUTH_AUDIENCE_CLAIM: 'aud' as const,
  AUTH_TOKEN_TYPE: 'at+jwt',
  AUTH_TOKEN_USE: undefined,
  AUTH_ROLES_CLAIM: 'roles',
})
