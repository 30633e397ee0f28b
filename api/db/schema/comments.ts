import { boolean, integer, pgTable, primaryKey, text, uuid } from '../orm.ts'
import { id, time } from './columns.ts'

/** What comments and reactions can be about. */
export const targetType = () => text({ enum: ['meta', 'comment', 'media'] }).notNull()

/** Who may see it among those who can see the event. */
export const audience = () => text({ enum: ['event', 'album'] }).notNull()

export const comments = pgTable('comments', {
  id: id('comment').primaryKey(),
  orgId: id('organization').notNull(),
  eventId: id('event').notNull(),
  targetType: targetType(),
  targetId: uuid().notNull(),
  mediaId: id('media'),
  audience: audience(),
  authorId: id('user').notNull(),
  body: text().notNull(),
  mentionsGiven: id('user').array().notNull().default([]),
  mentions: id('user').array().notNull().default([]),
  version: integer().notNull().default(1),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
  deletedAt: time(),
  deletedBy: id('user'),
  deletedReason: text(),
  /** Kept by a trigger. */
  listed: boolean().notNull().default(true),
})
export type CommentRow = typeof comments.$inferSelect
export type TargetType = CommentRow['targetType']
export type Audience = CommentRow['audience']

export const commentVersions = pgTable(
  'comment_versions',
  {
    commentId: id('comment').notNull(),
    version: integer().notNull(),
    orgId: id('organization').notNull(),
    body: text().notNull(),
    mediaIds: id('media').array().notNull(),
    mentions: id('user').array().notNull(),
    writtenAt: time().notNull(),
  },
  (t) => [primaryKey({ columns: [t.commentId, t.version] })],
)

export const commentMedia = pgTable(
  'comment_media',
  {
    commentId: id('comment').notNull(),
    position: integer().notNull(),
    orgId: id('organization').notNull(),
    eventId: id('event').notNull(),
    mediaId: id('media').notNull(),
  },
  (t) => [primaryKey({ columns: [t.commentId, t.position] })],
)
