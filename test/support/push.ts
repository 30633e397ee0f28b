import { createECDH, randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import webpush from 'web-push'

interface Decryption {
  version: 'aes128gcm'
  privateKey: ReturnType<typeof createECDH>
  authSecret: Buffer
}
// It comes without types.
const { decrypt } = createRequire(import.meta.url)('http_ece') as { decrypt(body: Buffer, how: Decryption): Buffer }

/** The keys of a browser, which reads what it is sent. */
export function aBrowser() {
  const privateKey = createECDH('prime256v1')
  privateKey.generateKeys()
  const authSecret = randomBytes(16)
  return {
    keys: { p256dh: privateKey.getPublicKey('base64url'), auth: authSecret.toString('base64url') },
    read: (body: Buffer): Record<string, string> =>
      JSON.parse(decrypt(body, { version: 'aes128gcm', privateKey, authSecret }).toString()),
  }
}

export function vapidSettings() {
  const { publicKey, privateKey } = webpush.generateVAPIDKeys()
  return { VAPID_PUBLIC_KEY: publicKey, VAPID_PRIVATE_KEY: privateKey, VAPID_SUBJECT: 'mailto:ops@keepsake.example' }
}
