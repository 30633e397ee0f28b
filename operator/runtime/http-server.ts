import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { serverUrl } from '../../lib/runtime/server-url.ts'

export interface HttpServer {
  /** With the actual port, without a path. */
  url: string
  /** Stops accepting connections, closes idle ones, and closes the others after `graceMs`. */
  close(graceMs?: number): Promise<void>
}

/**
 * A small HTTP server with short time limits: progress reports, probes and scrapes are all small. Without a host it listens
 * on all addresses.
 */
export async function listen(host: string | undefined, port: number, handle: RequestListener): Promise<HttpServer> {
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000, maxHeaderSize: 8192 }, handle)
  server.listen(port, host)
  await once(server, 'listening')
  return {
    url: serverUrl(server),
    async close(graceMs = 1000) {
      const closed = once(server, 'close')
      server.close()
      server.closeIdleConnections()
      const timer = setTimeout(() => server.closeAllConnections(), graceMs)
      await closed
      clearTimeout(timer)
    },
  }
}
