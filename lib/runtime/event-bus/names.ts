/** Defaults of a consumer: five attempts, the fifth some twelve minutes after the first. */
export const MAX_DELIVER = 5
export const BACKOFF_MS: readonly number[] = [1_000, 5_000, 30_000, 120_000, 600_000]

/** Consumer names become parts of subjects and of names on the server. */
export function checkConsumer(name: string): void {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) throw new TypeError(`Not a consumer name: ${name}`)
}

/** A subject to publish to has no wildcards and no empty tokens. */
export function checkSubject(subject: string): void {
  if (!/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/.test(subject)) throw new TypeError(`Not a subject: ${subject}`)
}
