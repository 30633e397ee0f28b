import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface SwallowingProxy {
  port: number
  /** From now on, what the server says on the connections that are open is lost. */
  swallow(): void
  /** Bytes that were lost. */
  swallowed(): number
  /** Connections that are open. */
  connections(): number
  /** Ends the connections that are open; new ones work. */
  breakConnections(): void
  close(): Promise<void>
}

/** Stands between clients and this server, as a network that breaks with bytes on their way. */
export async function swallowingProxy({ hostname, port }: URL): Promise<SwallowingProxy> {
  const open = new Set<Socket>()
  const deaf = new Set<Socket>()
  let lost = 0
  const server = createServer((client) => {
    const target = connect(Number(port), hostname)
    open.add(client)
    client.pipe(target)
    target.on('data', (bytes) => {
      if (deaf.has(client)) lost += bytes.length
      else client.write(bytes)
    })
    for (const [one, other] of [
      [client, target],
      [target, client],
    ] as const) {
      one.on('error', () => {})
      one.once('close', () => other.destroy())
    }
    client.once('close', () => open.delete(client))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const breakConnections = () => {
    for (const client of open) client.destroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    swallow() {
      for (const client of open) deaf.add(client)
    },
    swallowed: () => lost,
    connections: () => open.size,
    breakConnections,
    async close() {
      breakConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
