import { bigint, integer, jsonb, pgTable, primaryKey, text, uuid } from '../orm.ts'
import { id, time } from './columns.ts'

export const inbox = pgTable(
  'inbox',
  {
    consumer: text().notNull(),
    messageId: id('message').notNull(),
    receivedAt: time().notNull().defaultNow(),
  },
  (table) => [primaryKey({ columns: [table.consumer, table.messageId] })],
)

export const parkedEvents = pgTable(
  'parked_events',
  {
    consumer: text().notNull(),
    messageId: id('message').notNull(),
    position: bigint({ mode: 'number' }).generatedAlwaysAsIdentity(),
    subject: text().notNull(),
    streamSeq: bigint({ mode: 'number' }).notNull(),
    aggregateId: uuid(),
    reason: text(),
    attempts: integer().notNull(),
    firstAt: time().notNull().defaultNow(),
    lastAt: time().notNull().defaultNow(),
    replayAt: time(),
    event: jsonb().notNull(),
  },
  (table) => [primaryKey({ columns: [table.consumer, table.messageId] })],
)

export const suspectedEvents = pgTable(
  'suspected_events',
  {
    consumer: text().notNull(),
    messageId: id('message').notNull(),
    attempts: integer().notNull(),
    lastAt: time().notNull().defaultNow(),
  },
  (table) => [primaryKey({ columns: [table.consumer, table.messageId] })],
)

export const consumerPositions = pgTable('consumer_positions', {
  consumer: text().primaryKey(),
  history: text().notNull(),
  streamSeq: bigint({ mode: 'number' }).notNull(),
  unconfirmedTo: bigint({ mode: 'number' }).notNull().default(0),
})

export const eventStreams = pgTable('event_streams', {
  name: text().primaryKey(),
  createdAt: time().notNull(),
})
