import { createLocalJWKSet, errors, type JSONWebKeySet, type JWTVerifyGetKey } from 'jose'
import * as z from 'zod'
import { Problem } from '../../lib/contract/problem.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { askUpstream, UpstreamError } from './upstream.ts'

const SECOND = 1000
const REFRESH_MS = 300 * SECOND
const RETRY_MS = 30 * SECOND
const UNKNOWN_KID_MS = 30 * SECOND
const NO_KEYS_MS = 2 * SECOND
const STALE_MS = 24 * 3600 * SECOND

/** Stores the last valid keys, so that they survive a restart. */
export interface KeyCache {
  load(): Promise<{ jwks: unknown; fetchedAt: Date } | undefined>
  save(jwks: JSONWebKeySet, fetchedAt: Date): Promise<void>
}

/** The identity provider's public keys. They stay valid for a day without the provider: its outage ends no sign-in. */
export interface KeySource {
  /** Finds the key of a token. Throws Problem AUTH_UNAVAILABLE without current keys, jose's error without a match. */
  key: JWTVerifyGetKey
  /** The keys as the provider publishes them. Throws Problem AUTH_UNAVAILABLE. */
  published(): Promise<JSONWebKeySet>
  /** The keys in use: a new object after every fetch; undefined once they are too old. */
  current(): object | undefined
  /** Seconds since the last fetch; undefined before the first. */
  ageSeconds(): number | undefined
  /** Loads the stored keys, then fetches new ones periodically. Never fails, even if the provider is unavailable. */
  start(): Promise<void>
  stop(): void
}

export interface KeySourceOptions {
  url: string
  cache: KeyCache
  clock: Clock
  log: Log
  timeoutMs?: number
}

export function keySource(o: KeySourceOptions): KeySource {
  let current: { jwks: JSONWebKeySet; find: JWTVerifyGetKey; fetchedAt: number } | undefined
  let inFlight: Promise<void> | undefined
  let triedAt = Number.NEGATIVE_INFINITY
  /** When the provider was last asked for a key that it does not have. */
  let askedInVainAt = Number.NEGATIVE_INFINITY
  let failed = false
  let timer: NodeJS.Timeout | undefined
  const stopping = new AbortController()
  const now = () => o.clock.now().getTime()
  const usable = () => (current && now() - current.fetchedAt < STALE_MS ? current : undefined)

  function take(jwks: JSONWebKeySet, fetchedAt: number): void {
    current = { jwks, find: createLocalJWKSet(jwks), fetchedAt }
  }

  async function fetchKeys(): Promise<void> {
    triedAt = now()
    try {
      const request = { timeoutMs: o.timeoutMs ?? 5000, maxBytes: 256 * 1024, signal: stopping.signal }
      const { status, body } = await askUpstream(o.url, request)
      const jwks = status === 200 ? parseKeys(body) : undefined
      if (!jwks) throw new UpstreamError(`the identity provider responded ${status} without a usable key`)
      take(jwks, now())
      failed = false
      await o.cache.save(jwks, o.clock.now()).catch((error) => o.log.warn({ err: error }, 'could not store the keys'))
    } catch (error) {
      failed = true
      if (!stopping.signal.aborted) o.log.warn({ err: error, age: ageSeconds() }, 'could not fetch the signing keys')
    }
  }

  /** Concurrent callers share one request, and the next request is sent after `atMostEveryMs` at the earliest. */
  async function refetch(atMostEveryMs: number): Promise<void> {
    if (!inFlight && now() - triedAt < atMostEveryMs) return
    inFlight ??= fetchKeys().finally(() => {
      inFlight = undefined
    })
    await inFlight
  }

  /** The same with a request that begins now: one under way may have left before the key was published. */
  async function refetchAnew(): Promise<void> {
    await inFlight
    await refetch(0)
  }

  async function keys() {
    if (!usable()) await refetch(NO_KEYS_MS)
    const found = usable()
    if (!found) throw unavailable()
    return found
  }

  async function loop(): Promise<void> {
    await refetch(0)
    if (stopping.signal.aborted) return
    timer = setTimeout(() => void loop(), failed ? RETRY_MS : REFRESH_MS).unref()
  }

  const ageSeconds = () => current && Math.round((now() - current.fetchedAt) / SECOND)

  /**
   * For a key that is newer than the last fetch, or a forgery: the newest keys tell which. Only forgeries are limited: a
   * provider that signs with a key as soon as it publishes it must cost no request.
   */
  async function newestKey(...[header, token]: Parameters<KeySource['key']>) {
    if (failed) await refetch(UNKNOWN_KID_MS)
    else if (now() - askedInVainAt >= UNKNOWN_KID_MS) await refetchAnew()
    if (failed) throw unavailable()
    const newest = await keys()
    try {
      return await newest.find(header, token)
    } catch (error) {
      if (now() - askedInVainAt >= UNKNOWN_KID_MS) askedInVainAt = now()
      throw error
    }
  }

  return {
    async key(header, token) {
      const known = await keys()
      try {
        return await known.find(header, token)
      } catch (error) {
        if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
        return newestKey(header, token)
      }
    },
    current: usable,
    published: async () => (await keys()).jwks,
    ageSeconds,
    async start() {
      const kept = await o.cache
        .load()
        .catch((error) => void o.log.warn({ err: error }, 'could not load the stored signing keys'))
      const jwks = kept && parseKeys(kept.jwks)
      if (kept && jwks) take(jwks, kept.fetchedAt.getTime())
      const first = loop()
      // With stored keys the start need not wait for newer ones.
      if (!usable()) await first
    },
    stop() {
      stopping.abort()
      clearTimeout(timer)
    },
  }
}

const unavailable = () =>
  new Problem('AUTH_UNAVAILABLE', 'Tokens cannot be verified at the moment. Please try again.', { retryAfter: 5 })

// 2048 bits are 342 characters. jose refuses shorter keys only on use, with an error that would become a 500.
const RsaKey = z.object({
  kty: z.literal('RSA'),
  kid: z.string().max(256).optional(),
  use: z.literal('sig').optional(),
  alg: z.literal('RS256').optional(),
  n: z.string().min(342),
  e: z.string(),
})

/** The RS256 keys of a key set, with their public members only; undefined if there are none. */
function parseKeys(body: unknown): JSONWebKeySet | undefined {
  const set = z.object({ keys: z.array(z.unknown()).max(100) }).safeParse(body).data
  const keys = (set?.keys ?? []).flatMap((key) => RsaKey.safeParse(key).data ?? [])
  return keys.length > 0 ? { keys: keys as JSONWebKeySet['keys'] } : undefined
}
