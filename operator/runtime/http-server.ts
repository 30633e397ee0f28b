import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface HttpServer {
  /** With the port that was really taken, without a path. */
  url: string
  /** Takes no more connections and ends those that are idle; the rest after `graceMs`. */
  close(graceMs?: number): Promise<void>
}

/** A small HTTP server for machines: short time limits, since no honest request here takes long. */
export async function listen(host: string, port: number, handle: RequestListener): Promise<HttpServer> {
  const server = createServer({ requestTimeout: 10_000, headersTimeout: 5_000, maxHeaderSize: 8192 }, handle)
  server.listen(port, host)
  await once(server, 'listening')
  const { address, port: taken, family } = server.address() as AddressInfo
  const reachable = address === '0.0.0.0' || address === '::' ? '127.0.0.1' : address
  return {
    url: `http://${family === 'IPv6' && reachable === address ? `[${address}]` : reachable}:${taken}`,
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
