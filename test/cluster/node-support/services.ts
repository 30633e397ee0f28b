import { appendFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { openDatabase } from '../../../api/db/db.ts'
import type { S3Options } from '../../../lib/runtime/object-store/s3-client.ts'
import type { Demo } from '../../../local/demo-file.ts'
import { type IdentityProvider, type IdentityUser, startIdentityProvider } from '../../../local/identity-provider.ts'
import { startEmbeddedPostgres } from '../../../local/postgres.ts'
import { identityUsers, seed } from '../../../local/seeds.ts'
import { openSettings, type Settings } from '../../../local/settings.ts'
import { privateCa } from '../../support/private-ca.ts'
import { quietLog } from '../../support/quiet-log.ts'
import { startNats } from '../../support/services/nats.ts'
import { COLD_CLASS, type GatewayOptions, startRadosGateway } from '../../support/services/radosgw.ts'
import { type SmtpWorld, smtpServer } from '../../support/smtp.ts'

/** What the chart expects to be there already, as real servers beside the node. */
export interface Services {
  databaseUrl: string
  natsUrl: string
  s3: S3Options
  identity: IdentityProvider
  /** With a certificate of an authority of its own. */
  mail: SmtpWorld
  settings: Settings
  /** Whom the identity provider knows. */
  users: IdentityUser[]
  /** Organizations and their people; the database must have its tables. */
  seed(): Promise<Pick<Demo, 'organizations' | 'accounts'>>
}

/** A test, or anything else that tidies up behind itself. */
export interface Owner {
  teardown(done: () => Promise<void>): unknown
}

/** Everything at once, reachable from pods at `address`. */
export async function startServices(owner: Owner, address: string): Promise<Services> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-node-'))
  owner.teardown(() => rm(folder, { recursive: true, force: true }))
  const [databaseUrl, natsUrl, s3, { identity, settings }, mail] = await Promise.all([
    startPostgres(owner, folder, address),
    startJetStream(owner, address),
    startPrivateS3(owner, address, { isTiered: true }),
    startIdentity(owner, folder, address),
    startMail(owner, address),
  ])
  const users = identityUsers(settings)
  return { databaseUrl, natsUrl, s3, identity, mail, settings, users, seed: () => seedThrough(databaseUrl, settings) }
}

/** Ceph's S3 gateway alone, with an empty bucket. */
export const startS3 = (owner: Owner, address: string): Promise<S3Options> => startGateway(owner, address)

/** The same; from pods it is only reached by TLS, and they have to be told whose certificates to accept. */
export async function startPrivateS3(
  owner: Owner,
  address: string,
  { isTiered = false }: Pick<GatewayOptions, 'isTiered'> = {},
): Promise<S3Options> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-ca-'))
  owner.teardown(() => rm(folder, { recursive: true, force: true }))
  const { ca, files } = privateCa(folder, address)
  const s3 = await startGateway(owner, address, { tls: files, isTiered })
  return { ...s3, ca, ...(isTiered && { coldClass: COLD_CLASS }) }
}

async function startGateway(owner: Owner, host: string, more: GatewayOptions = {}): Promise<S3Options> {
  const gateway = installed(await startRadosGateway({ host, ...more }), 'Ceph (radosgw ceph-mon ceph-osd ceph-common)')
  owner.teardown(() => gateway.stop())
  return gateway.s3
}

async function startPostgres(owner: Owner, folder: string, address: string): Promise<string> {
  const dataDir = join(folder, 'postgres')
  const postgres = await startEmbeddedPostgres({ dataDir, listen: address, fast: true, log: quietLog() })
  owner.teardown(() => postgres.stop())
  await appendFile(join(dataDir, 'pg_hba.conf'), 'host all all 0.0.0.0/0 scram-sha-256\n')
  const client = new pg.Client({ connectionString: postgres.url })
  await client.connect()
  await client.query('select pg_reload_conf()')
  await client.end()
  return postgres.url.replace('127.0.0.1', address)
}

async function startJetStream(owner: Owner, address: string): Promise<string> {
  const nats = installed(await startNats(address), 'nats-server')
  owner.teardown(() => nats.stop())
  return nats.url
}

const startMail = (owner: Owner, host: string): Promise<SmtpWorld> =>
  smtpServer({ teardown: (done) => void owner.teardown(async () => void (await done())) }, { host })

async function startIdentity(owner: Owner, folder: string, host: string) {
  const settings = await openSettings(folder, 0)
  const { clientSecret } = settings
  const users = identityUsers(settings)
  const identity = await startIdentityProvider({ port: 0, host, users, dataDir: folder, clientSecret, log: quietLog() })
  owner.teardown(() => identity.close())
  // Only now is it known where tokens come from.
  return { identity, settings: { ...settings, issuer: identity.issuer } }
}

async function seedThrough(url: string, settings: Settings) {
  const log = quietLog()
  const db = openDatabase({ url, role: 'keepsake_worker', statementTimeoutMs: 5000, maxConnections: 2, log })
  try {
    return await seed(db, settings)
  } finally {
    await db.close()
  }
}

function installed<T>(server: T | undefined, what: string): T {
  if (server === undefined) throw new Error(`${what} is not installed; .ci/run installs what the tests need`)
  return server
}
