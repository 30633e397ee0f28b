import { bigint, boolean, customType, date, integer, jsonb, pgTable, primaryKey, text } from '../orm.ts'
import { bytea, id, time } from './columns.ts'

const RESULTS = ['success', 'failure', 'denied'] as const

const given = () => ({
  id: id('audit').notNull(),
  /** Null for what belongs to no organization, such as a sign-in. */
  orgId: id('organization'),
  actorId: id('user'),
  action: text().notNull(),
  resourceType: text().notNull(),
  resourceId: text(),
  result: text({ enum: RESULTS }).notNull(),
  requestId: text(),
  clientRequestId: text(),
  details: jsonb().notNull().default({}),
  /** Address, user agent and names, encrypted: `openBox` in `api/audit/personal-data.ts`. */
  personal: bytea(),
  keyVersion: integer(),
  /** Of the address: `AddressIndex`. */
  addressIndex: bytea(),
})

/** The columns that a program may write. drizzle names every column of a table in its inserts. */
export const auditLog = pgTable('audit_log', given())

const xid8 = customType<{ data: string; driverData: string }>({ dataType: () => 'xid8' })

/** The whole log, for readers. Partitioned by the UTC day of `occurredAt`: name bounds of it in every query. */
export const auditEntries = pgTable(
  'audit_log',
  {
    ...given(),
    occurredAt: time().notNull(),
    /** Of entries that a version before encryption wrote, until they are sealed. */
    ipAddress: text(),
    userAgent: text(),
    txid: xid8().notNull(),
    serial: bigint({ mode: 'bigint' }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.occurredAt, t.id] })],
)

/** One per sealed entry. An entry of a closed day is in the chain of a later one. Partitioned by `day`. */
export const auditLinks = pgTable(
  'audit_links',
  {
    day: date({ mode: 'string' }).notNull(),
    /** The nil UUID for entries without an organization. */
    orgId: id('organization').notNull(),
    seq: bigint({ mode: 'number' }).notNull(),
    occurredAt: time().notNull(),
    entryId: id('audit').notNull(),
    hash: bytea().notNull(),
  },
  (t) => [primaryKey({ columns: [t.day, t.orgId, t.seq] })],
)

/** The end of each chain. */
export const auditHeads = pgTable(
  'audit_heads',
  {
    day: date({ mode: 'string' }).notNull(),
    orgId: id('organization').notNull(),
    count: bigint({ mode: 'number' }).notNull(),
    hash: bytea().notNull(),
  },
  (t) => [primaryKey({ columns: [t.day, t.orgId] })],
)

/** Where the sealer is: one row. */
export const auditCursor = pgTable('audit_cursor', {
  one: boolean().primaryKey().default(true),
  upto: xid8().notNull(),
  serial: bigint({ mode: 'bigint' }).notNull(),
  floor: bigint({ mode: 'bigint' }).notNull(),
  systemIdentifier: text().notNull(),
  beforeAt: time(),
  beforeId: id('audit'),
  closedUntil: date({ mode: 'string' }).notNull(),
  sealed: bigint({ mode: 'number' }).notNull(),
  timeline: integer().notNull(),
  anchoredAt: time(),
})

/** Days whose chains get no more links. */
export const auditDays = pgTable('audit_days', {
  day: date({ mode: 'string' }).primaryKey(),
  closedAt: time().notNull().defaultNow(),
  anchoredAt: time(),
  anchorSha256: text(),
})

/** Restores of the database to an earlier time, as the sealer noticed them. */
export const auditRestores = pgTable('audit_restores', {
  timeline: integer().primaryKey(),
  fromTimeline: integer().notNull(),
  noticedAt: time().notNull().defaultNow(),
  sealed: bigint({ mode: 'number' }).notNull(),
  anchoredSealed: bigint({ mode: 'number' }).notNull(),
  anchoredAt: time().notNull(),
  entryId: id('audit').notNull(),
})

/** On which UTC days a person has sealed entries. */
export const auditActorDays = pgTable(
  'audit_actor_days',
  { actorId: id('user').notNull(), day: date({ mode: 'string' }).notNull() },
  (t) => [primaryKey({ columns: [t.actorId, t.day] })],
)

/** Wrapped keys of personal data; version 0 without a key says that the keys of a person were shredded. */
export const auditKeys = pgTable(
  'audit_keys',
  {
    personId: id('user').notNull(),
    version: integer().notNull(),
    masterId: text(),
    wrapped: bytea(),
    createdAt: time().notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.personId, t.version] })],
)

/** From which UTC days on there are daily partitions; what is older lies in audit_log_before: one row. */
export const auditSince = pgTable('audit_since', {
  one: boolean().primaryKey().default(true),
  log: date({ mode: 'string' }).notNull(),
  links: date({ mode: 'string' }).notNull(),
})
