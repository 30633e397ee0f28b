import { ECDH } from 'node:crypto'
import * as z from 'zod'
import { optional, outputArray, outputId, outputTime } from '../../../requests/schemas.ts'
import { DEVICE_KINDS } from './queries.ts'

export const MAX_DEVICES = 20

const Kind = z.enum(DEVICE_KINDS).meta({
  id: 'DeviceKind',
  description: 'webpush: a browser, by Web Push. fcm: an app, by Firebase Cloud Messaging',
})

export const Device = z
  .object({
    device_id: outputId('device'),
    kind: Kind,
    push_service: z.string().nullable().meta({ description: 'The host of the push service of a browser' }),
    created_at: outputTime(),
    registered_at: outputTime().meta({ description: 'When it was registered last' }),
  })
  .meta({ id: 'Device' })
export type Device = z.input<typeof Device>

export const Devices = z.object({ devices: outputArray(Device, MAX_DEVICES) }).meta({ id: 'Devices' })

const base64url = (bytes: number) =>
  z
    .string()
    .max(200)
    .regex(/^[\w-]+=?=?$/, 'is not base64url')
    .refine((text) => Buffer.from(text, 'base64url').length === bytes, `must have ${bytes} bytes`)

/** A point that is not on the curve would fail in every attempt to send. */
function isPoint(text: string): boolean {
  try {
    return ECDH.convertKey(text.replace(/=+$/, ''), 'prime256v1', 'base64url' as 'base64', 'hex').length > 0
  } catch {
    return false
  }
}

const PushKeys = z
  .object({
    p256dh: base64url(65).refine(isPoint, 'is not a key of the curve P-256'),
    auth: base64url(16),
  })
  .meta({ id: 'PushKeys', description: 'As `PushSubscription.toJSON()` of a browser gives them' })

/** One shape for both kinds: a schema with two forms is an abstract type in generated clients. */
export const GivenDevice = z
  .object({
    kind: Kind,
    endpoint: optional(z.url({ protocol: /^https$/ }).max(2048)).meta({
      description: 'Of `PushSubscription.toJSON()`. Required for `webpush`',
    }),
    keys: optional(PushKeys).meta({ description: 'Required for `webpush`' }),
    token: optional(
      z
        .string()
        .min(1)
        .max(4096)
        .regex(/^[\w:.-]+$/, 'is not a token of Firebase'),
    ).meta({ description: 'The registration token of the app. Required for `fcm`' }),
  })
  .superRefine((given, ctx) => {
    const wanted = FIELDS[given.kind]
    for (const name of ['endpoint', 'keys', 'token'] as const) {
      const isGiven = given[name] !== undefined
      if (isGiven === wanted.includes(name)) continue
      const message = isGiven ? `does not belong to ${given.kind}` : 'is required'
      ctx.addIssue({ code: 'custom', path: [name], message })
    }
  })
  .meta({ id: 'GivenDevice' })
export type GivenDevice = z.output<typeof GivenDevice>

const FIELDS: Record<GivenDevice['kind'], readonly string[]> = { webpush: ['endpoint', 'keys'], fcm: ['token'] }

export const PushKey = z
  .object({
    public_key: z.string().nullable().meta({
      description: 'For `applicationServerKey` of `pushManager.subscribe`; null where browsers get no push messages',
    }),
  })
  .meta({ id: 'PushKey' })
