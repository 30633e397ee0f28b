import { doublePrecision, integer, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { time } from './columns.ts'

export const EVENT_STATUSES = ['draft', 'active', 'archived'] as const
export type EventStatus = (typeof EVENT_STATUSES)[number]

export const events = pgTable('events', {
  id: uuid().primaryKey(),
  orgId: uuid().notNull(),
  ownerId: uuid().notNull(),
  title: text().notNull(),
  description: text(),
  startAt: time().notNull(),
  endAt: time(),
  locationName: text(),
  latitude: doublePrecision(),
  longitude: doublePrecision(),
  status: text({ enum: EVENT_STATUSES }).notNull().default('draft'),
  activatedAt: time(),
  archivedAt: time(),
  version: integer().notNull().default(1),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})
export type EventRow = typeof events.$inferSelect

export const PARTICIPANT_STATUSES = ['invited', 'accepted', 'declined'] as const
export type ParticipantStatus = (typeof PARTICIPANT_STATUSES)[number]

export const eventParticipants = pgTable(
  'event_participants',
  {
    eventId: uuid().notNull(),
    userId: uuid().notNull(),
    orgId: uuid().notNull(),
    status: text({ enum: PARTICIPANT_STATUSES }).notNull(),
    joinedAt: time(),
    createdAt: time().notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.eventId, t.userId] })],
)
