import { pgTable, text } from '../orm.ts'
import { id, time } from './columns.ts'

export const DEVICE_KINDS = ['webpush', 'fcm'] as const

export const devices = pgTable('devices', {
  id: id('device').primaryKey(),
  userId: id('user').notNull(),
  kind: text({ enum: DEVICE_KINDS }).notNull(),
  address: text().notNull(),
  p256dh: text(),
  auth: text(),
  sessionId: text(),
  /** See `hashOfKey`. */
  vapidKey: text(),
  createdAt: time().notNull().defaultNow(),
  registeredAt: time().notNull().defaultNow(),
})
export type DeviceRow = typeof devices.$inferSelect
