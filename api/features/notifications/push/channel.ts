import {
  type GuardOptions,
  NoAnswerInTime,
  openGuard,
  RefusedAddress,
} from '../../../../lib/runtime/guarded-http/guarded-http.ts'
import type { GuardSettings } from '../../../../lib/runtime/guarded-http/settings.ts'
import { safeMessage } from '../../../../lib/runtime/log-error.ts'
import { type ChannelDeps, type ChannelPart, notRead, type Outcome } from '../channel.ts'
import { NoAccessToken } from './access-token.ts'
import { fcmSender } from './fcm.ts'
import { type PushMessage, pushMessageOf } from './message.ts'
import { type DeviceRow, devicesOf, dropDevice, findDevice, isOfKind } from './queries.ts'
import type { PushSettings } from './settings.ts'
import { webPusher } from './web-push.ts'

/** Five seconds to two hours. */
const SCHEDULE = [5, 60, 300, 1800, 7200]
const CONCURRENCY = 16

type Send = (message: PushMessage, device: DeviceRow, signal: AbortSignal) => Promise<Outcome>

/** Web Push to browsers, FCM to apps: whichever is configured. */
export function pushPart(
  { settings, db }: Pick<ChannelDeps<PushSettings & GuardSettings>, 'settings' | 'db'>,
  options: GuardOptions & { schedule?: readonly number[]; fcmOrigin?: string } = {},
): ChannelPart {
  const send: Partial<Record<DeviceRow['kind'], Send>> = { ...webPush(settings, options), ...fcm(settings, options) }
  return {
    name: 'push',
    offReason: 'no push service is configured',
    destinationsOf: devicesOf,
    async withhold(tx, { userId }, id) {
      const device = await findDevice(tx, id)
      if (!device || device.userId !== userId) return 'the user does not have the device any more'
      return send[device.kind] ? undefined : 'the push service of the device is not configured'
    },
    // One service for all apps. Of browsers, each endpoint names its own.
    services: {
      of: async (tx, id) => ((await findDevice(tx, id))?.kind === 'fcm' ? 'fcm' : undefined),
      isBehind: () => isOfKind('fcm'),
    },
    channel:
      Object.keys(send).length === 0
        ? undefined
        : {
            name: 'push',
            schedule: options.schedule ?? SCHEDULE,
            // By its topic: a later message replaces an earlier one.
            isIdempotent: true,
            concurrency: CONCURRENCY,
            async send(message, { address: id }, signal) {
              const device = await db.read({}, (tx) => findDevice(tx, id)).catch(notRead)
              if (device && 'is' in device) return device
              // It may have changed hands since the delivery was claimed.
              if (!device || device.userId !== message.recipient.userId) {
                return { is: 'refused', reason: 'the user does not have the device any more' }
              }
              const sent = send[device.kind]?.(pushMessageOf(message), device, signal)
              const outcome = (await sent?.catch((error: unknown) => failed(error, device.kind))) ?? NOT_CONFIGURED
              if (outcome.is === 'gone') await db.inTransaction({}, (tx) => dropDevice(tx, device))
              return outcome
            },
          },
  }
}

const NOT_CONFIGURED: Outcome = { is: 'refused', reason: 'the push service of the device is not configured' }

/** Not `unknown`: a message that arrived is replaced by its repetition. Only an answer tells that the service works. */
function failed(error: unknown, kind: DeviceRow['kind']): Outcome {
  if (error instanceof RefusedAddress) return { is: 'refused', reason: `the address of the device ${error.message}` }
  const { code } = error as { code?: unknown }
  const reason = typeof code === 'string' ? `no answer: ${code}` : safeMessage(error).slice(0, 200)
  // By the schedule: no rest makes a wrong key right.
  if (error instanceof NoAccessToken && error.isRefused) return { is: 'later', wasSent: false, reason }
  const of = kind === 'fcm' ? 'service' : 'destination'
  if (error instanceof NoAccessToken || isUnconnected(error)) return { is: 'later', of, wasSent: false, reason }
  // One broken connection does not have all apps wait. A service that does not answer holds each attempt for long.
  const rests = kind === 'webpush' || error instanceof NoAnswerInTime
  return { is: 'later', ...(rests && { of }), isAnswered: false, reason }
}

/** That the name has given no address, or that no connection was made to one of its addresses. */
function isUnconnected(error: unknown): boolean {
  const { syscall } = error as { syscall?: unknown }
  return typeof syscall === 'string' && (syscall === 'connect' || syscall.startsWith('query'))
}

function webPush(settings: PushSettings & GuardSettings, options: GuardOptions): { webpush?: Send } {
  const { VAPID_PUBLIC_KEY: publicKey, VAPID_PRIVATE_KEY: privateKey, VAPID_SUBJECT: subject } = settings
  if (publicKey === undefined || privateKey === undefined || subject === undefined) return {}
  const vapidDetails = { subject, publicKey, privateKey }
  const push = webPusher(openGuard(settings, options), { vapidDetails, hosts: settings.PUSH_HOSTS })
  return {
    webpush: (message, { address: endpoint, p256dh, auth, vapidKey }, signal) =>
      push(message, { endpoint, p256dh: p256dh ?? '', auth: auth ?? '', vapidKey }, signal),
  }
}

function fcm(settings: PushSettings & GuardSettings, options: GuardOptions & { fcmOrigin?: string }): { fcm?: Send } {
  if (!settings.FCM_SERVICE_ACCOUNT) return {}
  const send = fcmSender(openGuard(settings, options), settings.FCM_SERVICE_ACCOUNT, options.fcmOrigin)
  return { fcm: (message, { address: token }, signal) => send(message, token, signal) }
}
