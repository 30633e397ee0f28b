import { createHash } from 'node:crypto'
import type { RequestOptions } from 'node:https'
import { KubeConfig } from '@kubernetes/client-node'
import { Agent, type Dispatcher, ProxyAgent } from 'undici'

interface Credentials {
  headers: Record<string, string>
  tls: { ca?: unknown; cert?: unknown; key?: unknown; servername?: unknown; rejectUnauthorized?: unknown }
  readAt: number
}
interface Pools {
  id: string
  calls: Dispatcher
  watches: Dispatcher
}

/** The client reads the CA file from disk whenever it is asked, so it is not asked for every call. */
const CREDENTIALS_FOR_MS = 10_000
const POOL = { keepAliveTimeout: 30_000, headersTimeout: 60_000 }

/**
 * `$KUBECONFIG`, `~/.kube/config` or the pod's service account, in the order of kubectl. Answers with the first that
 * names a cluster; throws when none does, instead of falling back to http://localhost:8080 like the client.
 */
export function defaultKubeConfig(): KubeConfig {
  const config = new KubeConfig()
  config.loadFromDefault()
  const server = config.getCurrentCluster()?.server
  if (!server || server === 'http://localhost:8080') throw new Error('No Kubernetes configuration found')
  return config
}

/**
 * Address, credentials and pooled connections of one API server. The client itself is used only to read the
 * configuration and the credentials: it would open a TLS connection for every call.
 */
export class KubeConnection {
  readonly server: string
  readonly #config: KubeConfig
  #credentials: Credentials | undefined
  #pools: Pools | undefined

  constructor(config: KubeConfig) {
    const cluster = config.getCurrentCluster()
    if (!cluster) throw new Error('The Kubernetes configuration names no cluster')
    this.#config = config
    this.server = cluster.server.replace(/\/$/, '')
  }

  /** Headers and a connection pool for one request. Long-lived watches have a pool of their own. */
  async open(purpose: 'call' | 'watch'): Promise<{ headers: Record<string, string>; dispatcher: Dispatcher }> {
    const credentials = await this.#current()
    const pools = this.#poolsFor(credentials)
    return { headers: credentials.headers, dispatcher: purpose === 'watch' ? pools.watches : pools.calls }
  }

  /** Reads tokens and certificates anew before the next request: for an answer of 401. */
  forgetCredentials(): void {
    this.#credentials = undefined
  }

  async close(): Promise<void> {
    const pools = this.#pools
    this.#pools = undefined
    await Promise.all([pools?.calls.destroy(), pools?.watches.destroy()])
  }

  async #current(): Promise<Credentials> {
    const known = this.#credentials
    if (known && performance.now() - known.readAt < CREDENTIALS_FOR_MS) return known
    const options: RequestOptions = {}
    await this.#config.applyToHTTPSOptions(options)
    const headers = Object.fromEntries(Object.entries(options.headers ?? {}).map(([k, v]) => [k, String(v)]))
    if (options.auth) headers['Authorization'] = `Basic ${Buffer.from(options.auth).toString('base64')}`
    const { ca, cert, key, servername, rejectUnauthorized } = options
    const given = Object.entries({ ca, cert, key, servername, rejectUnauthorized }).filter(([, v]) => v !== undefined)
    this.#credentials = { headers, tls: Object.fromEntries(given), readAt: performance.now() }
    return this.#credentials
  }

  /** New pools when the CA or the client certificate has been rotated; the old ones end with their last request. */
  #poolsFor({ tls }: Credentials): Pools {
    const id = createHash('sha256').update(Object.entries(tls).map(String).join('\0')).digest('base64')
    if (this.#pools?.id === id) return this.#pools
    for (const old of [this.#pools?.calls, this.#pools?.watches]) void old?.close().catch(() => {})
    this.#pools = {
      id,
      calls: this.#dispatcher(tls, { ...POOL, connections: 16 }),
      // The reflector decides when a quiet watch is dead; undici's default of 300 s would cut healthy ones.
      watches: this.#dispatcher(tls, { ...POOL, bodyTimeout: 0 }),
    }
    return this.#pools
  }

  #dispatcher(tls: Credentials['tls'], options: Agent.Options): Dispatcher {
    const how = this.#config.createDispatcherOptions(this.#config.getCurrentCluster(), tls as object)
    switch (how.type) {
      case 'proxy':
        return new ProxyAgent({ ...options, uri: how.uri, requestTls: how.requestTls as object })
      case 'socks':
        throw new Error('A SOCKS proxy to the API server is not supported')
      case 'agent':
        return new Agent({ ...options, connect: how.connect as object })
      case 'none':
        return new Agent(options)
    }
  }
}
