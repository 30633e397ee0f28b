import { integer, pgTable, text, timestamp, uuid } from 'drizzle-orm/pg-core'
import { bytes, time } from './columns.ts'

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

/** Only triggers write this table. */
export const userStorage = pgTable('user_storage', {
  userId: uuid().primaryKey(),
  mediaBytes: bytes().notNull().default(0),
  uploadBytes: bytes().notNull().default(0),
  openUploads: integer().notNull().default(0),
})
