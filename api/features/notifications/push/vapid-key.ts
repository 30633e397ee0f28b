import { createHash } from 'node:crypto'

/** Tells VAPID keys apart. A browser takes messages only with the key that it subscribed with. */
export const hashOfKey = (publicKey: string): string => createHash('sha256').update(publicKey).digest('base64url')
