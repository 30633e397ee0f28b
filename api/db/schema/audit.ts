import { jsonb, pgTable, text } from 'drizzle-orm/pg-core'
import { id, time } from './columns.ts'

export const auditLog = pgTable('audit_log', {
  id: id('audit').primaryKey(),
  orgId: id('organization'),
  actorId: id('user'),
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
