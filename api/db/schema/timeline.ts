import { pgTable, text, uuid } from '../orm.ts'
import { id, time } from './columns.ts'

export const TIMELINE_TYPES = [
  'event_created',
  'event_activated',
  'album_created',
  'album_updated',
  'media_uploaded',
  'member_joined',
  'reaction_added',
  'comment_posted',
] as const
export const REF_TYPES = ['event', 'album', 'media', 'user', 'comment', 'reaction'] as const

export const timelineItems = pgTable('timeline_items', {
  id: id('timelineItem').primaryKey(),
  orgId: id('organization').notNull(),
  type: text({ enum: TIMELINE_TYPES }).notNull(),
  actorId: id('user').notNull(),
  refType: text({ enum: REF_TYPES }).notNull(),
  refId: uuid().notNull(),
  at: time().notNull(),
  bucket: time(),
  change: text({ enum: ['media_added', 'details'] }),
  eventId: id('event'),
  albumId: id('album'),
  summary: text(),
  hiddenAt: time(),
})
export type TimelineItemRow = typeof timelineItems.$inferSelect
export type TimelineType = TimelineItemRow['type']
export type RefType = TimelineItemRow['refType']
