import { boolean, integer, pgTable, primaryKey, text, uuid } from '../orm.ts'
import { id, leaseTime, time } from './columns.ts'

/** A version never changes what it says: another text for the same cause is another template. */
export const TEMPLATES = ['EventInvitation.v1', 'Mention.v1', 'DownloadReady.v1', 'EventPurgeSoon.v1'] as const
export type Template = (typeof TEMPLATES)[number]

export const CHANNEL_NAMES = ['email', 'push', 'webhook'] as const
export type ChannelName = (typeof CHANNEL_NAMES)[number]

/**
 * `uncertain`: no further attempt follows, and one of them ended without an answer, so it may have arrived. `suppressed`:
 * not sent on purpose. Neither these nor `sent` and `failed` change by themselves.
 */
export const DELIVERY_STATES = ['pending', 'sending', 'sent', 'failed', 'uncertain', 'suppressed'] as const
export type DeliveryState = (typeof DELIVERY_STATES)[number]

export const notifications = pgTable('notifications', {
  id: id('notification').primaryKey(),
  /** Null for what is about no organization: a download. */
  orgId: id('organization'),
  template: text({ enum: TEMPLATES }).notNull(),
  eventId: id('event'),
  userId: id('user'),
  email: text(),
  phoneNumber: text(),
  invitationId: id('invitation'),
  generation: integer(),
  commentId: id('comment'),
  downloadId: id('export'),
  /** Of a notice before an event is purged: which one it is, and the time that it names. */
  purgeNotice: integer(),
  purgeAt: time(),
  createdAt: time().notNull().defaultNow(),
  openedAt: time(),
  clickedAt: time(),
  /** Opens and clicks in the audit log. */
  recorded: integer().notNull().default(0),
  leaseAt: leaseTime().notNull().default('-infinity'),
  leaseToken: uuid(),
})
export type NotificationRow = typeof notifications.$inferSelect

export const notificationDeliveries = pgTable('notification_deliveries', {
  id: id('notification').primaryKey(),
  orgId: id('organization'),
  notificationId: id('notification').notNull(),
  channel: text({ enum: CHANNEL_NAMES }).notNull(),
  destination: text().notNull(),
  state: text({ enum: DELIVERY_STATES }).notNull().default('pending'),
  attempts: integer().notNull().default(0),
  preparations: integer().notNull().default(0),
  mayHaveArrived: boolean().notNull().default(false),
  startedAt: time(),
  nextAttemptAt: time().notNull().defaultNow(),
  reason: text(),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})
export type DeliveryRow = typeof notificationDeliveries.$inferSelect

export const notificationChannels = pgTable('notification_channels', {
  channel: text({ enum: CHANNEL_NAMES }).primaryKey(),
  failures: integer().notNull().default(0),
  pausedUntil: time(),
  reason: text(),
})

/** A receiver is the destination of deliveries, or a service that several destinations share. */
export const notificationPauses = pgTable(
  'notification_pauses',
  {
    channel: text({ enum: CHANNEL_NAMES }).notNull(),
    receiver: text().notNull(),
    failures: integer().notNull().default(0),
    pausedUntil: time().notNull().defaultNow(),
    reason: text(),
  },
  (t) => [primaryKey({ columns: [t.channel, t.receiver] })],
)

/** The channels that a person chooses; webhooks are the organization's. */
export const PERSONAL_CHANNELS = ['email', 'push'] as const satisfies readonly ChannelName[]
export type PersonalChannel = (typeof PERSONAL_CHANNELS)[number]

export const notificationPreferences = pgTable(
  'notification_preferences',
  {
    userId: id('user').notNull(),
    channel: text({ enum: PERSONAL_CHANNELS }).notNull(),
    template: text({ enum: TEMPLATES }).notNull(),
    enabled: boolean().notNull(),
    updatedAt: time().notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.channel, t.template] })],
)

export const notificationOptouts = pgTable(
  'notification_optouts',
  {
    addressHash: text().notNull(),
    template: text({ enum: TEMPLATES }).notNull(),
    createdAt: time().notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.addressHash, t.template] })],
)
