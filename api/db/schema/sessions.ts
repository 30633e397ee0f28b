import { pgTable, primaryKey, text } from 'drizzle-orm/pg-core'
import { id, time } from './columns.ts'

export const sessions = pgTable(
  'sessions',
  {
    userId: id('user').notNull(),
    /** The claim `sid`, or `auth_time …` (`signInOf` in api/auth/policy.ts). */
    sid: text().notNull(),
    firstSeenAt: time().notNull(),
    lastSeenAt: time().notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.sid] })],
)
