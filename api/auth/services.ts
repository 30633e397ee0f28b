import { errors, jwtVerify } from 'jose'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ApiConfig } from '../config.ts'
import type { Database } from '../db/db.ts'
import type { ServeOptions } from '../http/serve.ts'
import type { Actor } from '../requests/actor.ts'
import { keyCache } from './key-cache.ts'
import { type KeySource, keySource } from './key-source.ts'
import { unauthorized, userIdOf } from './verify-token.ts'

/** The services of the cluster that may use the internal port, by the tokens of their service accounts. */
export interface ServiceAuth {
  authenticate: ServeOptions['authenticate']
  /** The caller starts it before the first request and stops it after the last. */
  keys: KeySource
}

/** Of a projected token (`serviceAccountToken.audience`): no token for another server is accepted here. */
export const INTERNAL_AUDIENCE = 'memory-internal'
/** A kubelet renews projected tokens long before: one that is older has been taken away. */
const OLDEST = 24 * 3600
const TOLERANCE = 30
const MAX_TOKEN = 8 * 1024
const BEARER = /^Bearer +([\w.~+/=-]+) *$/i

type Settings = Pick<ApiConfig, 'INTERNAL_AUTH_ISSUER' | 'INTERNAL_AUTH_JWKS_URL' | 'INTERNAL_AUTH_SUBJECTS'>

/** Undefined where no service is configured. Throws if the configuration is incomplete. */
export function openServiceAuth(parts: {
  config: Settings
  db: Database
  log: Log
  clock: Clock
}): ServiceAuth | undefined {
  const { config, db, log, clock } = parts
  const { INTERNAL_AUTH_ISSUER: issuer, INTERNAL_AUTH_JWKS_URL: url, INTERNAL_AUTH_SUBJECTS: subjects } = config
  if (!issuer && !url && subjects.length === 0) return undefined
  if (!issuer || !url || subjects.length === 0) {
    throw new Error('INTERNAL_AUTH_ISSUER, INTERNAL_AUTH_JWKS_URL and INTERNAL_AUTH_SUBJECTS are set together')
  }
  const keys = keySource({ url, cache: keyCache(db, issuer), clock, log })
  const allowed = new Set(subjects)

  const actorOf = async (token: string): Promise<Actor> => {
    const { payload } = await jwtVerify(token, keys.key, {
      algorithms: ['RS256'],
      issuer,
      audience: INTERNAL_AUDIENCE,
      requiredClaims: ['exp', 'iat', 'sub'],
      maxTokenAge: OLDEST,
      clockTolerance: TOLERANCE,
      currentDate: clock.now(),
    })
    const subject = payload.sub ?? ''
    if (!allowed.has(subject)) throw new errors.JWTClaimValidationFailed('this service is not allowed', payload, 'sub')
    return { userId: userIdOf(issuer, subject), platformAdmin: false, sessionId: null }
  }

  return {
    keys,
    async authenticate(authorization, request) {
      if (authorization === undefined) throw unauthorized()
      const token = BEARER.exec(authorization)?.[1]
      if (!token || token.length > MAX_TOKEN) throw unauthorized('invalid')
      return actorOf(token).catch((error: unknown) => {
        if (!(error instanceof errors.JOSEError)) throw error
        request.log.info({ reason: error.message }, 'token of a service refused')
        throw unauthorized(error instanceof errors.JWTExpired ? 'expired' : 'invalid', error)
      })
    },
  }
}
