import { integer, pgTable, text } from '../orm.ts'
import { bytes, id, time } from './columns.ts'

/** What a download is an export of: the data of its person, entries of the audit log, or an event. */
export const DOWNLOAD_KINDS = ['data', 'audit', 'event'] as const
export type DownloadKind = (typeof DOWNLOAD_KINDS)[number]

export const downloads = pgTable('downloads', {
  id: id('export').primaryKey(),
  userId: id('user').notNull(),
  kind: text({ enum: DOWNLOAD_KINDS }).notNull(),
  files: integer().notNull(),
  bytes: bytes().notNull(),
  createdAt: time().notNull().defaultNow(),
  expiresAt: time().notNull(),
})
export type DownloadRow = typeof downloads.$inferSelect

export const removedDownloads = pgTable('removed_downloads', {
  id: id('export').primaryKey(),
  userId: id('user').notNull(),
  looks: integer().notNull().default(0),
  nextLookAt: time().notNull().defaultNow(),
})
