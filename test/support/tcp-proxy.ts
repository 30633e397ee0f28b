import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface TcpProxy {
  port: number
  /** From now on nothing passes and nobody is told, as when a cable is pulled. New connections hang as well. */
  cut(): void
  close(): Promise<void>
}

/** Stands between a client and this server. */
export async function tcpProxy({ hostname, port }: URL): Promise<TcpProxy> {
  const open = new Set<Socket>()
  let isCut = false
  const server = createServer((client) => {
    keep(client)
    if (isCut) return
    const target = keep(connect(Number(port), hostname))
    client.pipe(target)
    target.pipe(client)
    client.once('close', () => !isCut && target.destroy())
    target.once('close', () => !isCut && client.destroy())
  })
  function keep(socket: Socket): Socket {
    open.add(socket)
    return socket.on('error', () => {}).once('close', () => open.delete(socket))
  }
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      isCut = true
      for (const socket of open) socket.unpipe().pause()
    },
    async close() {
      for (const socket of open) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
