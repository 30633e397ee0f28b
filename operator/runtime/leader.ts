import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Cluster,
  ClusterError,
  isClusterError,
  type KubeObject,
  LEASES,
  type ObjectKey,
} from '../../lib/runtime/kube/cluster.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { microTime } from './micro-time.ts'

interface LeaseSpec {
  holderIdentity?: string
  leaseDurationSeconds?: number
  acquireTime?: string
  renewTime?: string
  leaseTransitions?: number
}
interface Lease extends KubeObject {
  spec?: LeaseSpec
}

export interface LeaderOptions {
  cluster: Pick<Cluster, 'get' | 'create' | 'replace'>
  lease: ObjectKey
  /** Must be unique to this process: two processes with the same identity would both lead. */
  identity: string
  log: Log
  leaseDurationMs?: number
  renewDeadlineMs?: number
  retryPeriodMs?: number
  /** Wall clock, for the times written to the Lease, never for decisions. */
  now?: () => Date
  /** For decisions: a wall clock that jumps must not make this process take or keep a lease. */
  monotonicMs?: () => number
}

export interface Leadership {
  /** Resolves when this process leads; rejects with AbortError when resign() comes first. */
  readonly acquired: Promise<void>
  /** Aborted when the lease is lost or released. */
  readonly signal: AbortSignal
  /** Resolves when the lease is lost other than by resign(): the process must end. */
  readonly lost: Promise<void>
  /** True while the last renewal is younger than the renewal deadline, so it is false after the process was frozen. */
  isLeading(): boolean
  /** Stops the election and releases a held lease, so that the next leader need not wait. Call after all work ended. */
  resign(): Promise<void>
}

const JITTER = 1.2
/** Retry periods between successful renewals; four of five tries within the deadline may still fail. */
const RENEW_EVERY = 2

/**
 * Leader election on a Lease, as in client-go: 15 s duration, 10 s renew deadline, a try every 2 s (every 4 s while
 * renewals succeed, because the lease is all that an idle operator writes). This process measures the age of another
 * leader's lease from when it saw the lease change, so the clocks of nodes need not agree.
 */
export function seekLeadership(options: LeaderOptions): Leadership {
  const { cluster, lease, identity, log } = options
  const { leaseDurationMs = 15_000, renewDeadlineMs = 10_000, retryPeriodMs = 2_000 } = options
  const now = options.now ?? (() => new Date())
  const monotonic = options.monotonicMs ?? (() => performance.now())
  const stopping = new AbortController()
  const leading = new AbortController()
  const acquired = Promise.withResolvers<void>()
  const lost = Promise.withResolvers<void>()
  acquired.promise.catch(() => {}) // callers need not wait for it: no unhandled rejection
  let observed: { text: string; at: number; durationMs: number } | undefined
  let holder: string | undefined
  let held: Lease | undefined
  let renewedAt = Number.NEGATIVE_INFINITY

  const isLeading = () => held !== undefined && !leading.signal.aborted && monotonic() - renewedAt < renewDeadlineMs

  /** One try. True: this process holds the lease, counted from the moment the request was *sent*. */
  async function tryOnce(): Promise<boolean> {
    const sentAt = monotonic()
    const seen = await cluster.get<Lease>(LEASES, lease)
    if (seen && !isFree(seen)) return false
    try {
      held = await (seen ? cluster.replace<Lease>(LEASES, claimOf(seen)) : cluster.create<Lease>(LEASES, claimOf()))
    } catch (error) {
      if (isClusterError(error, 'Conflict') || isClusterError(error, 'AlreadyExists')) return false // lost the race
      throw error
    }
    renewedAt = Math.max(renewedAt, sentAt) // the answer to an older try may arrive after a newer one's
    return true
  }

  /** One write guarded by the version of the previous one. Reads the lease only when another process has written it. */
  async function renewOnce(): Promise<boolean> {
    const sentAt = monotonic()
    const ours = held
    if (!ours) return tryOnce()
    try {
      held = await cluster.replace<Lease>(LEASES, claimOf(ours))
    } catch (error) {
      if (isClusterError(error, 'Conflict') || isClusterError(error, 'NotFound')) return tryOnce()
      throw error
    }
    renewedAt = Math.max(renewedAt, sentAt)
    return true
  }

  /** True when this process holds the lease, when nothing holds it, or when it did not change for its duration. */
  function isFree(seen: Lease): boolean {
    const { holderIdentity, leaseDurationSeconds } = seen.spec ?? {}
    holder = holderIdentity
    const text = JSON.stringify([seen.metadata.uid, seen.spec])
    const durationMs = leaseDurationSeconds ? leaseDurationSeconds * 1000 : leaseDurationMs
    if (observed?.text !== text) observed = { text, at: monotonic(), durationMs }
    if (!holderIdentity || holderIdentity === identity) return true
    return monotonic() - observed.at >= durationMs
  }

  function claimOf(seen?: Lease): Lease {
    const time = microTime(now())
    const old = seen?.spec ?? {}
    const isOurs = old.holderIdentity === identity
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      ...seen,
      metadata: seen?.metadata ?? lease,
      spec: {
        ...old,
        holderIdentity: identity,
        leaseDurationSeconds: Math.max(1, Math.ceil(leaseDurationMs / 1000)),
        acquireTime: isOurs && old.acquireTime ? old.acquireTime : time,
        renewTime: time,
        leaseTransitions: (old.leaseTransitions ?? 0) + (isOurs || !seen ? 0 : 1),
      },
    }
  }

  /** A try of at most `limitMs`: a hanging call must not hide that the lease has expired. */
  async function attempt(once: () => Promise<boolean>, limitMs: number): Promise<boolean> {
    const done = new AbortController()
    const late = sleep(limitMs, undefined, { signal: done.signal }).then(
      () => Promise.reject(new ClusterError('Unavailable', 'no answer in time')),
      () => false,
    )
    try {
      return await Promise.race([once(), late])
    } catch (error) {
      log.warn({ err: error, lease }, 'leader election: no answer')
      return false
    } finally {
      done.abort()
    }
  }

  const pause = (ms: number) => sleep(ms, undefined, { signal: stopping.signal }).catch(() => {})

  async function acquire(): Promise<void> {
    while (!stopping.signal.aborted) {
      if (await attempt(tryOnce, renewDeadlineMs)) return
      await pause(Math.min(retryPeriodMs * (1 + Math.random() * JITTER), expiresInMs()))
    }
  }

  /** Milliseconds until another leader's lease expires if it is not renewed. */
  function expiresInMs(): number {
    if (!observed) return retryPeriodMs
    const leftMs = observed.at + observed.durationMs - monotonic()
    return leftMs > 0 ? leftMs : retryPeriodMs
  }

  /** Returns when the lease is lost or resign() was called. */
  async function keep(): Promise<void> {
    while (!stopping.signal.aborted) {
      // Wait longer after a successful renewal than after a failed one.
      const isFresh = monotonic() - renewedAt < retryPeriodMs
      await pause(isFresh ? RENEW_EVERY * retryPeriodMs : retryPeriodMs)
      if (stopping.signal.aborted) return
      if (!(await renew())) return
    }
  }

  /** False when the lease has expired or another process holds it. A failed try before that is not a loss. */
  async function renew(): Promise<boolean> {
    const left = renewDeadlineMs - (monotonic() - renewedAt)
    if (left <= 0) return false
    if (await attempt(renewOnce, left)) return true
    const isTaken = holder !== undefined && holder !== identity
    return !isTaken && monotonic() - renewedAt < renewDeadlineMs
  }

  async function run(): Promise<void> {
    await acquire()
    if (stopping.signal.aborted) return
    log.info({ lease, identity }, 'leading')
    acquired.resolve()
    await keep()
    if (stopping.signal.aborted) return
    leading.abort(new Error('the lease is lost'))
    log.error({ lease, identity }, 'lost the lease')
    lost.resolve()
  }
  const running = run()

  async function release(): Promise<void> {
    const current = held
    if (!current || !isLeading()) return
    const { holderIdentity: _, acquireTime: __, ...spec } = current.spec ?? {}
    const free = { ...spec, leaseDurationSeconds: 1, renewTime: microTime(now()) }
    try {
      await cluster.replace<Lease>(LEASES, { ...current, spec: free })
    } catch (error) {
      log.warn({ err: error, lease }, 'could not release the lease; it will expire')
    }
  }

  return {
    acquired: acquired.promise,
    signal: leading.signal,
    lost: lost.promise,
    isLeading,
    async resign() {
      stopping.abort()
      await running
      await release()
      leading.abort(new Error('resigned'))
      acquired.reject(stopping.signal.reason)
    },
  }
}
