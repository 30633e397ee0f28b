import { createHash } from 'node:crypto'
import { type AgentOptions, Agent as PlainAgent } from 'node:http'
import { Agent } from 'node:https'
import type { Socket } from 'node:net'
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
// No `timeout`: it sets timers for every request, which costs the operator 5 % of its CPU.
const CALLS: AgentOptions = { ...POOL, maxSockets: 16 }
/**
 * A connection that was idle at two looks in a row is closed, after 10 to 20 s. The other end must not close it first,
 * perhaps just when a request is sent: the API server does after 90 s, load balancers before it after 20 s and more.
 */
const IDLE_LOOK_MS = 10_000

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
  #idleTimer: NodeJS.Timeout | undefined
  /** Free sockets at the last look, and what had been written to each. */
  #idle = new Map<Socket, number>()
  /** Pools in use, and old ones that still have connections. */
  readonly #agents = new Set<PlainAgent>()

  readonly #idleLookMs: number

  constructor(access: KubeAccess, { idleLookMs = IDLE_LOOK_MS } = {}) {
    this.#access = access
    this.#idleLookMs = idleLookMs
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
    clearInterval(this.#idleTimer)
    this.#idleTimer = undefined
    for (const agent of this.#agents) agent.destroy()
    this.#agents.clear()
    this.#pools = undefined
  }

  #closeIdle(): void {
    const { calls, watches } = this.#pools ?? {}
    const idle = new Map<Socket, number>()
    for (const agent of this.#agents) {
      const free = Object.values(agent.freeSockets).flatMap((sockets) => (sockets ?? []) as Socket[])
      for (const socket of free) idle.set(socket, socket.bytesWritten)
      const isOld = agent !== calls && agent !== watches
      if (isOld && free.length === 0 && Object.keys(agent.sockets).length === 0) this.#agents.delete(agent)
    }
    for (const [socket, written] of idle) {
      if (this.#idle.get(socket) !== written) continue
      socket.destroy()
      socket.emit('agentRemove') // after it: the agent takes only a destroyed socket out of its free ones
    }
    this.#idle = idle
  }

  /** Closes the idle connections of these pools from now on. */
  #watchOver(...agents: PlainAgent[]): void {
    for (const agent of agents) this.#agents.add(agent)
    this.#idleTimer ??= setInterval(() => this.#closeIdle(), this.#idleLookMs).unref()
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
    // The old pools get no more requests, so their connections become idle.
    if (agent) {
      Object.assign(agent, { keepAlive: true }) // the client library creates agents without keep-alive
      this.#watchOver(agent)
      return { id, calls: agent, watches: agent }
    }
    const make = (options: AgentOptions) =>
      server.startsWith('https:') ? new TlsAgent({ ...options, ...(tls as object) }) : new PlainAgent(options)
    const [calls, watches] = [make(CALLS), make(POOL)]
    this.#watchOver(calls, watches)
    return { id, calls, watches }
  }
}
