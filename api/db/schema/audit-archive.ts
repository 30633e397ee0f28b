import { date, integer, jsonb, pgTable, text, uuid } from '../orm.ts'
import { bytes, time } from './columns.ts'

export const ARCHIVE_TIERS = ['warm', 'cold', 'purged'] as const

/** Days of the audit log that are read from an object. A day without a row is read from the database. */
export const auditArchives = pgTable('audit_archives', {
  day: date({ mode: 'string' }).primaryKey(),
  tier: text({ enum: ARCHIVE_TIERS }).notNull(),
  objectKey: text().notNull(),
  leftKey: text(),
  entries: integer().notNull(),
  late: integer().notNull(),
  bytes: bytes().notNull(),
  sha256: text().notNull(),
  members: jsonb().$type<[actor: string | null, at: string, offset: number][]>().notNull(),
  previousSha256: text().notNull(),
  manifestSha256: text().notNull(),
  archivedAt: time().notNull().defaultNow(),
})
/** Days that are due for another tier, and who works on them. */
export const auditDayLeases = pgTable('audit_day_leases', {
  id: uuid().primaryKey(),
  day: date({ mode: 'string' }).notNull(),
  leaseAt: time().notNull(),
  leaseToken: uuid(),
})
/** Objects of days that are being written, or that were given up. */
export const auditDayAttempts = pgTable('audit_day_attempts', {
  id: uuid().primaryKey(),
  day: date({ mode: 'string' }).notNull(),
  leaseToken: uuid().notNull(),
  objectKey: text().notNull(),
  begunAt: time().notNull().defaultNow(),
  givenUpAt: time(),
  lookAt: time().notNull().defaultNow(),
})

export type AuditArchiveRow = typeof auditArchives.$inferSelect
