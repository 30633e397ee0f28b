import type { Uuid } from '../../lib/contract/ids.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { RevocationsRead } from './revocation-queries.ts'

/** Knows of every sign-in that ended on any replica, or knows that it may not. */
export interface Revocations {
  /** Whether all that ended more than five seconds ago is known here: only then is a cached sign-in as good as the row. */
  isCurrent(): boolean
  /** Seconds since it was last so; undefined before the first time. */
  ageSeconds(): number | undefined
  start(): void
  stop(): Promise<void>
}

export interface RevocationsOptions {
  read(from: bigint | undefined): Promise<RevocationsRead>
  /** Sign-ins of this user have ended; without a user, those of any may have. */
  onRevoked(userId?: Uuid): void
  log: Log
  timing?: Partial<typeof TIMING>
}

const TIMING = { everyMs: 2000, blindMs: 5000 }

/**
 * Reads the table of revocations. A notification comes sooner, and may be lost; a read repeats what transactions may have
 * written since before the last one, so that one that commits late is not missed.
 */
export function watchRevocations({ read, onRevoked, log, timing }: RevocationsOptions): Revocations {
  const { everyMs, blindMs } = { ...TIMING, ...timing }
  let from: bigint | undefined
  /** When the last good read began. */
  let currentAt = Number.NEGATIVE_INFINITY
  /** Told already, of transactions that are read again. */
  let told = new Set<string>()
  let timer: NodeJS.Timeout | undefined
  let blind: NodeJS.Timeout | undefined
  let reading: Promise<void> | undefined
  let isStopped = false

  function take({ horizon, users }: RevocationsRead): void {
    // Another database behind the same address: a restored one counts its transactions anew.
    if (from !== undefined && horizon < from) onRevoked()
    from = horizon
    const again = new Set<string>()
    for (const { txid, userId } of users) {
      const key = `${txid} ${userId}`
      if (!told.has(key)) onRevoked(userId)
      again.add(key)
    }
    told = again
  }

  async function once(): Promise<void> {
    const at = performance.now()
    try {
      take(await read(from))
      currentAt = at
      clearTimeout(blind)
      if (!isStopped) blind = setTimeout(becomeBlind, at + blindMs - performance.now()).unref()
    } catch (error) {
      log.warn({ err: error }, 'could not read which sign-ins have ended')
    }
    if (!isStopped) timer = setTimeout(next, Math.max(0, at + everyMs - performance.now())).unref()
  }

  /** Event streams are checked too, and end where that fails. */
  function becomeBlind(): void {
    onRevoked()
    if (!isStopped) blind = setTimeout(becomeBlind, blindMs).unref()
  }

  function next(): void {
    reading = once()
  }

  return {
    isCurrent: () => performance.now() - currentAt <= blindMs,
    ageSeconds: () => (currentAt < 0 ? undefined : (performance.now() - currentAt) / 1000),
    start: next,
    async stop() {
      isStopped = true
      clearTimeout(timer)
      clearTimeout(blind)
      await reading
    },
  }
}
