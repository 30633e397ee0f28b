import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Listens on `host`, by default loopback, and returns the port. Port 0 takes a free one. */
export async function listenOnPort(server: Server, port: number, host = '127.0.0.1'): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
  return (server.address() as AddressInfo).port
}

/** Gives running requests one second to finish, then cuts their connections. */
export async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  server.closeIdleConnections()
  const cut = setTimeout(() => server.closeAllConnections(), 1000)
  await closed
  clearTimeout(cut)
}
