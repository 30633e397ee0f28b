import { jsonb, pgTable, text } from '../orm.ts'
import { time } from './columns.ts'

export const jwksCache = pgTable('jwks_cache', {
  issuer: text().primaryKey(),
  jwks: jsonb().notNull(),
  fetchedAt: time().notNull(),
})
