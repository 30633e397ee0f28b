import { integer, pgTable, text } from '../orm.ts'
import { id, time } from './columns.ts'

export const webhooks = pgTable('webhooks', {
  id: id('webhook').primaryKey(),
  orgId: id('organization').notNull(),
  url: text().notNull(),
  secret: text().notNull(),
  previousSecret: text(),
  previousEndsAt: time(),
  disabledAt: time(),
  disabledReason: text(),
  failingSince: time(),
  lastAttemptAt: time(),
  lastStatus: integer(),
  lastAnswer: text(),
  createdAt: time().notNull().defaultNow(),
})
export type WebhookRow = typeof webhooks.$inferSelect
