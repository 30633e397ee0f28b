import type { Uuid } from '../../lib/contract/ids.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ApiConfig } from '../config.ts'
import type { Database } from '../db/db.ts'
import type { ServeOptions } from '../http/serve.ts'
import { REFRESH_LIMIT, UNKNOWN_REFRESH_LIMIT } from '../limits/classes.ts'
import { countedByAddress, countedPoints } from '../limits/points.ts'
import { ledgerName } from '../personal/ledger-name.ts'
import { isInLedger } from '../personal/queries.ts'
import { authenticator } from './authenticate.ts'
import type { AuthDeps } from './commands.ts'
import { openExchanges } from './exchanges.ts'
import { type IdentityProvider, identityProvider } from './identity-provider.ts'
import { keyCache } from './key-cache.ts'
import { type KeySource, keySource } from './key-source.ts'
import { type LastUses, openLastUses } from './last-uses.ts'
import { readRevocations } from './revocation-queries.ts'
import { type Revocations, watchRevocations } from './revocations.ts'
import { saveLastUses } from './session-queries.ts'
import { openUsers } from './users.ts'
import type { VerifierOptions } from './verify-token.ts'

export interface Auth extends Omit<AuthDeps, 'refusals'> {
  authenticate: ServeOptions['authenticate']
  /** The caller starts it before the first request and stops it after the last. */
  keys: KeySource
  /** Likewise; without it every request asks the database. */
  revocations: Revocations
  lastUses: LastUses
  /** The sign-ins of this user, or of any, have to be looked at again. */
  recheck(user?: Uuid): void
}

export interface AuthParts {
  config: ApiConfig
  db: Database
  log: Log
  clock: Clock
  /** After the sign-ins of a user, or of any, have ended: for what stays open. */
  onRevoked?(user?: Uuid): void
}

/** Builds the authentication from the configuration. */
export function openAuth({ config, db, log, clock, onRevoked }: AuthParts): Auth {
  const keys = keySource({ url: config.AUTH_JWKS_URL, cache: keyCache(db, config.AUTH_ISSUER), clock, log })
  const verifier = verifierOf(config, { keys, clock })
  const recheck = (user?: Uuid) => {
    users.forget(user)
    onRevoked?.(user)
  }
  // On the connection of the checks: while requests wait for the pool, the cache must stay good.
  const revocations = watchRevocations({ read: (from) => readRevocations(db.probe, from), onRevoked: recheck, log })
  const users = openUsers({
    db,
    clock,
    isCurrent: revocations.isCurrent,
    isErased: (tx, userId) => isInLedger(tx, ledgerName(config.ERASURE_KEY, userId)),
  })
  const lastUses = openLastUses({ save: (uses) => db.inTransaction({}, (tx) => saveLastUses(tx, uses)), log })
  return {
    ...{ db, log, users, verifier, keys, revocations, lastUses, recheck },
    provider: providerOf(config, log),
    exchanges: openExchanges({ log }),
    takeExchange: countedPoints('refresh-user', REFRESH_LIMIT, config.RATE_LIMIT_FACTOR),
    takeUnknown: countedByAddress(UNKNOWN_REFRESH_LIMIT, config.RATE_LIMIT_FACTOR),
    notices: { secrets: config.AUTH_WEBHOOK_SECRETS, clientIds: logoutClientsOf(config) },
    authenticate: authenticator(verifier, users, lastUses),
  }
}

type TokenSettings = Pick<
  ApiConfig,
  'AUTH_ISSUER' | 'AUTH_AUDIENCE' | 'AUTH_AUDIENCE_CLAIM' | 'AUTH_TOKEN_TYPE' | 'AUTH_TOKEN_USE' | 'AUTH_ROLES_CLAIM'
>

export const verifierOf = (config: TokenSettings, parts: Pick<VerifierOptions, 'keys' | 'clock'>): VerifierOptions => ({
  ...parts,
  issuer: config.AUTH_ISSUER,
  audience: config.AUTH_AUDIENCE,
  audienceClaim: config.AUTH_AUDIENCE_CLAIM,
  tokenType: config.AUTH_TOKEN_TYPE === 'none' ? undefined : config.AUTH_TOKEN_TYPE,
  tokenUse: config.AUTH_TOKEN_USE,
  rolesClaim: config.AUTH_ROLES_CLAIM,
})

/** Undefined if sign-in through this server is switched off or not configured. */
function providerOf(config: ApiConfig, log: Log): IdentityProvider | undefined {
  const { AUTH_TOKEN_URL: tokenUrl, AUTH_CLIENT_ID: clientId } = config
  if (!config.AUTH_PROXY_ENABLED || !tokenUrl || !clientId) return undefined
  return identityProvider({
    tokenUrl,
    revocationUrl: config.AUTH_REVOCATION_URL,
    clientId,
    clientSecret: config.AUTH_CLIENT_SECRET,
    clientAuth: config.AUTH_CLIENT_AUTH,
    scope: config.AUTH_SCOPE,
    mfaGrant: config.AUTH_MFA_GRANT,
    log,
  })
}

const logoutClientsOf = ({ AUTH_LOGOUT_CLIENT_IDS: ids, AUTH_CLIENT_ID: own }: ApiConfig): readonly string[] =>
  ids.length > 0 || own === undefined ? ids : [own]
