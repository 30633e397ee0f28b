import { boolean, integer, pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { time } from './columns.ts'

/** What comments and reactions can be about. */
export const targetType = () => text({ enum: ['meta', 'comment', 'media'] }).notNull()

/** Who may see it among those who can see the event. */
export const audience = () => text({ enum: ['event', 'album'] }).notNull()

export const comments = pgTable('comments', {
  id: uuid().primaryKey(),
  orgId: uuid().notNull(),
  eventId: uuid().notNull(),
  targetType: targetType(),
  targetId: uuid().notNull(),
  mediaId: uuid(),
  audience: audience(),
  authorId: uuid().notNull(),
  body: text().notNull(),
  mentionsGiven: uuid().array().notNull().default([]),
  mentions: uuid().array().notNull().default([]),
  version: integer().notNull().default(1),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
  deletedAt: time(),
  deletedBy: uuid(),
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
    commentId: uuid().notNull(),
    version: integer().notNull(),
    orgId: uuid().notNull(),
    body: text().notNull(),
    mediaIds: uuid().array().notNull(),
    mentions: uuid().array().notNull(),
    writtenAt: time().notNull(),
  },
  (t) => [primaryKey({ columns: [t.commentId, t.version] })],
)

export const commentMedia = pgTable(
  'comment_media',
  {
    commentId: uuid().notNull(),
    position: integer().notNull(),
    orgId: uuid().notNull(),
    eventId: uuid().notNull(),
    mediaId: uuid().notNull(),
  },
  (t) => [primaryKey({ columns: [t.commentId, t.position] })],
)
