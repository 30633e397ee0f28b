import { bigint, boolean, integer, jsonb, pgTable, text, uuid } from '../orm.ts'
import { id, time } from './columns.ts'

export const outbox = pgTable('outbox', {
  id: id('message').primaryKey(),
  orgId: id('organization').notNull(),
  area: text().notNull(),
  aggregateId: uuid().notNull(),
  aggregateVersion: integer().notNull(),
  type: text().notNull(),
  payload: jsonb().notNull(),
  traceparent: text(),
  createdAt: time().notNull().defaultNow(),
  publishedAt: time(),
  streamSeq: bigint({ mode: 'number' }),
  attempts: integer().notNull().default(0),
  nextAttemptAt: time().notNull().defaultNow(),
  lastError: text(),
  isRepeated: boolean().notNull().default(false),
})
