import type { ScaledLimit, Standing } from './policy.ts'

/**
 * `RateLimit-Policy` and `RateLimit` of draft-ietf-httpapi-ratelimit-headers-08: lists of names with `q` requests in
 * `w` seconds, and with `r` remaining requests, fully available again in `t` seconds.
 */
export const policyHeader = (limits: Readonly<Record<string, ScaledLimit>>): string =>
  Object.entries(limits)
    .map(([name, { quota, seconds }]) => `"${name}";q=${quota};w=${seconds}`)
    .join(', ')

export const standingHeader = (name: string, { remaining, resetMs }: Standing): string =>
  `"${name}";r=${remaining};t=${Math.ceil(resetMs / 1000)}`

/** Whole seconds for `Retry-After`; never 0, which clients take for an immediate retry. */
export const secondsUntil = (ms: number): number => Math.max(1, Math.ceil(ms / 1000))
