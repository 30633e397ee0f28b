import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface SideServer {
  url: string
  close(): Promise<void>
}

/** Serves requests from inside the cluster. Port 0 picks a free port. Closing drops open connections. */
export async function serveAside(listener: RequestListener, host: string, port: number): Promise<SideServer> {
  const server = createServer({ requestTimeout: 30_000, headersTimeout: 10_000 }, listener)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const name = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host
  return {
    url: `http://${name}:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
