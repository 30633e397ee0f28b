import { integer, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { time } from './columns.ts'

/** As stored; `expired` follows from `tokenExpiresAt`. */
export const INVITATION_STATUSES = ['pending', 'accepted', 'declined', 'revoked'] as const

export const invitations = pgTable('invitations', {
  id: uuid().primaryKey(),
  orgId: uuid().notNull(),
  eventId: uuid().notNull(),
  slug: text().notNull(),
  email: text(),
  phoneNumber: text(),
  userId: uuid(),
  message: text(),
  status: text({ enum: INVITATION_STATUSES }).notNull().default('pending'),
  generation: integer().notNull().default(1),
  tokenExpiresAt: time().notNull(),
  invitedBy: uuid().notNull(),
  respondedBy: uuid(),
  respondedAt: time(),
  responseMessage: text(),
  openedAt: time(),
  clickedAt: time(),
  toldGeneration: integer(),
  version: integer().notNull().default(1),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})
export type InvitationRow = typeof invitations.$inferSelect
