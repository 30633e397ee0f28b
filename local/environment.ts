import { hash } from 'node:crypto'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import type { IdentityProvider } from './identity-provider.ts'
import type { Ports } from './ports.ts'
import type { Settings } from './settings.ts'

export interface EnvironmentParts {
  objects: string
  /** The folder of the mails, which the page shows. */
  mail: string
  database: string
  ports: Ports
  settings: Settings
  identity: IdentityProvider
  logLevel: string
}

export type Environment = Record<string, string>

/** The variables with which a program opens the object store. */
export const storeEnvironment = (folder: string): Environment => ({
  STORE_KIND: 'folder',
  STORE_FOLDER: folder,
  STORE_COLD_FOLDER: join(folder, 'cold'),
})

const common = (p: EnvironmentParts): Environment => ({
  ...storeEnvironment(p.objects),
  HOST: '127.0.0.1',
  LOG_LEVEL: p.logLevel,
  DATABASE_URL: p.database,
  AUDIT_KEYS: JSON.stringify(p.settings.auditKeys),
})

/** What the links that the API and the worker make lead to, and what signs them. */
const links = (p: EnvironmentParts): Environment => ({
  PUBLIC_URL: `http://127.0.0.1:${p.ports.public}`,
  // Invitation links open on the page. Its port is chosen with the others, before any program starts.
  APP_URL: `http://127.0.0.1:${p.ports.page}`,
  LINK_KEYS: JSON.stringify(p.settings.linkKeys),
})

/** Derived, so that folders of earlier versions have one: the other key never changes. */
const erasureKey = ({ settings }: EnvironmentParts) => hash('sha256', `erasures ${settings.cursorKey}`, 'base64url')

/** The environment of the API, as its pod would have it; read by the same schema, in this process. */
export const apiEnvironment = (p: EnvironmentParts): Environment => ({
  ...common(p),
  PORT: String(p.ports.public),
  INTERNAL_PORT: String(p.ports.internal),
  METRICS_PORT: String(p.ports.metrics),
  ...links(p),
  AUTH_ISSUER: p.identity.issuer,
  AUTH_AUDIENCE: p.identity.audience,
  AUTH_JWKS_URL: p.identity.jwksUrl,
  AUTH_TOKEN_URL: p.identity.tokenUrl,
  AUTH_REVOCATION_URL: p.identity.revocationUrl,
  AUTH_CLIENT_ID: p.identity.clientId,
  AUTH_CLIENT_SECRET: p.identity.clientSecret,
  CURSOR_KEY: p.settings.cursorKey,
  ERASURE_KEY: erasureKey(p),
  CHECK_RESPONSES: 'true',
  // On, as in production; load runs against this platform may switch them off.
  RATE_LIMIT_FACTOR: process.env['RATE_LIMIT_FACTOR'] ?? '1',
  // There is no load balancer here that would need time to notice the shutdown.
  DRAIN_SECONDS: '0',
})

const CORES = String(availableParallelism())
/** The namespace of the custom resources. */
export const NAMESPACE = 'keepsake'
/** The Secret with the settings of the object store, which the pods of Jobs read as on a real cluster. */
export const STORE_SECRET = 'keepsake-store'

/** The Secret with the environment of the pods of retention, which use Postgres and the object store as the worker does. */
export const RETENTION_SECRET = 'keepsake-retention'

export function retentionEnvironment(p: EnvironmentParts): Environment {
  const { HOST: _, ...environment } = common(p)
  return environment
}

export const workerEnvironment = (p: EnvironmentParts): Environment => ({
  ...common(p),
  BUS_KIND: 'memory',
  HEALTH_PORT: String(p.ports.worker),
  METRICS_PORT: String(p.ports.workerMetrics),
  NAMESPACE,
  ERASURE_KEY: erasureKey(p),
  ...links(p),
  MAIL_FOLDER: p.mail,
  MAIL_FROM: 'Keepsake <no-reply@keepsake.invalid>',
  MAIL_TIME_ZONE: Intl.DateTimeFormat().resolvedOptions().timeZone,
  // On one machine the sweep is cheap, and a person waits for it: repair interrupted work soon.
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
  // There is only one operator. With a lease, a laptop that wakes from sleep would lose it and end.
  LEADER_ELECTION: 'false',
  JOB_IMAGE: 'keepsake',
  STORE_SECRET,
  JOB_MEMORY: '4Gi',
  // A request reserves nothing here; it only tells programs how many cores there are.
  JOB_CPU: CORES,
  JOB_CPU_BACKFILL: CORES,
  JOB_PRIORITY_CLASSES: JSON.stringify({ interactive: 'interactive', backfill: 'backfill' }),
  GPU_AVAILABLE: String(gpus > 0),
})
