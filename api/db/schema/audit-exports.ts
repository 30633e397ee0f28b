import { bigint, integer, jsonb, pgTable, text, uuid } from '../orm.ts'
import { bytes, id, time } from './columns.ts'

export const AUDIT_EXPORT_FORMATS = ['csv', 'jsonl'] as const

/** Files of audit entries for one administrator. */
export const auditExports = pgTable('audit_exports', {
  id: id('export').primaryKey(),
  userId: id('user').notNull(),
  format: text({ enum: AUDIT_EXPORT_FORMATS }).notNull(),
  filters: jsonb().$type<Record<string, unknown>>().notNull(),
  until: time().notNull(),
  state: text({ enum: ['processing', 'completed', 'failed'] })
    .notNull()
    .default('processing'),
  positionAt: text(),
  positionId: id('audit'),
  entries: bigint({ mode: 'number' }).notNull().default(0),
  bytes: bytes().notNull().default(0),
  objectKey: text(),
  uploadId: text(),
  etags: text().array().notNull().default([]),
  attempts: integer().notNull().default(0),
  failures: integer().notNull().default(0),
  holder: uuid(),
  leaseUntil: time(),
  nextAttemptAt: time().notNull().defaultNow(),
  error: text(),
  createdAt: time().notNull().defaultNow(),
  completedAt: time(),
  expiresAt: time(),
})
export type AuditExportRow = typeof auditExports.$inferSelect
