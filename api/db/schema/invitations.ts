import { date, integer, pgTable, text } from '../orm.ts'
import { id, time } from './columns.ts'

/** As stored; `expired` follows from `tokenExpiresAt`. */
export const INVITATION_STATUSES = ['pending', 'accepted', 'declined', 'revoked'] as const

export const invitations = pgTable('invitations', {
  id: id('invitation').primaryKey(),
  orgId: id('organization').notNull(),
  eventId: id('event').notNull(),
  slug: text().notNull(),
  email: text(),
  phoneNumber: text(),
  userId: id('user'),
  message: text(),
  status: text({ enum: INVITATION_STATUSES }).notNull().default('pending'),
  generation: integer().notNull().default(1),
  tokenExpiresAt: time().notNull(),
  invitedBy: id('user').notNull(),
  formerInviter: id('user'),
  formerMessage: text(),
  respondedBy: id('user'),
  respondedAt: time(),
  responseMessage: text(),
  openedAt: time(),
  clickedAt: time(),
  toldGeneration: integer(),
  renewedOn: date(),
  renewals: integer().notNull().default(0),
  version: integer().notNull().default(1),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})
export type InvitationRow = typeof invitations.$inferSelect
