import { createHash } from 'node:crypto'
import { type AgentOptions, Agent as PlainAgent } from 'node:http'
import { Agent } from 'node:https'
import type { KubeAccess, KubeCredentials } from './access.ts'

/** Server, credentials and connection pool for one request. */
export interface KubeRoute {
  server: URL
  headers: Record<string, string>
  agent: PlainAgent
}

interface Pools {
  id: string
  calls: PlainAgent
  watches: PlainAgent
}

/** client-go caches a token for the same time. */
const CREDENTIALS_FOR_MS = 60_000
const POOL: AgentOptions = { keepAlive: true, keepAliveMsecs: 30_000, scheduling: 'lifo' }
const CALLS: AgentOptions = { ...POOL, maxSockets: 16, timeout: 30_000 }

// Both agents serve one server with one identity. Node's default name is built from all certificates for every request.
class TlsAgent extends Agent {
  override getName(): string {
    return 'server'
  }
}

/** Credentials and connections of one API server. */
export class KubeConnection {
  readonly #access: KubeAccess
  #known: { credentials: KubeCredentials; server: URL; readAt: number } | undefined
  #pools: Pools | undefined

  constructor(access: KubeAccess) {
    this.#access = access
  }

  /** Long-lived watches have a pool of their own. */
  async open(purpose: 'call' | 'watch'): Promise<KubeRoute> {
    if (!this.#known || !this.#pools || performance.now() - this.#known.readAt > CREDENTIALS_FOR_MS) {
      const credentials = await this.#access()
      this.#known = { credentials, server: new URL(credentials.server), readAt: performance.now() }
      this.#pools = this.#poolsFor(credentials)
    }
    const { credentials, server } = this.#known
    const agent = purpose === 'watch' ? this.#pools.watches : this.#pools.calls
    return { server, headers: credentials.headers, agent }
  }

  /** Reads tokens and certificates again before the next request; call it after a 401. */
  forgetCredentials(): void {
    this.#known = undefined
  }

  /** Closes all connections at once. */
  close(): void {
    for (const agent of [this.#pools?.calls, this.#pools?.watches]) agent?.destroy()
    this.#pools = undefined
  }

  /** Makes new pools after a rotation of the CA or the client certificate; running requests finish on the old pools. */
  #poolsFor({ server, tls, agent }: KubeCredentials): Pools {
    const id = createHash('sha256')
      .update(
        Object.entries({ server, ...tls })
          .map(String)
          .join('\0'),
      )
      .digest('base64')
    if (this.#pools?.id === id) return this.#pools
    // The old pools get no more requests, so their idle connections time out.
    if (agent) {
      Object.assign(agent, { keepAlive: true }) // the client library creates agents without keep-alive
      return { id, calls: agent, watches: agent }
    }
    const make = (options: AgentOptions) =>
      server.startsWith('https:') ? new TlsAgent({ ...options, ...(tls as object) }) : new PlainAgent(options)
    return { id, calls: make(CALLS), watches: make(POOL) }
  }
}
