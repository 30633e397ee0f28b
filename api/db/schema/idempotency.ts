import { integer, jsonb, pgTable, primaryKey, text, uuid } from '../orm.ts'
import { id, time } from './columns.ts'

export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    userId: id('user').notNull(),
    method: text().notNull(),
    route: text().notNull(),
    key: text().notNull(),
    bodyHash: text(),
    state: text({ enum: ['running', 'done'] }).notNull(),
    lockedUntil: time().notNull(),
    holder: uuid().notNull(),
    status: integer(),
    response: jsonb(),
    createdAt: time().notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.userId, t.method, t.route, t.key] })],
)
