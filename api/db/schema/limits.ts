import { bigint, integer, pgTable, text } from '../orm.ts'

/** Named and ordered as rate-limiter-flexible's statements expect. */
export const rateLimits = pgTable('rate_limits', {
  key: text().primaryKey(),
  points: integer().notNull().default(0),
  /** Milliseconds since 1970. */
  expire: bigint({ mode: 'number' }),
})
