import { connect, type Socket } from 'node:net'

/**
 * How a client leaves: it waits until the server closes the connection, it goes after the first bytes of the answer (or
 * a moment without any), or it is gone as soon as it has sent everything.
 */
export type Leaving = 'wait' | 'end' | 'destroy'

const PATIENCE_MS = 20

/**
 * Sends these bytes, whatever they are, and returns what came back until the connection closed. Rejects when the port
 * has no listener; a connection that the server cuts is no error.
 */
export function sendRaw(port: number, bytes: Buffer | string, leaving: Leaving): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = ''
    let isConnected = false
    const socket = connect(port, '127.0.0.1', () => {
      isConnected = true
      socket.write(bytes, () => leave(socket, leaving))
    })
    socket.setEncoding('latin1').on('data', (text: string) => {
      answer += text
    })
    socket.on('error', (error) => {
      if (!isConnected) reject(error)
    })
    socket.once('close', () => resolve(answer))
  })
}

function leave(socket: Socket, leaving: Leaving): void {
  if (leaving === 'destroy') socket.destroy()
  if (leaving !== 'end') return
  const timer = setTimeout(() => socket.end(), PATIENCE_MS)
  socket.once('data', () => socket.end()).once('close', () => clearTimeout(timer))
}
