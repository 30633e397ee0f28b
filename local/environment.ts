import type { IdentityProvider } from './identity-provider.ts'
import type { Ports } from './ports.ts'
import type { Settings } from './settings.ts'

export interface EnvironmentParts {
  objects: string
  database: string
  ports: Ports
  settings: Settings
  identity: IdentityProvider
  logLevel: string
}

export type Environment = Record<string, string>

/** What every program needs to reach the folder of objects. */
export const storeEnvironment = (folder: string): Environment => ({ STORE_KIND: 'folder', STORE_FOLDER: folder })

const common = (p: EnvironmentParts): Environment => ({
  ...storeEnvironment(p.objects),
  HOST: '127.0.0.1',
  LOG_LEVEL: p.logLevel,
  DATABASE_URL: p.database,
})

/** The environment that the API would be given in a pod: here it is read by the same schema, in this process. */
export const apiEnvironment = (p: EnvironmentParts): Environment => ({
  ...common(p),
  PORT: String(p.ports.public),
  INTERNAL_PORT: String(p.ports.internal),
  METRICS_PORT: String(p.ports.metrics),
  PUBLIC_URL: `http://127.0.0.1:${p.ports.public}`,
  AUTH_ISSUER: p.identity.issuer,
  AUTH_AUDIENCE: p.identity.audience,
  AUTH_JWKS_URL: p.identity.jwksUrl,
  AUTH_TOKEN_URL: p.identity.tokenUrl,
  AUTH_REVOCATION_URL: p.identity.revocationUrl,
  AUTH_CLIENT_ID: p.identity.clientId,
  AUTH_CLIENT_SECRET: p.identity.clientSecret,
  LINK_KEYS: JSON.stringify(p.settings.linkKeys),
  CURSOR_KEY: p.settings.cursorKey,
  CHECK_RESPONSES: 'true',
  // On, as in production; load runs against this platform may switch them off.
  RATE_LIMIT_FACTOR: process.env['RATE_LIMIT_FACTOR'] ?? '1',
  // Nobody balances a load here: there is nothing to wait for before closing.
  DRAIN_SECONDS: '0',
})

/** Where the custom resources live. */
const NAMESPACE = 'keepsake'
/** Through which Jobs find the folder of objects, as real ones find S3. */
export const STORE_SECRET = 'keepsake-store'

export const workerEnvironment = (p: EnvironmentParts): Environment => ({
  ...common(p),
  BUS_KIND: 'memory',
  HEALTH_PORT: String(p.ports.worker),
  METRICS_PORT: String(p.ports.workerMetrics),
  NAMESPACE,
  // One person is waiting, on one machine: what an interruption left is repaired at once.
  SWEEP_SECONDS: '20',
})

export const operatorEnvironment = (p: EnvironmentParts, gpus: number): Environment => ({
  HOST: '127.0.0.1',
  LOG_LEVEL: p.logLevel,
  WATCH_NAMESPACE: NAMESPACE,
  PROGRESS_PORT: String(p.ports.progress),
  HEALTH_PORT: String(p.ports.operator),
  METRICS_PORT: String(p.ports.operatorMetrics),
  PROGRESS_KEY: p.settings.progressKey,
  // There is no second one; and a laptop that slept would have to give up a lease that nobody else wants.
  LEADER_ELECTION: 'false',
  JOB_IMAGE: 'keepsake',
  STORE_SECRET,
  JOB_MEMORY: '4Gi',
  GPU_AVAILABLE: String(gpus > 0),
})
