/** The time, as a parameter. Business windows use the database's now(); this is for tokens, backoff and cache ages. */
export interface Clock {
  now(): Date
}
export const systemClock: Clock = { now: () => new Date() }
