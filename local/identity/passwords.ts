import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto'

const COST: ScryptOptions = { N: 2 ** 14, r: 8, p: 5, maxmem: 64 * 1024 * 1024 }

export interface PasswordHash {
  salt: Buffer
  key: Buffer
}

/** scrypt at the cost that OWASP recommends: about a tenth of a second. */
export async function hashPassword(password: string, salt: Buffer = randomBytes(16)): Promise<PasswordHash> {
  const key = await new Promise<Buffer>((resolve, reject) => {
    scrypt(password.normalize('NFC'), salt, 32, COST, (error, derived) => (error ? reject(error) : resolve(derived)))
  })
  return { salt, key }
}

/** Takes as long without a hash (an unknown user) as for a wrong password, so the time reveals no account. */
export async function verifyPassword(password: string, hash: PasswordHash | undefined): Promise<boolean> {
  const tried = await hashPassword(password, hash?.salt)
  return hash !== undefined && timingSafeEqual(tried.key, hash.key)
}
