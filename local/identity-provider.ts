import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Provider, { type Configuration, errors, type KoaContextWithOIDC } from 'oidc-provider'
import { newUuid, type Uuid } from '../lib/contract/ids.ts'
import type { Log } from '../lib/runtime/log.ts'
import { closeServer, listenOnPort } from './http-server.ts'
import { type GrantStore, openGrantStore } from './identity/grants.ts'
import { isPassword } from './identity/passwords.ts'
import { signingKey } from './identity/signing-key.ts'

export interface IdentityUser {
  id: Uuid
  email: string
  name: string
  password: string
  /** Such as `ROLE_ADMIN`; a claim of access tokens. */
  roles: string[]
}

export interface IdentityProviderOptions {
  /** 0 takes a free one. */
  port: number
  /** The address to listen on; default: 127.0.0.1. */
  host?: string
  users: IdentityUser[]
  /** An existing folder for the signing key and the refresh tokens. */
  dataDir: string
  clientSecret: string
  /** The `iss` of tokens; default: the provider's address. Pass a constant where the port may change. */
  issuer?: string
  log: Log
}

export interface IdentityProvider {
  issuer: string
  jwksUrl: string
  tokenUrl: string
  revocationUrl: string
  clientId: string
  clientSecret: string
  audience: string
  port: number
  /** Revokes every refresh token of a user. */
  revokeAll(userId: Uuid): Promise<void>
  close(): Promise<void>
}

const AUDIENCE = 'urn:keepsake:api'
const CLIENT_ID = 'keepsake'
const SCOPES = 'openid offline_access api'
const ACCESS_SECONDS = 15 * 60
const REFRESH_SECONDS = 7 * 24 * 3600

/**
 * A real OpenID provider for one machine, with the given users: password grant, RS256 `at+jwt` access tokens of 15
 * minutes, rotated refresh tokens of 7 days. Reuse of a refresh token revokes its whole family. Keys and refresh tokens
 * survive a restart.
 */
export async function startIdentityProvider(o: IdentityProviderOptions): Promise<IdentityProvider> {
  const people = directory(o.users)
  const [key, grants] = await Promise.all([
    signingKey(join(o.dataDir, 'signing-key.json')),
    openGrantStore(join(o.dataDir, 'grants.json')),
  ])
  const server = createServer()
  const port = await listenOnPort(server, o.port, o.host)
  const address = `http://${o.host ?? '127.0.0.1'}:${port}`
  const issuer = o.issuer ?? address

  const provider = new Provider(issuer, {
    ...configuration(people, grants, o.clientSecret),
    jwks: { keys: [{ ...key, kty: 'RSA' }] },
  })
  provider.registerGrantType('password', passwordGrant(provider, people), ['username', 'password'])
  provider.on('server_error', (_ctx, error) => o.log.error({ err: error }, 'identity provider failed'))
  provider.on('grant.error', (_ctx, error) => o.log.info({ error: error.message }, 'sign-in refused'))
  const handle = provider.callback()
  server.on('request', (request, response) => void handle(request, response))

  return {
    issuer,
    jwksUrl: `${address}/jwks`,
    tokenUrl: `${address}/token`,
    revocationUrl: `${address}/token/revocation`,
    clientId: CLIENT_ID,
    clientSecret: o.clientSecret,
    audience: AUDIENCE,
    port: (server.address() as AddressInfo).port,
    revokeAll: grants.revokeAll,
    async close() {
      await closeServer(server)
      await grants.close()
    },
  }
}

interface Directory {
  byId(id: string): IdentityUser | undefined
  /** The user, if the password is correct. */
  signIn(email: string, password: string): IdentityUser | undefined
}

function directory(users: IdentityUser[]): Directory {
  return {
    byId: (id) => users.find((u) => u.id === id),
    signIn(email, password) {
      const user = users.find((u) => u.email === email.trim().toLowerCase())
      return isPassword(password, user?.password) ? user : undefined
    },
  }
}

const resourceServer = () => ({
  scope: 'api',
  audience: AUDIENCE,
  accessTokenFormat: 'jwt' as const,
  accessTokenTTL: ACCESS_SECONDS,
  jwt: { sign: { alg: 'RS256' as const } },
})

const claimsOf = (user: IdentityUser) => ({
  email: user.email,
  email_verified: true,
  name: user.name,
  roles: user.roles,
})

function configuration(people: Directory, grants: GrantStore, clientSecret: string): Configuration {
  return {
    adapter: grants.adapter,
    clients: [
      {
        client_id: CLIENT_ID,
        client_secret: clientSecret,
        grant_types: ['password', 'refresh_token'],
        redirect_uris: [],
        response_types: [],
        token_endpoint_auth_method: 'client_secret_post',
      },
    ],
    scopes: SCOPES.split(' '),
    claims: { openid: ['sub', 'email', 'email_verified', 'name', 'roles', 'auth_time', 'amr'] },
    conformIdTokenClaims: false,
    features: {
      devInteractions: { enabled: false },
      userinfo: { enabled: false },
      rpInitiatedLogout: { enabled: false },
      revocation: { enabled: true, allowedPolicy: (_ctx, client, token) => token.clientId === client.clientId },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => AUDIENCE,
        useGrantedResource: () => true,
        getResourceServerInfo: resourceServer,
      },
    },
    ttl: {
      AccessToken: ACCESS_SECONDS,
      IdToken: ACCESS_SECONDS,
      RefreshToken: REFRESH_SECONDS,
      // Longer than any chain of refresh tokens: rotation extends their lifetime, not that of the grant.
      Grant: 400 * 24 * 3600,
    },
    rotateRefreshToken: true,
    findAccount(_ctx, id) {
      const user = people.byId(id)
      return user && { accountId: id, claims: () => ({ sub: id, ...claimsOf(user) }) }
    },
    extraTokenClaims(ctx) {
      const { RefreshToken: session, Account: account } = ctx.oidc.entities
      const user = account && people.byId(account.accountId)
      return { ...(user && claimsOf(user)), sid: session?.sid, auth_time: session?.authTime }
    },
  }
}

const text = (value: unknown) => (typeof value === 'string' ? value : '')

/** Checks the password, then issues the same tokens as oidc-provider's own grants, in the same order. */
function passwordGrant(provider: Provider, people: Directory) {
  return async (ctx: KoaContextWithOIDC): Promise<void> => {
    const { client, params } = ctx.oidc
    const user = people.signIn(text(params?.['username']), text(params?.['password']))
    if (!client || !user) throw new errors.InvalidGrant('wrong e-mail or password')
    ctx.oidc.entity('Account', { accountId: user.id, claims: () => ({ sub: user.id, ...claimsOf(user) }) })

    const grant = new provider.Grant({ clientId: client.clientId, accountId: user.id })
    grant.addOIDCScope('openid offline_access')
    grant.addResourceScope(AUDIENCE, 'api')
    const grantId = await grant.save()

    const session = {
      accountId: user.id,
      client,
      grantId,
      gty: 'password',
      // Unchanged by rotation: a refresh is not a new sign-in.
      authTime: Math.floor(Date.now() / 1000),
      sid: newUuid(),
      amr: ['pwd'],
    }
    const refresh = new provider.RefreshToken({ ...session, scope: SCOPES, resource: AUDIENCE, rotations: 0 })
    ctx.oidc.entity('RefreshToken', refresh)
    const access = new provider.AccessToken({ ...session, scope: 'api' })
    access.resourceServer = new provider.ResourceServer(AUDIENCE, resourceServer())
    ctx.oidc.entity('AccessToken', access)

    const id = new provider.IdToken(
      { sub: user.id, ...claimsOf(user), auth_time: session.authTime, amr: session.amr },
      { ctx },
    )
    Object.assign(id, { scope: 'openid' }) // missing in its types
    id.set('sid', session.sid)
    ctx.body = {
      access_token: await access.save(),
      token_type: 'Bearer',
      expires_in: ACCESS_SECONDS,
      refresh_token: await refresh.save(),
      refresh_expires_in: REFRESH_SECONDS,
      id_token: await id.issue({ use: 'idtoken' }),
      scope: SCOPES,
    }
  }
}
