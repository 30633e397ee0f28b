import { createServer, type RequestListener } from 'node:http'
import { serverUrl } from '../../lib/runtime/server-url.ts'

export interface SideServer {
  url: string
  close(): Promise<void>
}

/** Serves requests from inside the cluster, without a host on all addresses. Port 0 picks a free port. Closing drops open connections. */
export async function serveAside(
  listener: RequestListener,
  host: string | undefined,
  port: number,
): Promise<SideServer> {
  const server = createServer({ requestTimeout: 30_000, headersTimeout: 10_000 }, listener)
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  return {
    url: serverUrl(server),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
