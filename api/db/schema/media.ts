import type { ConversionErrorCode } from '../../../lib/contract/conversion-error.ts'
import type { Manifest } from '../../../lib/contract/manifest.ts'
import { boolean, date, integer, jsonb, pgTable, sql, text, uuid } from '../orm.ts'
import { bytes, id, leaseTime, time } from './columns.ts'
import type { Progress } from './progress.ts'

export interface ConversionError {
  code: ConversionErrorCode
  message: string
  /** What the cluster called it, for administrators: see `media retry`. Never shown to clients. */
  reason?: string
}

export const media = pgTable('media', {
  id: id('media').primaryKey(),
  orgId: id('organization').notNull(),
  uploaderId: id('user').notNull(),
  originalFilename: text().notNull(),
  mimeType: text().notNull(),
  kind: text({ enum: ['image', 'video'] }).notNull(),
  fileSizeBytes: bytes().notNull(),
  sha256: text(),
  originalTier: text({ enum: ['hot', 'both', 'cold'] })
    .notNull()
    .default('hot'),
  uploadStatus: text({ enum: ['processing', 'completed', 'failed'] })
    .notNull()
    .default('processing'),
  version: integer().notNull().default(1),
  livePhotoPairId: uuid(),
  assetIdentifier: text(),
  outputPrefix: text(),
  hlsMaster: text(),
  manifest: jsonb().$type<Manifest>(),
  imageFile: text(),
  imageIsOriginal: boolean().notNull().default(false),
  webpFile: text(),
  thumbFile: text(),
  placeholder: text(),
  capturedAt: time(),
  takenAt: time().notNull().generatedAlwaysAs(sql`coalesce(captured_at, created_at)`),
  pairedMediaId: id('media'),
  listed: boolean()
    .notNull()
    .generatedAlwaysAs(sql`deleted_at is null and not (kind = 'video' and paired_media_id is not null)`),
  generation: integer().notNull().default(1),
  conversionState: text({ enum: ['queued', 'running', 'succeeded', 'failed'] })
    .notNull()
    .default('queued'),
  conversionAttempts: integer().notNull().default(0),
  conversionStartedAt: time(),
  conversionFinishedAt: time(),
  conversionError: jsonb().$type<ConversionError>(),
  conversionProgress: jsonb().$type<Progress>(),
  conversionAdmittedAt: time(),
  conversionBatch: uuid(),
  conversionPriority: text({ enum: ['interactive', 'backfill'] }),
  conversionRegrouped: integer().notNull().default(0),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
  deletedAt: time(),
  deletedBy: id('user'),
  purgingAt: time(),
  purgeLeaseUntil: time(),
  leaseAt: leaseTime().notNull().default('-infinity'),
  leaseToken: uuid(),
  /** The event whose purge has taken it out of the library. */
  leavingWith: id('event'),
  /** What it had in the store then, as `event-archive/purge.ts` digests it. */
  leavingObjects: text(),
})
export type MediaRow = typeof media.$inferSelect

/** Only triggers write this table and the next one. */
export const mediaMonths = pgTable('media_months', {
  orgId: id('organization').notNull(),
  month: date().notNull(),
  mediaCount: bytes().notNull(),
})
export const mediaMonthChanges = pgTable('media_month_changes', {
  orgId: id('organization').notNull(),
  month: date().notNull(),
  change: bytes().notNull(),
})

export const purgedMedia = pgTable('purged_media', {
  mediaId: id('media').primaryKey(),
  orgId: id('organization').notNull(),
  purgedAt: time().notNull().defaultNow(),
  looks: integer().notNull().default(0),
  nextLookAt: time().notNull(),
})

export const objectIntents = pgTable('object_intents', {
  mediaId: id('media').primaryKey(),
  orgId: id('organization').notNull(),
  createdAt: time().notNull().defaultNow(),
  abandonedAt: time(),
})
