import { date, integer, jsonb, pgTable, text } from '../orm.ts'
import { bytes, time } from './columns.ts'

export const ARCHIVE_TIERS = ['warm', 'cold'] as const

/** Days of the audit log that are read from an object. A day without a row is read from the database. */
export const auditArchives = pgTable('audit_archives', {
  day: date({ mode: 'string' }).primaryKey(),
  tier: text({ enum: ARCHIVE_TIERS }).notNull(),
  objectKey: text().notNull(),
  entries: integer().notNull(),
  late: integer().notNull(),
  bytes: bytes().notNull(),
  sha256: text().notNull(),
  members: jsonb().$type<[actor: string | null, at: string, offset: number][]>().notNull(),
  previousSha256: text().notNull(),
  manifestSha256: text().notNull(),
  archivedAt: time().notNull().defaultNow(),
})
export type AuditArchiveRow = typeof auditArchives.$inferSelect
