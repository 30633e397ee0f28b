import { ROLES } from '../../../lib/contract/roles.ts'
import { integer, pgTable, primaryKey, text } from '../orm.ts'
import { id, time } from './columns.ts'

export const organizations = pgTable('organizations', {
  id: id('organization').primaryKey(),
  name: text().notNull(),
  /** How long archived events are kept, where it is longer than the policy. */
  eventRetentionYears: integer(),
  createdAt: time().notNull().defaultNow(),
})

export const memberships = pgTable(
  'memberships',
  {
    orgId: id('organization').notNull(),
    userId: id('user').notNull(),
    role: text({ enum: ROLES }).notNull(),
    joinedAt: time().notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.orgId, t.userId] })],
)

/** What a search for members reads. Triggers keep it; programs only read it. */
export const memberNames = pgTable(
  'member_names',
  {
    orgId: id('organization').notNull(),
    userId: id('user').notNull(),
    joinedAt: time().notNull(),
    name: text(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.orgId] })],
)
