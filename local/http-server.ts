import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Listens, for this machine only if not told otherwise, and returns the port; 0 takes a free one. */
export async function listen(server: Server, port: number, host = '127.0.0.1'): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  return (server.address() as AddressInfo).port
}

/** Lets running requests finish for a second, then cuts them. */
export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeIdleConnections()
  const cut = setTimeout(() => server.closeAllConnections(), 1000)
  await closed
  clearTimeout(cut)
}
