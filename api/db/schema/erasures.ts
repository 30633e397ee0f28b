import { integer, jsonb, pgTable, primaryKey, text, uuid } from '../orm.ts'
import { id, time } from './columns.ts'

export const erasures = pgTable('erasures', {
  id: id('anonymization').primaryKey(),
  userId: id('user').notNull(),
  askedBy: text({ enum: ['user', 'administrator', 'ledger'] }).notNull(),
  administratorId: id('user'),
  reason: text(),
  status: text({ enum: ['processing', 'completed'] })
    .notNull()
    .default('processing'),
  requestedAt: time().notNull().defaultNow(),
  completedAt: time(),
  soleOwnerOf: id('organization').array().notNull().default([]),
  leaseUntil: time(),
  leaseHolder: uuid(),
  heldSince: time(),
})
export type ErasureRow = typeof erasures.$inferSelect

export const erasureSteps = pgTable(
  'erasure_steps',
  {
    erasureId: id('anonymization').notNull(),
    step: text().notNull(),
    state: text({ enum: ['pending', 'done'] })
      .notNull()
      .default('pending'),
    attempts: integer().notNull().default(0),
    lastError: text(),
    counts: jsonb().$type<Record<string, number>>().notNull().default({}),
    updatedAt: time().notNull().defaultNow(),
    finishedAt: time(),
  },
  (t) => [primaryKey({ columns: [t.erasureId, t.step] })],
)
export type ErasureStepRow = typeof erasureSteps.$inferSelect

export const ERASED_KINDS = [
  'media',
  'upload',
  'comment',
  'reaction',
  'highlight',
  'invitation',
  'event',
  'album',
] as const
export type ErasedKind = (typeof ERASED_KINDS)[number]

export const erasureResources = pgTable(
  'erasure_resources',
  {
    erasureId: id('anonymization').notNull(),
    kind: text({ enum: ERASED_KINDS }).notNull(),
    resourceId: uuid().notNull(),
    orgId: id('organization').notNull(),
  },
  (t) => [primaryKey({ columns: [t.erasureId, t.kind, t.resourceId] })],
)

export const erasureLedger = pgTable('erasure_ledger', {
  name: text().primaryKey(),
  knownAt: time().notNull().defaultNow(),
})
