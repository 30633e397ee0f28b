import * as z from 'zod'
import { json } from '../../../../lib/runtime/config.ts'
import { PushHosts, VapidKey } from '../../../config.ts'

/** The key of a service account, as Google's console makes it. */
const ServiceAccount = z.object({
  project_id: z.string().regex(/^[a-z0-9:.-]+$/),
  client_email: z.string().min(3),
  private_key_id: z.string().optional(),
  private_key: z.string().startsWith('-----BEGIN'),
  token_uri: z.url({ protocol: /^https$/ }).default('https://oauth2.googleapis.com/token'),
})
export type ServiceAccount = z.output<typeof ServiceAccount>

/** The part of the worker's environment that push reads. */
export const PushSettings = z.object({
  VAPID_PUBLIC_KEY: VapidKey.optional().describe('As for the API. Without the three, browsers get no push messages'),
  VAPID_PRIVATE_KEY: z
    .string()
    .regex(/^[\w-]{43}$/, 'must be base64url of 32 bytes')
    .optional(),
  VAPID_SUBJECT: z
    .string()
    .regex(/^(mailto:[^\s@]+@[^\s@]+|https:\/\/\S+)$/, 'must be mailto:… or https://…')
    .optional()
    .describe('Where push services reach the administrators'),
  PUSH_HOSTS: PushHosts,
  FCM_SERVICE_ACCOUNT: json(ServiceAccount)
    .optional()
    .describe('The JSON key of a Google service account. Without it, apps get no push messages through FCM'),
})
export type PushSettings = z.output<typeof PushSettings>
