import { pgTable, text, timestamp, uuid } from 'drizzle-orm/pg-core'
import { time } from './columns.ts'

export const users = pgTable('users', {
  id: uuid().primaryKey(),
  issuer: text().notNull(),
  subject: text().notNull(),
  email: text(),
  displayName: text(),
  tokensNotBefore: timestamp({ withTimezone: true, mode: 'string' }).notNull(),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})
