import { jsonb, pgTable, text } from 'drizzle-orm/pg-core'
import { time } from './columns.ts'

export const jwksCache = pgTable('jwks_cache', {
  issuer: text().primaryKey(),
  jwks: jsonb().notNull(),
  fetchedAt: time().notNull(),
})
