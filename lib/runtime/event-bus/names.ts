/** Messages that a handler gets at a time, unless it asks for fewer. */
export const BATCH = 100

/** Consumer names become parts of subjects and of names on the server. */
export function checkConsumer(name: string): void {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) throw new TypeError(`Not a consumer name: ${name}`)
}

/** A subject to publish to has no wildcards and no empty tokens. */
export function checkSubject(subject: string): void {
  if (!/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/.test(subject)) throw new TypeError(`Not a subject: ${subject}`)
}
