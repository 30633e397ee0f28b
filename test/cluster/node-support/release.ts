import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { RETENTION_TARGETS } from '../../../crds/retention-rules.ts'
import { eventually } from '../../support/eventually.ts'
import { ensureBinaries } from '../driver/build.ts'
import { runWith, type TestCluster } from '../driver/cluster.ts'
import type { Namespace } from './namespace.ts'
import { storeEnvironment } from './operator.ts'
import type { Owner, Services } from './services.ts'

const CHART = fileURLToPath(new URL('../../../charts/keepsake', import.meta.url))
export const RELEASE = 'reunion'
/** The address of its Service is chosen here: names are resolved for pods, not for who stands beside them. */
const API_ADDRESS = '10.96.100.1'
/** The schedule of a policy that has no run of its own accord: once in four years. */
export const NEVER = '0 0 29 2 *'
export const API_URL = `http://${API_ADDRESS}`

export interface Release {
  /** File with the values of the test. */
  values: string
  /** `helm install` with the values of the test; `more` as for --set. Resolves when the API answers at its Service. */
  install(...more: string[]): Promise<string>
  upgrade(...more: string[]): Promise<string>
  helm(...args: string[]): Promise<string>
}

/** Helm with a home of its own, and values that lead to the servers beside the node. */
export async function prepareRelease(
  owner: Owner,
  cluster: TestCluster,
  namespace: Namespace,
  services: Services,
): Promise<Release> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-release-'))
  owner.teardown(() => rm(folder, { recursive: true, force: true }))
  await makeSecrets(namespace, services)
  const values = join(folder, 'values.json')
  await writeFile(values, JSON.stringify(valuesFor(services)))
  const program = join(await ensureBinaries(), 'helm')
  const homes = { HELM_CACHE_HOME: folder, HELM_CONFIG_HOME: folder, HELM_DATA_HOME: folder }
  const env = { ...homes, KUBECONFIG: cluster.kubeconfig }
  const helm = (...args: string[]) => runWith('', [program, ...args, '--namespace', namespace.name], env)
  const wait = ['--wait', '--timeout', '5m']
  return {
    values,
    helm,
    async install(...more) {
      const said = await helm('install', RELEASE, CHART, '--values', values, ...wait, ...more)
      // Pods are ready a moment before the node's proxy knows the way to them.
      await eventually('the API at its Service', () => fetch(`${API_URL}/health`).then(isOk, () => false))
      return said
    },
    upgrade: (...more) => helm('upgrade', RELEASE, CHART, '--values', values, ...wait, ...more),
  }
}

const isOk = (response: Response) => response.ok
const secret = () => randomBytes(32).toString('base64url')

/** As an administrator makes them beforehand: the chart is told only their names. */
async function makeSecrets(
  namespace: Namespace,
  { databaseUrl, s3, identity, mail, settings }: Services,
): Promise<void> {
  await namespace.secret('database', { DATABASE_URL: databaseUrl })
  await namespace.secret('store', storeEnvironment(s3))
  await namespace.secret('identity', { AUTH_CLIENT_SECRET: identity.clientSecret })
  await namespace.secret('mail', { SMTP_URL: mail.url(), 'ca.pem': mail.ca })
  await namespace.secret('keys', {
    LINK_KEYS: JSON.stringify(settings.linkKeys),
    CURSOR_KEY: settings.cursorKey,
    AUDIT_KEYS: JSON.stringify(settings.auditKeys),
    ERASURE_KEY: secret(),
    PROGRESS_KEY: secret(),
  })
}

const valuesFor = ({ natsUrl, identity, s3 }: Services) => ({
  image: { repository: 'localhost/keepsake', tag: 'dev' },
  database: { existingSecret: 'database' },
  objectStore: { existingSecret: 'store' },
  audit: { existingSecret: 'keys' },
  nats: { url: natsUrl, replicas: 1 },
  auth: {
    issuer: identity.issuer,
    audience: identity.audience,
    jwksUrl: identity.jwksUrl,
    proxy: {
      enabled: true,
      tokenUrl: identity.tokenUrl,
      revocationUrl: identity.revocationUrl,
      clientId: identity.clientId,
      existingSecret: 'identity',
    },
  },
  api: { publicUrl: API_URL, existingSecret: 'keys', service: { clusterIP: API_ADDRESS } },
  mail: { existingSecret: 'mail', from: 'Keepsake <hello@keepsake.example>' },
  worker: {
    // What is repaired after minutes elsewhere is repaired at once here.
    sweepSeconds: 3,
    extraEnv: [
      { name: 'SWEEP_IDLE_SECONDS', value: '2' },
      { name: 'NODE_EXTRA_CA_CERTS', value: '/mail/ca.pem' },
    ],
    extraVolumes: [{ name: 'mail', secret: { secretName: 'mail', items: [{ key: 'ca.pem', path: 'ca.pem' }] } }],
    extraVolumeMounts: [{ name: 'mail', mountPath: '/mail', readOnly: true }],
  },
  operator: { existingSecret: 'keys' },
  // No run of its own accord, whatever the time of day: a test gives those that it looks at a schedule of their own.
  retention: { policies: Object.fromEntries(RETENTION_TARGETS.map((target) => [target, { schedule: NEVER }])) },
  networkPolicies: { objectStore: { cidrs: [`${new URL(s3.endpoint).hostname}/32`] } },
  jobs: { cpu: '100m', memory: '768Mi', scratch: '1Gi' },
})
