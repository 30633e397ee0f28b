import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Problem } from '../../lib/contract/problem.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { serverUrl } from '../../lib/runtime/server-url.ts'
import { plainAddress } from './client-address.ts'
import { READER_LIMITS, type ReaderLimits, watchReaders } from './reader-rate.ts'
import {
  MAX_HEADER_BYTES,
  missingHost,
  newRequestId,
  refuse,
  refuseConnection,
  unreadProblem,
} from './unread-request.ts'

export interface OpenServer {
  /** Without a host on all addresses. Port 0 selects a free port. */
  listen(host: string | undefined, port: number): Promise<void>
  url(): string
  /** Accepts no new connections, waits up to `finishMs` for running requests, then closes all connections. */
  close(finishMs: number): Promise<void>
}

// A chunk of 64 MiB over a slow line takes minutes; headers do not. Load balancers keep idle connections for 60 s;
// this server must keep them longer.
const LIMITS = {
  requestTimeout: 900_000,
  headersTimeout: 30_000,
  keepAliveTimeout: 75_000,
  maxHeaderSize: MAX_HEADER_BYTES,
  connectionsCheckingInterval: 5000,
  // Checked below, so that the response to a missing Host is the problem envelope.
  requireHostHeader: false,
}
/** A connection opened just before the end may have its request still in transit. */
const UNUSED_MS = 500

export interface ServerOptions {
  log: Log
  /** Overrides of the production limits. */
  limits?: Partial<typeof LIMITS>
  readers?: ReaderLimits
}

/** Serves HTTP/1.1. The response to an unreadable request is the problem envelope too. */
export function openServer(listener: RequestListener, { log, limits, readers }: ServerOptions): OpenServer {
  const serve: RequestListener = (req, res) => {
    const problem = missingHost(req)
    if (problem) refuse(res, problem, noted(log, problem, req.socket))
    else listener(req, res)
  }
  const server = createServer({ ...LIMITS, ...limits }, serve)
  watchReaders(server, readers ?? READER_LIMITS, () => log.warn('the client reads the response too slowly'))
  // Node would respond to an unknown expectation with a bare 417. RFC 9110 §10.1.1 allows a server to ignore it.
  server.on('checkExpectation', serve)
  server.on('connect', (_req, socket) => {
    const problem = new Problem('METHOD_NOT_ALLOWED', 'This server is not a proxy', { headers: { Allow: '' } })
    refuseConnection(socket, problem, noted(log, problem, socket))
  })
  // closeIdleConnections() keeps connections that never sent anything: one would delay the end by half a minute.
  const running = new Map<Duplex, Set<ServerResponse>>()
  const afterClose = new WeakMap<ServerResponse, () => void>()
  server.on('connection', (socket: Socket) => {
    running.set(socket, new Set())
    socket.once('close', () => running.delete(socket))
  })
  server.on('request', (req, res) => {
    const responses = running.get(req.socket)
    responses?.add(res)
    res.once('close', () => {
      responses?.delete(res)
      afterClose.get(res)?.()
    })
  })
  const refused = new WeakSet<Duplex>()
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // Ignore what arrives after the first error.
    if (refused.has(socket)) return
    refused.add(socket)
    const { broken, earlier } = lastOf([...(running.get(socket) ?? [])])
    const end = () => {
      const problem = unreadProblem(error)
      // A connection that was opened in advance and never used closes without a response.
      const unused = (socket as Socket).bytesRead === 0
      if (!problem || unused || broken?.headersSent || !socket.writable) return void socket.destroy()
      const known = broken?.getHeader('x-request-id') as string | undefined
      refuseConnection(socket, problem, noted(log, problem, socket, { known, reason: error.code }))
    }
    // Not a listener of its own: a response that streams a file has as many as Node allows before it warns of a leak.
    if (earlier) afterClose.set(earlier, end)
    else end()
  })
  const closeUnused = () => {
    for (const [socket, responses] of running) if (responses.size === 0) socket.destroy()
  }

  return {
    listen(host, port) {
      return new Promise((resolve, reject) => {
        server.once('error', reject).listen(port, host, () => {
          server.off('error', reject)
          resolve()
        })
      })
    },
    url: () => serverUrl(server),
    async close(finishMs) {
      if (!server.listening) return
      const started = performance.now()
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()))
      const timer = setInterval(() => {
        const waited = performance.now() - started
        if (waited >= finishMs) server.closeAllConnections()
        else if (waited >= UNUSED_MS) closeUnused()
        // Connections whose last response ended since, such as those of event streams.
        else server.closeIdleConnections()
      }, 50)
      await closed
      clearInterval(timer)
    },
  }
}

/**
 * The response whose request cannot be read to its end, if there is one, and the last of those to earlier requests on the
 * same connection, which go out first: the client would take an earlier refusal for one of them.
 */
function lastOf(responses: ServerResponse[]): {
  broken?: ServerResponse | undefined
  earlier?: ServerResponse | undefined
} {
  const broken = responses.at(-1)?.req.complete ? undefined : responses.at(-1)
  return { broken, earlier: broken ? responses.at(-2) : responses.at(-1) }
}

/** Logs a refusal that the access log does not see, and returns the id of the request. */
function noted(
  log: Log,
  problem: Problem,
  socket: Duplex,
  o: { known?: string | undefined; reason?: string | undefined } = {},
): string {
  const request_id = o.known ?? newRequestId()
  const { remoteAddress } = socket as Socket
  const ip = remoteAddress && plainAddress(remoteAddress)
  log.info({ request_id, status: problem.status, code: problem.code, reason: o.reason, ip }, 'request refused unread')
  return request_id
}
