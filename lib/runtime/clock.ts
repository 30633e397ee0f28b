/** The time, as a parameter, for tokens, backoff and cache ages. Business windows use the database's now(). */
export interface Clock {
  now(): Date
}
export const systemClock: Clock = { now: () => new Date() }
