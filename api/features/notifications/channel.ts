import type { Uuid } from '../../../lib/contract/ids.ts'
import type { Log } from '../../../lib/runtime/log.ts'
import { safeMessage } from '../../../lib/runtime/log-error.ts'
import type { Database, Tx } from '../../db/db.ts'
import type { SQL } from '../../db/orm.ts'
import type { ChannelName, NotificationRow } from '../../db/schema/notifications.ts'
import type { CounterOf } from '../../worker/metrics.ts'
import type { Facts, Language, MailText } from './templates/template.ts'

export type { ChannelName } from '../../db/schema/notifications.ts'

/** How an attempt ended. Reasons are shown to administrators, and name no address. */
export type Outcome =
  | { is: 'sent' }
  /**
   * Temporary: retried by the schedule of the channel. `of` names what refused where that is not this message alone: all
   * deliveries of the destination, or of the service behind it (`ChannelPart.services`), wait. With `of` and
   * `wasSent: false`, what it names could not be reached: the attempt does not count. `isAnswered: false` is no sign that
   * the receiver works: its pause goes on. `isOurs`: the configuration of this installation is wrong, such as a key, which says
   * nothing of the receiver.
   */
  | {
      is: 'later'
      afterSeconds?: number
      of?: 'destination' | 'service'
      wasSent?: false
      isAnswered?: false
      isOurs?: true
      reason: string
    }
  /** Final for this destination. */
  | { is: 'refused'; reason: string }
  /** Final, and the destination itself is dropped: see `ChannelPart.drop`. */
  | { is: 'gone'; reason: string }
  /**
   * The message may have arrived. Through a channel that `isIdempotent`, retried as `later` is; otherwise one more try,
   * and `uncertain` if that ends without an answer too.
   */
  | { is: 'unknown'; reason: string }
  /** Nothing can be sent through the channel, such as with a wrong password. The attempt does not count. */
  | { is: 'paused'; reason: string }

/** Where one message goes. */
export interface Destination {
  /** The e-mail address, the id of the device, or the id of the webhook. */
  address: string
  /** 1 for the first attempt; those that the channel was paused for do not count. */
  attempt: number
}

/** A notification as it is sent. The same `id` over all attempts and channels. */
export interface Rendered {
  id: Uuid
  /** Null for what is about no organization: a download. */
  orgId: Uuid | null
  template: NotificationRow['template']
  recipient: Pick<NotificationRow, 'userId' | 'email' | 'phoneNumber'>
  language: Language
  /** What the texts are made of, as it is now. The texts of people are cleaned of control characters, not escaped. */
  facts: Facts
  /** Where it leads: for an invitation, with the token in the fragment. It is a credential, which no log may show. */
  url: string
  /** When the token in `url` ends; null where it has none. */
  linkExpiresAt: Date | null
  /** When the cause happened. */
  createdAt: Date
  mail: MailText
  /** A line and a sentence or two, for a push message. */
  short: { title: string; body: string }
  unsubscribeUrl: string
}

export interface Channel {
  name: ChannelName
  /** Seconds before attempt 2, 3, …; after the last one it has failed. */
  schedule: readonly number[]
  /** Whether a message that arrives twice counts once: its repetition has the same id, or replaces it. */
  isIdempotent: boolean
  /** Attempts in flight at once in one worker. */
  concurrency: number
  /**
   * Ends within SEND_SECONDS: then `signal` is aborted, and the outcome is unknown. An error that it throws counts as
   * `unknown` too.
   */
  send(message: Rendered, to: Destination, signal: AbortSignal): Promise<Outcome>
  close?(): Promise<unknown>
}

export interface Addressed {
  notificationId: Uuid
  destination: string
}

/** What the engine asks of a channel. Another channel is one more of these in the list of `channels.ts`. */
export interface ChannelPart {
  name: ChannelName
  /** Undefined where the configuration switches the channel off: its deliveries are `suppressed`, with `offReason`. */
  channel: Channel | undefined
  offReason: string
  /** Where these notifications go: one query for all of them, in the transaction that inserts them. */
  destinationsOf(tx: Tx, notificationIds: readonly Uuid[]): Promise<Addressed[]>
  /**
   * Why this delivery is not sent, decided in the transaction before the attempt; undefined to send it. Preferences of
   * the person are checked before.
   */
  withhold?(tx: Tx, notification: NotificationRow, destination: string): Promise<string | undefined>
  /** Services that several destinations share. */
  services?: {
    /** The service of this destination; undefined for one that stands alone. */
    of(tx: Tx, destination: string): Promise<string | undefined>
    /** The condition that the destination of a delivery `d` is one of the service; quick for thousands of deliveries. */
    isBehind(service: string): SQL
  }
  /** After `gone`, in the transaction that records it. */
  drop?(tx: Tx, destination: string, reason: string): Promise<void>
}

/** For a channel that could not read where to send: nothing was sent. */
export const notRead = (error: unknown): Outcome => ({
  is: 'later',
  wasSent: false,
  reason: `not sent: ${safeMessage(error)}`.slice(0, 500),
})

/** What the factory of a channel gets. `Settings`: its part of the environment. */
export interface ChannelDeps<Settings> {
  settings: Settings
  db: Database
  log: Log
  counterOf: CounterOf
}

/** How long one attempt may take. Behind it the attempt is aborted; the lease of the delivery lasts longer. */
export const SEND_SECONDS = 90
export const LEASE_SECONDS = 150
