import type { Server } from 'node:http'
import type { Socket } from 'node:net'

export interface ReaderLimits {
  /** A client that takes an answer more slowly than this over one whole window is cut off. */
  bytesPerSecond: number
  windowMs: number
}

/**
 * Two minutes: a player that is paused reads nothing, and needs no more than a request for the rest, by `Range`, when it
 * goes on. A player that plays takes far more than this, in bursts that are seconds apart.
 */
export const READER_LIMITS: ReaderLimits = { bytesPerSecond: 16 * 1024, windowMs: 120_000 }

/** How often per window we look. */
const SAMPLES = 10

/** The window of a connection so far. */
export interface Reading {
  /** Bytes the client had taken when the window began. */
  taken: number
  samples: number
}

/** What is seen of a connection: the bytes that the client has taken since the beginning, and those that wait for it. */
export interface Seen {
  taken: number
  waiting: number
}

/**
 * Judges a connection at each sample. While nothing waits for the client it is not the slow side, and its window begins
 * anew. `slow`: bytes waited throughout a window, in which it took too few.
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

/** Bytes that have been written and are still in this process wait for the client; the others the kernel has taken. */
const look = ({ bytesWritten, writableLength }: Socket): Seen => ({
  taken: bytesWritten - writableLength,
  waiting: writableLength,
})

/**
 * Cuts connections whose clients take their answers drop by drop: each would hold an answer's buffers, and its connection
 * to the store, for as long as it likes. One timer for all, so that a request costs nothing.
 */
export function watchReaders(server: Server, limits: ReaderLimits, onCut: () => void): void {
  const open = new Map<Socket, Reading | undefined>()
  server.on('connection', (socket: Socket) => {
    open.set(socket, undefined)
    socket.once('close', () => open.delete(socket))
  })
  const timer = setInterval(() => {
    for (const [socket, before] of open) {
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
