import type { RetentionRule } from '../../../crds/retention-rules.ts'
import { RETENTION_TARGETS } from '../../../crds/retention-rules.ts'
import { RETENTION_ENDS, type RetentionError } from '../../../lib/contract/retention.ts'
import { boolean, customType, jsonb, pgTable, primaryKey, text, uuid } from '../orm.ts'
import { bytes, id, leaseTime, time } from './columns.ts'

const interval = customType<{ data: string }>({ dataType: () => 'interval' })

/** The policies that are in force in the cluster, kept by the worker. */
export const retentionPolicies = pgTable('retention_policies', {
  target: text({ enum: RETENTION_TARGETS }).primaryKey(),
  name: text().notNull(),
  uid: text().notNull(),
  rules: jsonb().$type<RetentionRule[]>().notNull(),
  purgeAfter: interval(),
  suspended: boolean().notNull(),
  dryRun: boolean().notNull(),
  observedAt: time().notNull().defaultNow(),
})
export type RetentionPolicyRow = typeof retentionPolicies.$inferSelect

/** How the worker sees the policies of the cluster: one row. */
export const retentionMirror = pgTable('retention_mirror', {
  one: boolean().primaryKey().default(true),
  version: bytes().notNull().default(0),
  notServedSince: time(),
  notServedAt: time(),
})

/** The worker's sweep of each target. */
export const retentionSweeps = pgTable('retention_sweeps', {
  target: text({ enum: RETENTION_TARGETS }).primaryKey(),
  clockAt: time(),
  refused: text({ enum: ['ConfirmationRequired', 'ClockSkew'] }),
  reason: text(),
  refusedSince: time(),
  askedAt: time(),
  due: bytes(),
  confirmedDue: bytes(),
  confirmedAt: time(),
})
export type RetentionSweepRow = typeof retentionSweeps.$inferSelect

export const retentionRuns = pgTable('retention_runs', {
  run: text().primaryKey(),
  policy: text().notNull(),
  policyUid: text().notNull(),
  target: text({ enum: RETENTION_TARGETS }).notNull(),
  slot: time().notNull(),
  clockAt: time(),
  purgeAfter: interval(),
  dryRun: boolean().notNull(),
  due: bytes().notNull().default(0),
  held: bytes().notNull().default(0),
  ended: text({ enum: RETENTION_ENDS }),
  reason: text(),
  errors: jsonb().$type<RetentionError[]>().notNull().default([]),
  report: text(),
  leaseAt: leaseTime().notNull().default('-infinity'),
  leaseToken: uuid(),
  startedAt: time().notNull().defaultNow(),
  finishedAt: time(),
})
export type RetentionRunRow = typeof retentionRuns.$inferSelect

/** What each process of a run has done. */
export const retentionCounts = pgTable(
  'retention_counts',
  {
    run: text().notNull(),
    process: uuid().notNull(),
    moved: bytes().notNull().default(0),
    purged: bytes().notNull().default(0),
    bytes: bytes().notNull().default(0),
    failures: bytes().notNull().default(0),
  },
  (t) => [primaryKey({ columns: [t.run, t.process] })],
)

export const HOLD_KINDS = ['person', 'event', 'organization'] as const
export type HoldKind = (typeof HOLD_KINDS)[number]

export const legalHolds = pgTable('legal_holds', {
  id: id('hold').primaryKey(),
  kind: text({ enum: HOLD_KINDS }).notNull(),
  subject: uuid().notNull(),
  reason: text().notNull(),
  placedBy: text().notNull(),
  createdAt: time().notNull().defaultNow(),
  releasedAt: time(),
})
export type LegalHoldRow = typeof legalHolds.$inferSelect
