import type { Clock } from '../../lib/runtime/clock.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ApiConfig } from '../config.ts'
import type { Database } from '../db/db.ts'
import type { ServeOptions } from '../http/serve.ts'
import { ledgerName } from '../personal/ledger-name.ts'
import { isInLedger } from '../personal/queries.ts'
import { authenticator } from './authenticate.ts'
import type { AuthDeps } from './commands.ts'
import { type IdentityProvider, identityProvider } from './identity-provider.ts'
import { keyCache } from './key-cache.ts'
import { type KeySource, keySource } from './key-source.ts'
import { openUsers } from './users.ts'

export interface Auth extends AuthDeps {
  authenticate: ServeOptions['authenticate']
  /** The caller starts it before the first request and stops it after the last. */
  keys: KeySource
}

/** Builds the authentication from the configuration. */
export function openAuth(parts: { config: ApiConfig; db: Database; log: Log; clock: Clock }): Auth {
  const { config, db, log, clock } = parts
  const issuer = config.AUTH_ISSUER
  const keys = keySource({ url: config.AUTH_JWKS_URL, cache: keyCache(db, issuer), clock, log })
  const verifier = { keys, clock, issuer, audience: config.AUTH_AUDIENCE, tokenType: config.AUTH_TOKEN_TYPE }
  const users = openUsers(db, clock, (tx, userId) => isInLedger(tx, ledgerName(config.ERASURE_KEY, userId)))
  return {
    db,
    log,
    users,
    verifier,
    keys,
    provider: providerOf(config, log),
    authenticate: authenticator(verifier, users),
  }
}

/** Undefined if sign-in through this server is switched off or not configured. */
function providerOf(config: ApiConfig, log: Log): IdentityProvider | undefined {
  const { AUTH_TOKEN_URL: tokenUrl, AUTH_CLIENT_ID: clientId, AUTH_CLIENT_SECRET: clientSecret } = config
  if (!config.AUTH_PROXY_ENABLED || !tokenUrl || !clientId || !clientSecret) return undefined
  return identityProvider({ tokenUrl, revocationUrl: config.AUTH_REVOCATION_URL, clientId, clientSecret, log })
}
