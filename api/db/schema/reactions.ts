import { integer, pgTable, text, uuid } from '../orm.ts'
import { id, time } from './columns.ts'
import { audience, targetType } from './comments.ts'

export const reactions = pgTable('reactions', {
  id: id('reaction').primaryKey(),
  orgId: id('organization').notNull(),
  eventId: id('event').notNull(),
  targetType: targetType(),
  targetId: uuid().notNull(),
  userId: id('user').notNull(),
  emoji: text().notNull(),
  audience: audience(),
  version: integer().notNull().default(1),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})
export type ReactionRow = typeof reactions.$inferSelect
