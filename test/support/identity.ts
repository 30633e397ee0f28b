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
  const refreshTokens = new Map<string, Account>()
  const refreshTokenOf = (account: Account) => {
    const made = randomUUID()
    refreshTokens.set(made, account)
    return made
  }
  /** The token endpoint (RFC 6749 §4.3, §6): a refresh token is good once. */
  async function exchange(form: URLSearchParams) {
    const refreshToken = form.get('refresh_token')
    const found =
      refreshToken === null
        ? accounts.find((a) => a.email === form.get('username') && a.password === form.get('password'))
        : refreshTokens.get(refreshToken)
    if (refreshToken !== null) refreshTokens.delete(refreshToken)
    if (!found) return { error: 'invalid_grant' }
    const access_token = await token({ sub: found.sub })
    return { access_token, token_type: 'Bearer', expires_in: 900, refresh_token: refreshTokenOf(found) }
  }

  const server = createServer((req, res) => {
    if (req.method === 'POST') {
      void formOf(req)
        .then((form) => (req.url === '/token' ? exchange(form) : {}))
        .then((reply) => {
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
      return refreshTokenOf(account)
    },
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
