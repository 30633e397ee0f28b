import { existsSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Agent, RequestOptions } from 'node:https'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import type { KubeConfig } from '@kubernetes/client-node'
import { kubernetesEnvironment } from '../config.ts'

/** An API server and the client's identity, as currently configured on disk. */
export interface KubeCredentials {
  server: string
  headers: Record<string, string>
  tls: { ca?: unknown; cert?: unknown; key?: unknown; servername?: unknown; rejectUnauthorized?: unknown }
  /** Set when requests go through a proxy. */
  agent?: Agent
}

/** Reads the credentials again on every call: tokens and certificates are rotated on disk. */
export type KubeAccess = () => Promise<KubeCredentials>

interface NamedCluster {
  server?: string
  'certificate-authority'?: string
  'certificate-authority-data'?: string
  'insecure-skip-tls-verify'?: boolean
  'tls-server-name'?: string
}
interface NamedUser {
  'client-certificate'?: string
  'client-certificate-data'?: string
  'client-key'?: string
  'client-key-data'?: string
  token?: string
  tokenFile?: string
}
interface ConfigFile {
  'current-context'?: string
  contexts?: { name: string; context?: { cluster?: string; user?: string } }[]
  clusters?: { name: string; cluster?: NamedCluster }[]
  users?: { name: string; user?: NamedUser | null }[]
}

const SERVICE_ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'
const CLUSTER_FIELDS = [
  'server',
  'certificate-authority',
  'certificate-authority-data',
  'insecure-skip-tls-verify',
  'tls-server-name',
]
const USER_FIELDS = [
  'client-certificate',
  'client-certificate-data',
  'client-key',
  'client-key-data',
  'token',
  'tokenFile',
]

// Loaded lazily: a pod needs neither, and the client alone costs 80 MiB and 0.4 s of CPU.
const load = createRequire(import.meta.url)
const parseYaml = (text: string) => (load('yaml') as typeof import('yaml')).parse(text) as unknown
const client = () => load('@kubernetes/client-node') as typeof import('@kubernetes/client-node')

/**
 * `$KUBECONFIG`, `~/.kube/config` or the pod's service account, in the order of kubectl. Returns the first that names a
 * cluster; throws when none does. Certificates and tokens are read here; all other kubeconfig features (plugins,
 * identity providers, proxies, several files) are left to the client library.
 */
export function defaultKubeAccess(): KubeAccess {
  const { KUBECONFIG = '', KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = kubernetesEnvironment()
  const named = KUBECONFIG.split(delimiter).filter(Boolean)
  const own = join(homedir(), '.kube', 'config')
  const [file, ...more] = named.length > 0 || !existsSync(own) ? named : [own]
  if (file) return (more.length === 0 && accessOfFile(file)) || clientAccess(clientDefault())
  if (host && port && existsSync(join(SERVICE_ACCOUNT, 'token'))) return serviceAccount(host, port)
  throw new Error('No Kubernetes configuration found')
}

/** Access by a configuration of the client library: for tests and for features that only the library supports. */
export function clientAccess(config: KubeConfig): KubeAccess {
  const cluster = config.getCurrentCluster()
  if (!cluster) throw new Error('The Kubernetes configuration names no cluster')
  return async () => {
    const options: RequestOptions = {}
    await config.applyToHTTPSOptions(options)
    const headers = Object.fromEntries(Object.entries(options.headers ?? {}).map(([k, v]) => [k, String(v)]))
    if (options.auth) headers['Authorization'] = `Basic ${Buffer.from(options.auth).toString('base64')}`
    const { ca, cert, key, servername, rejectUnauthorized } = options
    const tls = given({ ca, cert, key, servername, rejectUnauthorized })
    return { server: cluster.server, headers, tls, ...(cluster.proxyUrl && { agent: options.agent as Agent }) }
  }
}

function clientDefault(): KubeConfig {
  const config = new (client().KubeConfig)()
  config.loadFromDefault()
  const server = config.getCurrentCluster()?.server
  if (!server || server === 'http://localhost:8080') throw new Error('No Kubernetes configuration found')
  return config
}

const serviceAccount =
  (host: string, port: string): KubeAccess =>
  async () => {
    const [token, ca] = await Promise.all(['token', 'ca.crt'].map((f) => readFile(join(SERVICE_ACCOUNT, f), 'utf8')))
    const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`
    return { server, headers: { Authorization: `Bearer ${token?.trim()}` }, tls: { ca } }
  }

/** Undefined when the file uses features that only the client library supports. */
function accessOfFile(file: string): KubeAccess | undefined {
  const config = parseConfig(readFileSync(file, 'utf8'))
  const context = config?.contexts?.find((c) => c.name === config['current-context'])?.context
  const cluster = config?.clusters?.find((c) => c.name === context?.cluster)?.cluster
  const user = config?.users?.find((u) => u.name === context?.user)?.user ?? {}
  const server = cluster?.server
  if (!cluster || !server || !hasOnly(cluster, CLUSTER_FIELDS) || !hasOnly(user, USER_FIELDS)) return undefined
  if (!server.startsWith('https:') && !cluster['insecure-skip-tls-verify']) return undefined
  const read = readerFrom(dirname(resolve(file)))
  return async () => {
    const [ca, cert, key, token] = await Promise.all([
      read(cluster['certificate-authority'], cluster['certificate-authority-data']),
      read(user['client-certificate'], user['client-certificate-data']),
      read(user['client-key'], user['client-key-data']),
      user.tokenFile === undefined ? user.token : read(user.tokenFile, undefined),
    ])
    const rejectUnauthorized = cluster['insecure-skip-tls-verify'] ? false : undefined
    return {
      server,
      headers: token === undefined ? {} : { Authorization: `Bearer ${String(token).trim()}` },
      tls: given({ ca, cert, key, servername: cluster['tls-server-name'], rejectUnauthorized }),
    }
  }
}

function parseConfig(text: string): ConfigFile | undefined {
  try {
    return JSON.parse(text) as ConfigFile
  } catch {
    return parseYaml(text) as ConfigFile | undefined
  }
}

const hasOnly = (value: object, fields: readonly string[]) => Object.keys(value).every((k) => fields.includes(k))

/** Reads a file relative to the kubeconfig, or the data embedded in the kubeconfig. */
const readerFrom =
  (folder: string) =>
  async (file: string | undefined, data: string | undefined): Promise<Buffer | undefined> => {
    if (file) return readFile(resolve(folder, file))
    return data ? Buffer.from(data, 'base64') : undefined
  }

const given = (values: KubeCredentials['tls']): KubeCredentials['tls'] =>
  Object.fromEntries(Object.entries(values).filter(([, v]) => v !== undefined && v !== null))
