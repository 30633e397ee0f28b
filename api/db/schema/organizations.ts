import { pgTable, primaryKey, text, uuid } from 'drizzle-orm/pg-core'
import { ROLES } from '../../../lib/contract/roles.ts'
import { time } from './columns.ts'

export const organizations = pgTable('organizations', {
  id: uuid().primaryKey(),
  name: text().notNull(),
  createdAt: time().notNull().defaultNow(),
})

export const memberships = pgTable(
  'memberships',
  {
    orgId: uuid().notNull(),
    userId: uuid().notNull(),
    role: text({ enum: ROLES }).notNull(),
    joinedAt: time().notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.orgId, t.userId] })],
)
