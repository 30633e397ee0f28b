import { jsonb, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { time } from './columns.ts'

export const auditLog = pgTable('audit_log', {
  id: uuid().primaryKey(),
  orgId: uuid(),
  actorId: uuid(),
  action: text().notNull(),
  resourceType: text().notNull(),
  resourceId: text(),
  result: text({ enum: ['success', 'failure', 'denied'] }).notNull(),
  ipAddress: text(),
  userAgent: text(),
  requestId: text(),
  clientRequestId: text(),
  details: jsonb().notNull().default({}),
  occurredAt: time().notNull().defaultNow(),
})
