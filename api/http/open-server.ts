import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

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
  maxHeaderSize: 16 * 1024,
  connectionsCheckingInterval: 5000,
}
/** A connection may have been made just before the end, with its request still under way. */
const UNUSED_MS = 500

export function openServer(listener: RequestListener): OpenServer {
  const server = createServer(LIMITS, listener)
  // closeIdleConnections() keeps those that never sent anything: such a one would hold the end up for half a minute.
  const running = new Map<Socket, number>()
  const count = (socket: Socket, change: number) => {
    const before = running.get(socket)
    if (before !== undefined) running.set(socket, before + change)
  }
  server.on('connection', (socket: Socket) => {
    running.set(socket, 0)
    socket.once('close', () => running.delete(socket))
  })
  server.on('request', (req, res) => {
    count(req.socket, 1)
    res.once('close', () => count(req.socket, -1))
  })
  const closeUnused = () => {
    for (const [socket, requests] of running) if (requests === 0) socket.destroy()
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
