import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Problem } from '../../lib/contract/problem.ts'
import type { Log } from '../../lib/runtime/log.ts'
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
  /** Port 0 takes a free one. */
  listen(host: string, port: number): Promise<void>
  url(): string
  /** Accepts nothing new, lets running requests finish for as long as given, then cuts what is left. */
  close(finishMs: number): Promise<void>
}

// A chunk of 64 MiB over a slow line takes minutes; headers do not. Idle connections outlive a load balancer's (60 s).
const LIMITS = {
  requestTimeout: 900_000,
  headersTimeout: 30_000,
  keepAliveTimeout: 75_000,
  maxHeaderSize: MAX_HEADER_BYTES,
  connectionsCheckingInterval: 5000,
  // Checked below, so that its lack is answered with the problem envelope.
  requireHostHeader: false,
}
/** A connection may have been made just before the end, with its request still under way. */
const UNUSED_MS = 500

export interface ServerOptions {
  log: Log
  /** In place of those of production. */
  limits?: Partial<typeof LIMITS>
  readers?: ReaderLimits
}

/** Serves HTTP/1.1. Whatever cannot be read as a request is answered with the problem envelope too. */
export function openServer(listener: RequestListener, { log, limits, readers }: ServerOptions): OpenServer {
  const serve: RequestListener = (req, res) => {
    const problem = missingHost(req)
    if (problem) refuse(res, problem, noted(log, problem, req.socket))
    else listener(req, res)
  }
  const server = createServer({ ...LIMITS, ...limits }, serve)
  watchReaders(server, readers ?? READER_LIMITS, () => log.warn('an answer is read too slowly'))
  // Node would answer an expectation that it does not know with 417 and nothing else. RFC 9110 §10.1.1 lets us ignore it.
  server.on('checkExpectation', serve)
  server.on('connect', (_req, socket) => {
    const problem = new Problem('METHOD_NOT_ALLOWED', 'This server is no proxy', { headers: { Allow: '' } })
    refuseConnection(socket, problem, noted(log, problem, socket))
  })
  // closeIdleConnections() keeps those that never sent anything: such a one would hold the end up for half a minute.
  const running = new Map<Duplex, Set<ServerResponse>>()
  server.on('connection', (socket: Socket) => {
    running.set(socket, new Set())
    socket.once('close', () => running.delete(socket))
  })
  server.on('request', (req, res) => {
    const responses = running.get(req.socket)
    responses?.add(res)
    res.once('close', () => responses?.delete(res))
  })
  const refused = new WeakSet<Duplex>()
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // What arrives after the first mistake is dropped.
    if (refused.has(socket)) return
    refused.add(socket)
    afterEarlier([...(running.get(socket) ?? [])], (response) => {
      const problem = unreadProblem(error)
      // A connection that was only opened in advance closes without a word.
      const unused = (socket as Socket).bytesRead === 0
      if (!problem || unused || response?.headersSent || !socket.writable) return void socket.destroy()
      const known = response?.getHeader('x-request-id') as string | undefined
      refuseConnection(socket, problem, noted(log, problem, socket, { known, reason: error.code }))
    })
  })
  const closeUnused = () => {
    for (const [socket, responses] of running) if (responses.size === 0) socket.destroy()
  }
  let host = ''

  return {
    listen(name, port) {
      host = name
      return new Promise((resolve, reject) => {
        server.once('error', reject).listen(port, name, () => {
          server.off('error', reject)
          resolve()
        })
      })
    },
    url() {
      const name = ['0.0.0.0', '::'].includes(host) ? '127.0.0.1' : host
      return `http://${name}:${(server.address() as AddressInfo).port}`
    },
    async close(finishMs) {
      if (!server.listening) return
      const started = performance.now()
      const closed = new Promise<void>((resolve) => void server.close(() => resolve()))
      const timer = setInterval(() => {
        const waited = performance.now() - started
        if (waited >= finishMs) server.closeAllConnections()
        else if (waited >= UNUSED_MS) closeUnused()
      }, 50)
      await closed
      clearInterval(timer)
    },
  }
}

/**
 * Calls back with the response whose request cannot be read to its end, if there is one. Responses to earlier requests on
 * the same connection go out first: a refusal in their place would be taken for their answer.
 */
function afterEarlier(responses: ServerResponse[], then: (response?: ServerResponse) => void): void {
  const broken = responses.at(-1)?.req.complete ? undefined : responses.at(-1)
  const earlier = broken ? responses.at(-2) : responses.at(-1)
  if (earlier) earlier.once('close', () => then(broken))
  else then(broken)
}

/** Logs a refusal that no access log sees, and returns the id of the request. */
function noted(
  log: Log,
  problem: Problem,
  socket: Duplex,
  o: { known?: string | undefined; reason?: string | undefined } = {},
): string {
  const request_id = o.known ?? newRequestId()
  const ip = (socket as Socket).remoteAddress
  log.info({ request_id, status: problem.status, code: problem.code, reason: o.reason, ip }, 'request refused unread')
  return request_id
}
