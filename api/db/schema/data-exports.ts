import { boolean, integer, pgTable, primaryKey, text, uuid } from '../orm.ts'
import { bytes, id, time } from './columns.ts'

export const DATA_EXPORT_STATES = [
  'planning',
  'making',
  'planning_event',
  'making_event',
  'completed',
  'failed',
  'removed',
] as const

/** Why there is no export of an event: for the person who asked. */
export const EXPORT_FAILURES = ['not_permitted', 'event_gone', 'contents_erased'] as const
export type ExportFailure = (typeof EXPORT_FAILURES)[number]

export const dataExports = pgTable('data_exports', {
  id: id('export').primaryKey(),
  userId: id('user').notNull(),
  /** Of an event; null for a person's own data. */
  eventId: id('event'),
  orgId: id('organization'),
  eventTitle: text(),
  eventOwnerId: id('user'),
  failure: text({ enum: EXPORT_FAILURES }),
  state: text({ enum: DATA_EXPORT_STATES }).notNull(),
  attempts: integer().notNull().default(0),
  holder: uuid(),
  leaseUntil: time(),
  nextAttemptAt: time().notNull().defaultNow(),
  error: text(),
  openPart: integer().notNull().default(1),
  planned: boolean().notNull().default(false),
  workedAt: time().notNull().defaultNow(),
  createdAt: time().notNull().defaultNow(),
  completedAt: time(),
  expiresAt: time(),
})
export type DataExportRow = typeof dataExports.$inferSelect

export const dataExportParts = pgTable(
  'data_export_parts',
  {
    exportId: id('export').notNull(),
    number: integer().notNull(),
    userId: id('user').notNull(),
    state: text({ enum: ['waiting', 'made'] })
      .notNull()
      .default('waiting'),
    files: integer().notNull().default(0),
    bytes: bytes().notNull().default(0),
    doneBytes: bytes().notNull().default(0),
    key: text(),
    attempts: integer().notNull().default(0),
    failures: integer().notNull().default(0),
    holder: uuid(),
    leaseUntil: time(),
    nextAttemptAt: time().notNull().defaultNow(),
    error: text(),
    madeAt: time(),
  },
  (t) => [primaryKey({ columns: [t.exportId, t.number] })],
)
export type DataExportPartRow = typeof dataExportParts.$inferSelect

export const dataExportEntries = pgTable(
  'data_export_entries',
  {
    exportId: id('export').notNull(),
    mediaId: id('media').notNull(),
    orgId: id('organization').notNull(),
    part: integer().notNull(),
    path: text().notNull(),
    wantedKey: text().notNull(),
    pathKey: text().notNull(),
    nth: integer().notNull(),
    bytes: bytes().notNull(),
    takenAt: time().notNull(),
    mimeType: text().notNull(),
    /** Of a file of a film; the first playlist has the id of the highlight as `mediaId`. */
    highlightId: id('highlight'),
    objectKey: text(),
  },
  (t) => [primaryKey({ columns: [t.exportId, t.mediaId] })],
)
export type DataExportEntryRow = typeof dataExportEntries.$inferSelect

/** Whose data are in an export of an event. */
export const dataExportPeople = pgTable(
  'data_export_people',
  { exportId: id('export').notNull(), userId: id('user').notNull() },
  (t) => [primaryKey({ columns: [t.exportId, t.userId] })],
)
