import type { Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

export interface ReaderLimits {
  /** The server cuts off a client that reads a response more slowly than this over one whole window. */
  bytesPerSecond: number
  windowMs: number
}

/**
 * Two minutes: a paused player reads nothing, and when it continues it only needs to request the rest by `Range`. A
 * playing player reads far more than this, in bursts that are seconds apart.
 */
export const READER_LIMITS: ReaderLimits = { bytesPerSecond: 16 * 1024, windowMs: 120_000 }

/** Samples per window. */
const SAMPLES = 10

/** The window of a connection so far. */
export interface Reading {
  /** Bytes that the client had read when the window began. */
  taken: number
  samples: number
}

/** A sample of a connection: the bytes that the client has read since the start, and those that wait for it. */
export interface Seen {
  taken: number
  waiting: number
}

/**
 * Judges a connection at each sample. While nothing waits for the client, the client is not the slow side, and its
 * window restarts. `slow`: bytes waited throughout a window in which the client read too few.
 */
export function judgeReader(
  before: Reading | undefined,
  seen: Seen,
  limits: ReaderLimits,
): Reading | undefined | 'slow' {
  if (seen.waiting === 0) return undefined
  if (!before) return { taken: seen.taken, samples: 0 }
  const samples = before.samples + 1
  if (samples < SAMPLES) return { ...before, samples }
  const enough = (limits.bytesPerSecond * limits.windowMs) / 1000
  return seen.taken - before.taken < enough ? 'slow' : { taken: seen.taken, samples: 0 }
}

/** Written bytes that are still in this process wait for the client; the kernel has taken the others. */
const look = ({ bytesWritten, writableLength }: Socket): Seen => ({
  taken: bytesWritten - writableLength,
  waiting: writableLength,
})

/** Connections that carry an event stream now. */
const exempt = new WeakSet<Socket>()

/** Until this response ends: an event stream is slow by nature, and has a limit of its own on what waits for the client. */
export function exemptFromReaderRate(socket: Socket, res: ServerResponse): void {
  exempt.add(socket)
  res.once('close', () => exempt.delete(socket))
}

/**
 * Closes connections whose clients read their responses very slowly: each would hold the buffers of a response, and its
 * connection to the object store, without limit. One timer for all connections, so that a request costs nothing.
 */
export function watchReaders(server: Server, limits: ReaderLimits, onCut: () => void): void {
  const open = new Map<Socket, Reading | undefined>()
  server.on('connection', (socket: Socket) => {
    open.set(socket, undefined)
    socket.once('close', () => open.delete(socket))
  })
  const timer = setInterval(() => {
    for (const [socket, before] of open) {
      if (exempt.has(socket)) {
        open.set(socket, undefined)
        continue
      }
      const reading = judgeReader(before, look(socket), limits)
      if (reading !== 'slow') {
        open.set(socket, reading)
        continue
      }
      onCut()
      socket.destroy()
    }
  }, limits.windowMs / SAMPLES).unref()
  server.once('close', () => clearInterval(timer))
}
