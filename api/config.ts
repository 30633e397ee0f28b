import * as z from 'zod'
import { flag, int, json } from '../lib/runtime/config.ts'
import { StoreConfig } from '../lib/runtime/object-store/open.ts'
import { AuditKeys } from './audit/master-keys.ts'

/** base64url of at least 32 bytes, as `openssl rand -base64 32 | tr +/ -_` prints it. */
export const Secret = z.string().regex(/^[A-Za-z0-9_-]{43,}={0,2}$/, 'must be base64url of at least 32 bytes')

/** The keys of delivery links: the API signs with `current` and verifies with all, so a rotation breaks no link. */
export const LinkKeys = z
  .object({ current: z.string(), keys: z.record(z.string().regex(/^[a-z0-9]{1,8}$/), Secret) })
  .refine((ring) => ring.keys[ring.current] !== undefined, 'current must name one of the keys')

/** A point of P-256, uncompressed, as `npx web-push generate-vapid-keys` prints it. */
export const VapidKey = z.string().regex(/^B[\w-]{86}$/, 'must be base64url of 65 bytes')

/** The push services of browsers, as hosts: endpoints lead to no others. */
export const PushHosts = z
  .string()
  .default('fcm.googleapis.com,*.push.services.mozilla.com,web.push.apple.com,*.push.apple.com,*.notify.windows.com')
  .transform((text) => text.split(',').flatMap((host) => host.trim().toLowerCase() || []))

/** `system:serviceaccount:{namespace}:{name}`, separated by commas. */
const subjects = z
  .string()
  .default('')
  .transform((text) => text.split(',').flatMap((name) => name.trim() || []))
  .pipe(z.array(z.string().regex(/^system:serviceaccount:[a-z0-9-]+:[a-z0-9.-]+$/)).max(100))

/** Names that are separated by commas. */
const names = z
  .string()
  .default('')
  .transform((text) => text.split(',').flatMap((name) => name.trim() || []))

const WEBHOOK_SECRET = /^whsec_(?=[^=]{32,86}={0,2}$)[A-Za-z0-9+/]+={0,2}$/

/** The environment of the API. */
export const ApiConfig = StoreConfig.extend({
  /** Unset: all addresses, of IPv6 as well where the machine has it. */
  HOST: z.string().optional(),
  PORT: int(0, 65_535).default(8080),
  INTERNAL_PORT: int(0, 65_535).default(8081),
  METRICS_PORT: int(0, 65_535).default(9090),
  PUBLIC_URL: z.url({ protocol: /^https?$/ }).describe('Address of the API without base path and trailing slash'),
  /** Invitation links lead there: `{APP_URL}/i/{slug}`. PUBLIC_URL otherwise. */
  APP_URL: z.url({ protocol: /^https?$/ }).optional(),
  /** Where the landing page of an invitation sends those without the app. */
  APP_STORE_URL: z.url({ protocol: /^https$/ }).optional(),
  PLAY_STORE_URL: z.url({ protocol: /^https$/ }).optional(),
  /** Whether a new invitation comes with a QR code. */
  INVITATION_QR: flag.default(true),
  /** Whether accepting an invitation makes a member of the organization. */
  JOIN_ORG_ON_ACCEPT: flag.default(true),
  /** Whether an album in ARCHIVE is read-only. Clients of before may expect that it is not. */
  ALBUM_ARCHIVE_READ_ONLY: flag.default(true),
  BASE_PATH: z
    .string()
    .regex(/^(\/[a-z0-9-]+)+$/)
    .default('/v1'),
  /**
   * Processes that serve the same ports: as many as the replica has cores. They share DATABASE_CONNECTIONS, MAX_BODIES
   * and MAX_EVENT_STREAMS; each counts rate limits alone, as replicas do.
   */
  API_PROCESSES: int(1, 64).default(1),
  /** The number of this one; the program sets it for the processes that it starts. */
  API_PROCESS: int(1, 64).default(1),
  /** Of Node itself: a size of the heap that it gives is left alone. */
  NODE_OPTIONS: z.string().default(''),
  TRUST_PROXY_HOPS: int(0, 10).default(0),
  DATABASE_URL: z.string().regex(/^postgres(ql)?:\/\//, 'must be a postgres:// address'),
  DATABASE_CONNECTIONS: int(1, 200).default(10),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  AUTH_ISSUER: z.string().min(1),
  /** Of access tokens; several are separated by commas. */
  AUTH_AUDIENCE: names.refine((list) => list.length > 0, 'must not be empty'),
  /** The claim that has it. Amazon Cognito has the id of the client in place of `aud`. */
  AUTH_AUDIENCE_CLAIM: z.enum(['aud', 'client_id']).default('aud'),
  AUTH_JWKS_URL: z.url({ protocol: /^https?$/ }),
  /** `none` where the header of access tokens has no `typ`; then AUTH_TOKEN_USE must tell them from ID tokens. */
  AUTH_TOKEN_TYPE: z.string().default('at+jwt'),
  /** The claim `token_use` of access tokens: `access` at Amazon Cognito. */
  AUTH_TOKEN_USE: z.string().min(1).optional(),
  /** The claim that lists the roles: `cognito:groups` at Amazon Cognito. */
  AUTH_ROLES_CLAIM: z.string().min(1).default('roles'),
  AUTH_TOKEN_URL: z.url({ protocol: /^https?$/ }).optional(),
  AUTH_REVOCATION_URL: z.url({ protocol: /^https?$/ }).optional(),
  AUTH_CLIENT_ID: z.string().optional(),
  AUTH_CLIENT_SECRET: z.string().optional(),
  AUTH_CLIENT_AUTH: z.enum(['post', 'basic']).default('post'),
  /** Asked for when users sign in. */
  AUTH_SCOPE: z.string().min(1).default('openid offline_access api'),
  /** The grant of the token endpoint that takes `mfa_token` and `otp`. */
  AUTH_MFA_GRANT: z.string().min(1).default('http://auth0.com/oauth/grant-type/mfa-otp'),
  /** Of the webhook by which the identity provider tells of logins and logouts, the newest first; none: no webhook. */
  AUTH_WEBHOOK_SECRETS: names.pipe(
    z.array(z.string().regex(WEBHOOK_SECRET, 'must be whsec_ and base64 of 24 to 64 bytes')).max(5),
  ),
  /** The clients whose logout tokens count (OpenID Connect Back-Channel Logout); AUTH_CLIENT_ID otherwise. */
  AUTH_LOGOUT_CLIENT_IDS: names,
  AUTH_PROXY_ENABLED: flag.default(true),
  /** Services of the cluster that may use the internal port; without them it has only the probes. */
  INTERNAL_AUTH_ISSUER: z.string().min(1).optional(),
  INTERNAL_AUTH_JWKS_URL: z.url({ protocol: /^https?$/ }).optional(),
  INTERNAL_AUTH_SUBJECTS: subjects,
  LINK_KEYS: json(LinkKeys),
  CURSOR_KEY: Secret,
  /** Of the personal data in the audit log; the worker has the same. */
  AUDIT_KEYS: json(AuditKeys),
  /** Names users in the ledger of erasures, whose entries outlive every database; it must never change. */
  ERASURE_KEY: Secret,
  /** Of the push messages to browsers; its private half is the worker's. */
  VAPID_PUBLIC_KEY: VapidKey.optional(),
  PUSH_HOSTS: PushHosts,
  /** Multiplies every rate limit; 0 switches them off. */
  RATE_LIMIT_FACTOR: z.coerce.number().min(0).max(1_000_000).default(1),
  /** Streamed request bodies (files, chunks) that this replica receives at the same time. */
  MAX_BODIES: int(1, 10_000).default(128),
  /** Event streams that this replica keeps open. */
  MAX_EVENT_STREAMS: int(1, 100_000).default(2000),
  /** Bytes that one user may store in all organizations together: originals, and announced sizes of open uploads. */
  USER_QUOTA_BYTES: int(0, 2 ** 50).default(200 * 1024 ** 3),
  /** Upload sessions that one user may have open at a time. */
  MAX_OPEN_UPLOADS: int(1, 100_000).default(100),
  CHECK_RESPONSES: flag.default(false),
  DRAIN_SECONDS: int(0, 300).default(8),
  KEEPSAKE_FAILPOINT: z.string().optional(),
})
  .refine((config) => config.API_PROCESSES === 1 || config.DATABASE_CONNECTIONS >= 5 * config.API_PROCESSES, {
    path: ['DATABASE_CONNECTIONS'],
    message: 'must be at least five for each of API_PROCESSES',
  })
  .refine((config) => config.API_PROCESSES === 1 || config.MAX_BODIES >= 24 * config.API_PROCESSES, {
    path: ['MAX_BODIES'],
    message: 'must be at least 24 for each of API_PROCESSES',
  })
  .refine((config) => config.MAX_EVENT_STREAMS >= config.API_PROCESSES, {
    path: ['API_PROCESSES'],
    message: 'must not exceed MAX_EVENT_STREAMS',
  })
  .refine((config) => config.AUTH_TOKEN_USE !== undefined || !takesIdTokens(config), {
    path: ['AUTH_TOKEN_USE'],
    message:
      'is needed when AUTH_TOKEN_TYPE is none, or JWT with a client id in AUTH_AUDIENCE, or an ID token could be used as an access token',
  })

interface TokenKinds {
  AUTH_TOKEN_TYPE: string
  AUTH_AUDIENCE: string[]
  AUTH_AUDIENCE_CLAIM: string
  AUTH_CLIENT_ID?: string | undefined
  AUTH_LOGOUT_CLIENT_IDS: string[]
}

/** ID tokens and logout tokens have the type JWT, or none, and the id of a client as `aud`. */
function takesIdTokens(config: TokenKinds): boolean {
  const type = config.AUTH_TOKEN_TYPE.toLowerCase().replace(/^application\//, '')
  if (type === 'none') return true
  const clients = [config.AUTH_CLIENT_ID, ...config.AUTH_LOGOUT_CLIENT_IDS]
  return (
    type === 'jwt' && config.AUTH_AUDIENCE_CLAIM === 'aud' && config.AUTH_AUDIENCE.some((aud) => clients.includes(aud))
  )
}

export type ApiConfig = z.output<typeof ApiConfig>
