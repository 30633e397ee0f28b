import type { ServerResponse } from 'node:http'
import type { Uuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import { inSlices } from '../../lib/runtime/in-slices.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { MAX_EVENT_STREAMS_PER_USER } from '../limits/capacity.ts'
import { type EventStream, type Opening, retryOf, type StreamEnd, spread } from '../requests/event-stream.ts'
import { exemptFromReaderRate } from './reader-rate.ts'

export interface OpenOptions {
  userId: Uuid
  /** Unix seconds: the token is refused from then on. */
  validUntil: number | undefined
  /** Throws Problem UNAUTHORIZED when the token is no longer valid. */
  check(): Promise<unknown>
  res: ServerResponse
  opening: Opening
}

/** A stream that is about to open, and counts already. */
export interface Place {
  open(o: OpenOptions): void
  /** After an open it has no effect. */
  leave(): void
}

/** All event streams of this process. */
export interface EventStreams {
  /** Throws Problem SERVICE_UNAVAILABLE while there are too many, or the server stops. */
  enter(): Place
  /** What this user may see, or every user, may have changed: their tokens are checked again. */
  recheck(userId?: Uuid): void
  open(): number
  /** Ends all streams in good order, and those that do not take their end by force. Resolves when none is left. */
  close(): Promise<void>
}

export interface EventStreamsOptions {
  /** Streams of this process. */
  most: number
  log: Log
  /** True while the server stops. */
  closing(): boolean
  onRefused(): void
  onEnded(why: StreamEnd | 'left'): void
  timing?: Partial<typeof TIMING>
}

const TIMING = {
  /** nginx and others close a connection that was silent for a minute. */
  heartbeatMs: 15_000,
  /** A phone that vanished is noticed at the latest by the end of its stream. */
  lifeMs: 15 * 60_000,
  /** Streams that began together must not come back together. */
  lifeJitter: 0.1,
  tickMs: 1000,
  /** For a client to take the end. */
  endMs: 5000,
  /** The same while the server stops. */
  drainMs: 300,
}
/** A client that leaves so much unread is cut off: it resumes by `Last-Event-ID`. */
export const MAX_UNREAD_BYTES = 64 * 1024
const SLICE = 200
const KEEP_ALIVE_MS = 30_000
const RECHECKS_AT_ONCE = 4

const HEAD = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-store, no-transform',
  // nginx would collect the events of minutes otherwise.
  'X-Accel-Buffering': 'no',
}

/** Sends the head of an answer without its events, for HEAD. */
export const sendStreamHead = (res: ServerResponse): void => void res.writeHead(200, HEAD).end()

const HEARTBEAT = ':\n\n'
function lastWords(why: StreamEnd): string {
  if (why === 'replaced') return 'event: replaced\ndata: {}\n\n'
  // All clients of a server that stops come back to the others.
  const retry = why === 'drain' ? retryOf(500, 5000) : retryOf(200, 2000)
  return `${retry}event: bye\ndata: ${JSON.stringify({ reason: why })}\n\n`
}

/** A stream, as this process keeps it. */
interface Open extends EventStream {
  device: string | undefined
  /** What its age calls for. */
  tick(now: number): void
  /** Ends it unless its token is still valid. */
  recheck(): Promise<void>
  cut(): void
  ended(): StreamEnd | undefined
  closed(): void
}

type Timing = typeof TIMING

/** Sends the head. */
function openStream({ userId, validUntil, check, res, opening }: OpenOptions, timing: Timing): Open {
  const now = performance.now()
  const life = timing.lifeMs * (1 - timing.lifeJitter * Math.random())
  const tokenLife = validUntil === undefined ? Number.POSITIVE_INFINITY : validUntil * 1000 - Date.now()
  const endsAt = now + Math.min(life, tokenLife)
  const closers: (() => void)[] = []
  const accessors: (() => void)[] = []
  let lastWrite = now
  let ended: { why: StreamEnd; at: number } | undefined

  const { socket } = res
  socket?.setKeepAlive(true, KEEP_ALIVE_MS)
  if (socket) exemptFromReaderRate(socket, res)
  res.writeHead(200, HEAD)

  const isOpen = () => ended === undefined && !res.closed
  function cut(): void {
    ended ??= { why: 'slow', at: performance.now() }
    res.destroy()
  }
  function send(events: string): void {
    if (!isOpen()) return
    if (res.writableLength > MAX_UNREAD_BYTES) {
      cut()
      return
    }
    lastWrite = performance.now()
    res.write(events)
  }
  function end(why: StreamEnd): void {
    if (!isOpen()) return
    ended = { why, at: performance.now() }
    res.end(lastWords(why))
  }

  return {
    userId,
    device: opening.device,
    get isOpen() {
      return isOpen()
    },
    send,
    end,
    cut,
    ended: () => ended?.why,
    onClose: (then) => void closers.push(then),
    onAccess: (then) => void accessors.push(then),
    closed() {
      for (const then of closers) then()
    },
    tick(at) {
      if (ended && at - ended.at > timing.endMs) res.destroy()
      else if (at >= endsAt) end(tokenLife < life ? 'expired' : 'age')
      else if (at - lastWrite >= timing.heartbeatMs) send(HEARTBEAT)
    },
    async recheck() {
      try {
        await check()
      } catch (error) {
        const isRefused = error instanceof Problem && error.code === 'UNAUTHORIZED'
        // A client that cannot be checked any more comes back, and is checked then.
        return end(isRefused ? 'revoked' : 'unverified')
      }
      if (isOpen()) for (const then of accessors) then()
    },
  }
}

/** One timer for all streams. Nothing here waits for a client: what it does not take in time, it loses. */
export function openEventStreams(o: EventStreamsOptions): EventStreams {
  const timing = { ...TIMING, ...o.timing }
  // A Set keeps the order of insertion: the first stream of a user is always the oldest.
  const all = new Set<Open>()
  const byUser = new Map<Uuid, Set<Open>>()
  let entered = 0
  let isClosing = false
  let timer: NodeJS.Timeout | undefined
  let whenEmpty: (() => void) | undefined

  function start({ userId, validUntil, check, res, opening }: OpenOptions, leave: () => void): void {
    const it = openStream({ userId, validUntil, check, res, opening }, timing)
    const own = byUser.get(userId) ?? new Set()
    byUser.set(userId, own)
    for (const other of makeRoom([...own], it.device)) other.end('replaced')
    own.add(it)
    all.add(it)
    res.once('close', () => {
      own.delete(it)
      if (own.size === 0 && byUser.get(userId) === own) byUser.delete(userId)
      all.delete(it)
      leave()
      o.onEnded(it.ended() ?? 'left')
      it.closed()
      if (all.size === 0) stopTimer()
    })
    timer ??= setInterval(tick, timing.tickMs).unref()
    opening.begin(it)
    if (isClosing) it.end('drain')
  }

  function stopTimer(): void {
    clearInterval(timer)
    timer = undefined
    whenEmpty?.()
  }

  function tick(): void {
    const now = performance.now()
    void inSlices([...all], SLICE, (one) => one.tick(now))
  }

  async function recheck(streams: Open[]): Promise<void> {
    const next = async () => {
      for (let one = streams.pop(); one; one = streams.pop()) if (one.isOpen) await one.recheck()
    }
    await Promise.all(Array.from({ length: RECHECKS_AT_ONCE }, next))
  }

  return {
    enter() {
      if (o.closing() || entered >= o.most) {
        o.onRefused()
        const message = 'Too many clients follow changes at the moment. Please try again.'
        throw new Problem('SERVICE_UNAVAILABLE', message, { retryAfter: spread(2, 10) })
      }
      entered += 1
      let isHeld = true
      const leave = () => {
        if (isHeld) entered -= 1
        isHeld = false
      }
      let isOpen = false
      return {
        open(options) {
          isOpen = true
          // A client that left meanwhile closes nothing any more.
          if (options.res.closed || options.res.destroyed) return leave()
          start(options, leave)
        },
        leave() {
          if (!isOpen) leave()
        },
      }
    },
    recheck(userId) {
      const streams = userId === undefined ? [...all] : [...(byUser.get(userId) ?? [])]
      recheck(streams.reverse()).catch((error: unknown) => o.log.error({ err: error }, 'could not check streams again'))
    },
    open: () => all.size,
    async close() {
      isClosing = true
      const cut = setTimeout(() => {
        for (const one of all) one.cut()
      }, timing.drainMs)
      const empty = new Promise<void>((resolve) => {
        whenEmpty = resolve
        if (all.size === 0) resolve()
      })
      await inSlices([...all], SLICE, (one) => one.end('drain'))
      await empty
      clearTimeout(cut)
    },
  }
}

/** Those of a user's open streams, oldest first, that a new one of this device replaces. */
export function makeRoom<T extends { device: string | undefined; isOpen: boolean }>(
  own: readonly T[],
  device: string | undefined,
): T[] {
  const open = own.filter((one) => one.isOpen)
  const same = device === undefined ? [] : open.filter((one) => one.device === device)
  const others = open.filter((one) => !same.includes(one))
  return [...same, ...others.slice(0, Math.max(0, others.length + 1 - MAX_EVENT_STREAMS_PER_USER))]
}
