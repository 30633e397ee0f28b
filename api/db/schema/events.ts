import { boolean, doublePrecision, integer, pgTable, primaryKey, text, uuid } from '../orm.ts'
import { id, leaseTime, time } from './columns.ts'

export const EVENT_STATUSES = ['draft', 'active', 'archived'] as const
export type EventStatus = (typeof EVENT_STATUSES)[number]

export const events = pgTable('events', {
  id: id('event').primaryKey(),
  orgId: id('organization').notNull(),
  ownerId: id('user').notNull(),
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
  coldAt: time(),
  coldLookAt: leaseTime().notNull().default('-infinity'),
  leaseAt: leaseTime().notNull().default('-infinity'),
  leaseToken: uuid(),
  purgeNotice: integer().notNull().default(0),
  purgeNoticeFor: time(),
  purgeNoticeTo: id('user'),
  purgeNoticeUnhandled: boolean().notNull().default(false),
  purgeNoticesRefused: integer().notNull().default(0),
  purgeBegunAt: time(),
  purgeLookAt: leaseTime().notNull().default('-infinity'),
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
    eventId: id('event').notNull(),
    userId: id('user').notNull(),
    orgId: id('organization').notNull(),
    status: text({ enum: PARTICIPANT_STATUSES }).notNull(),
    joinedAt: time(),
    createdAt: time().notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.eventId, t.userId] })],
)
