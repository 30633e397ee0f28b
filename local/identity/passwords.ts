import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'

const KEY = randomBytes(32)

/** Of equal length, as a comparison in constant time needs them. */
const digest = (text: string) => createHmac('sha256', KEY).update(text).digest()

/**
 * Takes as long for an unknown user (`expected` undefined) as for a wrong password, so the time reveals no account.
 * The passwords are random and lie in clear in a file beside the database: a slow hash such as scrypt would protect
 * nothing, and would take a second of CPU at each start.
 */
export function isPassword(given: string, expected: string | undefined): boolean {
  const isEqual = timingSafeEqual(digest(given.normalize('NFC')), digest((expected ?? '').normalize('NFC')))
  return expected !== undefined && isEqual
}
