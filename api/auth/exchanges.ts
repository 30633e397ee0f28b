import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../lib/runtime/log.ts'
import { openSlots } from '../limits/slots.ts'
import { unavailable } from './identity-provider.ts'

/**
 * The exchanges of refresh tokens of this process. The identity provider uses a token up before it answers, so an exchange
 * runs on when its client waits no longer: without the answer, the session would end.
 */
export interface Exchanges {
  /** Takes one of the requests to the identity provider; undefined where too many are under way. */
  enter(): (() => void) | undefined
  /**
   * The outcome of an exchange. Throws AUTH_UNAVAILABLE where it takes longer than a client is to wait: it runs on, and
   * `onLate` has been called.
   */
  outcome<T>(exchange: Promise<T>, onLate: () => void): Promise<T>
  /** Waits for those that run, also for clients that are gone, and at most so long. Logs how many it leaves. */
  close(ms: number): Promise<void>
}

const ANSWER_MS = 5000
/** Each holds a socket while the identity provider takes its time. */
const MOST = 500

const LATE = Symbol('late')

export function openExchanges(o: { log: Log; answerMs?: number; most?: number }): Exchanges {
  const { log, answerMs = ANSWER_MS, most = MOST } = o
  const slots = openSlots(most)
  const running = new Set<Promise<unknown>>()

  return {
    enter: slots.enter,
    async outcome(exchange, onLate) {
      const ended = exchange.then(
        () => {},
        () => {},
      )
      running.add(ended)
      void ended.then(() => running.delete(ended))
      const inTime = new AbortController()
      const timer = sleep(answerMs, LATE, { signal: inTime.signal }).catch(() => LATE)
      const first = await Promise.race([exchange, timer]).finally(() => inTime.abort())
      if (first !== LATE) return first as Awaited<typeof exchange>
      onLate()
      log.warn('a refresh takes longer than its client waits: it runs on')
      exchange.catch((error: unknown) =>
        log.warn({ err: error }, 'a refresh has failed that its client does not wait for'),
      )
      throw unavailable()
    },
    async close(ms) {
      const end = new AbortController()
      const timer = sleep(Math.max(0, ms), undefined, { signal: end.signal }).catch(() => {})
      await Promise.race([Promise.all(running), timer])
      end.abort()
      // Each may be one whose answer only this process has.
      if (running.size > 0) log.error({ refreshes: running.size }, 'stops before its refreshes have ended')
    },
  }
}
