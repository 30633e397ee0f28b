import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openDatabase } from '../api/db/db.ts'
import { migrate } from '../api/db/migrate.ts'
import { armFailpoint } from '../lib/runtime/failpoint.ts'
import type { Lifecycle } from '../lib/runtime/lifecycle.ts'
import { type Demo, removeDemo, writeDemo } from './demo-file.ts'
import type { EnvironmentParts } from './environment.ts'
import { startIdentityProvider } from './identity-provider.ts'
import { type PageAccount, type PageServer, startPageServer } from './page-server.ts'
import { choosePorts } from './ports.ts'
import { startEmbeddedPostgres } from './postgres.ts'
import type { LogFile } from './program-log.ts'
import { type Host, openCluster, runApi, runOperator, runWorker } from './run-program.ts'
import { identityUsers, seed } from './seeds.ts'
import { openSettings } from './settings.ts'

export interface PlatformOptions {
  /** Everything is kept here; made when missing. One platform at a time. */
  folder: string
  /** The API's public port: this one or none. Left out: the one of the last start, 8080, or a free one. */
  port?: number | undefined
  /** False takes any free ports: for tests. */
  usualPorts?: boolean
  /** For tests: trades safety of the data for speed. */
  fastDatabase?: boolean
  /** For tests: more environment for the programs of Jobs, e.g. THREADS. */
  jobEnvironment?: Record<string, string>
  logLevel?: string
  /** Told what is being started, in a few words for people. */
  onStatus?: (text: string) => void
  /** One of the programs can neither go on nor be repaired. */
  onFatal?: (error: Error) => void
}

type OnStop = Lifecycle['onStop']

/** Starts everything in the order in which it depends on each other, and registers how to stop it. */
export async function startPrograms(
  o: PlatformOptions,
  logs: LogFile,
  onStop: OnStop,
): Promise<{ demo: Demo; page: PageServer }> {
  const { folder } = o
  const say = o.onStatus ?? (() => {})
  const place = process.env['KEEPSAKE_FAILPOINT']
  armFailpoint(place)
  // A killed predecessor leaves it behind; while it is there, everything is ready.
  await removeDemo(folder)
  const ports = await choosePorts(folder, { public: o.port, usual: o.usualPorts ?? true })
  const settings = await openSettings(folder, ports.identity)

  say('database')
  const database = await startDatabase(o, logs, onStop)
  await migrate({ url: database, log: logs.of('migrate') })

  say('identity provider')
  const dataDir = join(folder, 'identity')
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const { issuer, clientSecret } = settings
  const users = identityUsers(settings)
  const log = logs.of('identity')
  const identity = await startIdentityProvider({ port: ports.identity, users, dataDir, clientSecret, issuer, log })
  onStop('identity provider', () => identity.close())

  const parts: EnvironmentParts = {
    objects: join(folder, 'objects'),
    database,
    ports,
    settings,
    identity,
    logLevel: o.logLevel ?? 'info',
  }
  const seeds = await seedDatabase(parts, logs)

  const host: Host = { parts, logs, onStop, folder, onFatal: fatally(o, logs) }
  say('cluster')
  const cluster = openCluster(host, { ...jobFailpoint(place), ...o.jobEnvironment })
  say('worker')
  const worker = await runWorker(host, cluster)
  say('operator')
  const operator = await runOperator(host, cluster)
  say('API')
  const api = await runApi(host)

  say('page')
  const page = await startPageServer({
    port: ports.page,
    api: api.publicUrl,
    organizations: seeds.organizations,
    accounts: pageAccounts(seeds),
    log: logs.of('page'),
  })
  onStop('page', () => page.close())

  const demo: Demo = {
    version: 1,
    pid: process.pid,
    base_url: `${api.publicUrl}${api.basePath}`,
    public_url: api.publicUrl,
    internal_url: api.internalUrl,
    metrics_url: api.metricsUrl,
    worker_url: worker.healthUrl,
    worker_metrics_url: worker.metricsUrl,
    operator_url: operator.healthUrl,
    operator_metrics_url: new URL(operator.metricsUrl).origin,
    page_url: page.url,
    page_link: page.link(),
    identity_provider: {
      issuer: identity.issuer,
      jwks_url: identity.jwksUrl,
      token_url: identity.tokenUrl,
      revocation_url: identity.revocationUrl,
      client_id: identity.clientId,
      client_secret: identity.clientSecret,
      audience: identity.audience,
    },
    ...seeds,
  }
  onStop('demo.json', () => removeDemo(folder))
  await writeDemo(folder, demo)
  return { demo, page }
}

/** The places named so are in the programs of Jobs, which know nothing of our environment. */
const jobFailpoint = (place: string | undefined): Record<string, string> =>
  place?.startsWith('job.') ? { KEEPSAKE_FAILPOINT: place } : {}

const fatally = (o: PlatformOptions, logs: LogFile) => (error: Error) => {
  logs.of('local').fatal({ err: error }, 'cannot go on')
  o.onFatal?.(error)
}

/** `DATABASE_URL` names a server of one's own; otherwise there is one in the folder. */
async function startDatabase(o: PlatformOptions, logs: LogFile, onStop: OnStop): Promise<string> {
  const given = process.env['DATABASE_URL']
  if (given) return given
  const postgres = await startEmbeddedPostgres({
    dataDir: join(o.folder, 'postgres'),
    log: logs.of('postgres'),
    fast: o.fastDatabase ?? false,
  })
  onStop('Postgres', () => postgres.stop())
  return postgres.url
}

async function seedDatabase(parts: EnvironmentParts, logs: LogFile) {
  const db = openDatabase({
    url: parts.database,
    role: 'keepsake_worker',
    statementTimeoutMs: 5000,
    maxConnections: 2,
    log: logs.of('seed'),
  })
  try {
    return await seed(db, parts.settings)
  } finally {
    await db.close()
  }
}

function pageAccounts({ organizations, accounts }: Pick<Demo, 'organizations' | 'accounts'>): PageAccount[] {
  const { member, owner, admin, outsider } = accounts
  return [member, owner, admin, outsider].map(({ name, email, password, organizations: mine }) => {
    const at = organizations.find((o) => o.org_id === mine[0]?.org_id)?.name
    const role = mine[0]?.role ?? 'member'
    const label = `${role.replace(/^./, (c) => c.toUpperCase())} of ${at}`
    return { label, name, email, password, organizations: mine.map((o) => o.org_id) }
  })
}
