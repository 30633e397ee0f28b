import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { openDatabase } from '../api/db/db.ts'
import { migrate, OtherHistory } from '../api/db/migrate.ts'
import { RETENTION_POLICIES } from '../crds/retention-policy.ts'
import { armFailpoint } from '../lib/runtime/failpoint.ts'
import type { Lifecycle } from '../lib/runtime/lifecycle.ts'
import type { LocalCluster } from './cluster/local-cluster.ts'
import { type Demo, removeDemo, writeDemo } from './demo-file.ts'
import type { EnvironmentParts } from './environment.ts'
import { startIdentityProvider } from './identity-provider.ts'
import { type PageAccount, type PageServer, startPageServer } from './page-server.ts'
import { choosePorts } from './ports.ts'
import { startEmbeddedPostgres } from './postgres.ts'
import { exists } from './postgres-files.ts'
import type { LogFile } from './program-log.ts'
import { answerRuns, defaultPolicies } from './retention.ts'
import { type Host, openCluster, runApi, runOperator, runWorker } from './run-program.ts'
import { identityUsers, seed } from './seeds.ts'
import { openSettings } from './settings.ts'

export interface PlatformOptions {
  /** The data folder; created if missing. One platform at a time. */
  folder: string
  /** The API's public port; the start fails if it is taken. Default: that of the last start, 8080, or a free one. */
  port?: number | undefined
  /** False for tests: any free ports instead of the default ones. */
  usualPorts?: boolean
  /** For tests: faster, and data is lost in a crash of the machine. */
  fastDatabase?: boolean
  /** For tests: more variables for the programs of Jobs, such as CORES. */
  jobEnvironment?: Record<string, string>
  logLevel?: string
  /** A person has looked at why runs of retention ask for a confirmation, and gives it. */
  confirmRetention?: boolean
  /** Called with what the person at this machine has to know. */
  onNotice?: (text: string) => void
  /** Called with the name of each part that starts, for display. */
  onStatus?: (text: string) => void
  /** Called when a program cannot continue. */
  onFatal?: (error: Error) => void
}

type OnStop = Lifecycle['onStop']

/** Starts the programs in the order of their dependencies and registers how to stop them. */
export async function startPrograms(
  o: PlatformOptions,
  logs: LogFile,
  onStop: OnStop,
): Promise<{ demo: Demo; page: PageServer }> {
  const { folder } = o
  const say = o.onStatus ?? (() => {})
  const place = process.env['KEEPSAKE_FAILPOINT']
  armFailpoint(place)
  // The file says that the platform is ready; a killed predecessor could not remove it.
  await removeDemo(folder)
  const ports = await choosePorts(folder, { public: o.port, usual: o.usualPorts ?? true })
  const settings = await openSettings(folder, ports.identity)

  say('database')
  const database = await startDatabase(o, logs, onStop)
  await migrate({ url: database, log: logs.of('migrate') }).catch((error: unknown) => {
    throw error instanceof OtherHistory ? madeByAnother(folder, error) : error
  })

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
    mail: join(folder, 'mail'),
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
  await startPolicies(o, cluster, host)
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
    accounts: pageAccounts(seeds),
    mail: parts.mail,
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
    database_url: database,
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

/** There are no releases between which a folder could be moved: it belongs to the commits that continue its history. */
function madeByAnother(folder: string, cause: Error): Error {
  const [database, another] = process.env['KEEPSAKE_DATABASE_URL']
    ? ['that KEEPSAKE_DATABASE_URL names', 'name an empty database and begin a new folder for it']
    : [`of ${folder}`, 'begin a new folder']
  return new Error(
    `The database ${database} was made by another version of this repository, and this one cannot continue it. Check out the commit that made it, or ${another} (npm start -- --data FOLDER).\n${cause.message}`,
    { cause },
  )
}

/** Before the worker: its sweep purges what has no policy. */
async function startPolicies(o: PlatformOptions, cluster: LocalCluster, { logs, onStop }: Host): Promise<void> {
  for (const policy of await defaultPolicies()) await cluster.create(RETENTION_POLICIES, policy)
  const log = logs.of('retention')
  const tell = (text: string) => {
    log.warn(text)
    o.onNotice?.(text)
  }
  const answering = answerRuns(cluster, { isConfirmed: o.confirmRetention ?? false, tell, log })
  onStop('policies', () => answering.stop())
}

/** The failpoints called `job.…` are in the programs of Jobs, which do not inherit the environment. */
const jobFailpoint = (place: string | undefined): Record<string, string> =>
  place?.startsWith('job.') ? { KEEPSAKE_FAILPOINT: place } : {}

const fatally = (o: PlatformOptions, logs: LogFile) => (error: Error) => {
  logs.of('local').fatal({ err: error }, 'cannot continue')
  o.onFatal?.(error)
}

/**
 * Uses the database of `KEEPSAKE_DATABASE_URL` if it is set; otherwise starts a server in the folder. Not `DATABASE_URL`,
 * which administrators set for the command line: this platform would work on the rows of another one, whose files it does
 * not have.
 */
async function startDatabase(o: PlatformOptions, logs: LogFile, onStop: OnStop): Promise<string> {
  const given = process.env['KEEPSAKE_DATABASE_URL']
  if (given) return given
  await refuseAbandonedObjects(o.folder)
  if (process.env['DATABASE_URL'])
    o.onNotice?.(
      `DATABASE_URL is ignored: the database is in ${o.folder}. KEEPSAKE_DATABASE_URL would name another one.`,
    )
  const postgres = await startEmbeddedPostgres({
    dataDir: join(o.folder, 'postgres'),
    log: logs.of('postgres'),
    fast: o.fastDatabase ?? false,
    onFatal: fatally(o, logs),
  })
  onStop('Postgres', () => postgres.stop())
  return postgres.url
}

/**
 * An empty database beside objects looks like a restore to an earlier time, which the worker would record in the store. The
 * database to which the objects belong would then be taken for a restored one.
 */
async function refuseAbandonedObjects(folder: string): Promise<void> {
  if (await exists(join(folder, 'postgres/PG_VERSION'))) return
  const objects = await readdir(join(folder, 'objects')).catch(() => [])
  if (objects.length === 0) return
  const where = process.env['DATABASE_URL'] ? ', such as the one of DATABASE_URL, which earlier versions used' : ''
  throw new Error(
    `${folder} has objects but not the database to which they belong. Set KEEPSAKE_DATABASE_URL to that database${where}, or begin a new folder (npm start -- --data FOLDER).`,
  )
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
  const { member, owner, admin, outsider, platform_admin: platformAdmin } = accounts
  const members = [member, owner, admin, outsider].map(({ name, email, password, organizations: mine }) => {
    const at = organizations.find((o) => o.org_id === mine[0]?.org_id)?.name
    const label = mine[0]
      ? `${mine[0].role.replace(/^./, (c) => c.toUpperCase())} of ${at}`
      : 'Member of no organization'
    return { label, name, email, password }
  })
  const { name, email, password } = platformAdmin
  return [...members, { label: 'Platform administrator', name, email, password }]
}
