import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export interface TcpProxy {
  port: number
  /** From now on nothing passes and nobody is told, as when a cable is pulled. New connections hang as well. */
  cut(): void
  /** What the server says on the connections that are open arrives after this time only. */
  hold(ms: number): void
  close(): Promise<void>
}

/** Stands between a client and this server. */
export async function tcpProxy({ hostname, port }: URL): Promise<TcpProxy> {
  const open = new Set<Socket>()
  const pairs = new Set<{ client: Socket; target: Socket }>()
  let isCut = false
  const server = createServer((client) => {
    keep(client)
    if (isCut) return
    const target = keep(connect(Number(port), hostname))
    client.pipe(target)
    target.pipe(client)
    const pair = { client, target }
    pairs.add(pair)
    client.once('close', () => pairs.delete(pair))
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
    hold(ms) {
      const held = [...pairs]
      for (const { client, target } of held) target.unpipe(client).pause()
      setTimeout(() => {
        for (const { client, target } of held) target.pipe(client)
      }, ms)
    },
    async close() {
      for (const socket of open) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
