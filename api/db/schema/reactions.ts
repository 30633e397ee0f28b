import { integer, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { time } from './columns.ts'
import { audience, targetType } from './comments.ts'

export const reactions = pgTable('reactions', {
  id: uuid().primaryKey(),
  orgId: uuid().notNull(),
  eventId: uuid().notNull(),
  targetType: targetType(),
  targetId: uuid().notNull(),
  userId: uuid().notNull(),
  emoji: text().notNull(),
  audience: audience(),
  version: integer().notNull().default(1),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})
export type ReactionRow = typeof reactions.$inferSelect
