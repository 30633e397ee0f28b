import { bigint, integer, jsonb, pgTable, primaryKey, text, timestamp, uuid } from 'drizzle-orm/pg-core'
import type { Manifest } from '../../lib/contract/manifest.ts'

/** Mirrors `migrations/*.sql`, which decide; a test compares the two. Columns are camelCase here, snake_case there. */
const time = () => timestamp({ withTimezone: true, precision: 6, mode: 'date' })
const bytes = () => bigint({ mode: 'number' })

export const users = pgTable('users', {
  id: uuid().primaryKey(),
  issuer: text().notNull(),
  subject: text().notNull(),
  email: text(),
  displayName: text(),
  tokensNotBefore: timestamp({ withTimezone: true, mode: 'string' }).notNull(),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
})

export const organizations = pgTable('organizations', {
  id: uuid().primaryKey(),
  name: text().notNull(),
  createdAt: time().notNull().defaultNow(),
})

export const ROLES = ['owner', 'admin', 'member'] as const
export type Role = (typeof ROLES)[number]

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

export interface ConversionError {
  code: 'UNSUPPORTED_CODEC' | 'CORRUPT_INPUT' | 'LIMIT_EXCEEDED' | 'TIMEOUT' | 'INTERNAL'
  message: string
}
export interface ConversionProgress {
  percent: number
  speed: string | null
  eta_sec: number | null
  stage: string | null
}

export const media = pgTable('media', {
  id: uuid().primaryKey(),
  orgId: uuid().notNull(),
  uploaderId: uuid().notNull(),
  originalFilename: text().notNull(),
  mimeType: text().notNull(),
  kind: text({ enum: ['image', 'video'] }).notNull(),
  fileSizeBytes: bytes().notNull(),
  sha256: text(),
  uploadStatus: text({ enum: ['processing', 'completed', 'failed'] })
    .notNull()
    .default('processing'),
  version: integer().notNull().default(1),
  livePhotoPairId: uuid(),
  assetIdentifier: text(),
  outputPrefix: text(),
  hlsMaster: text(),
  manifest: jsonb().$type<Manifest>(),
  generation: integer().notNull().default(1),
  conversionState: text({ enum: ['queued', 'running', 'succeeded', 'failed'] })
    .notNull()
    .default('queued'),
  conversionAttempts: integer().notNull().default(0),
  conversionStartedAt: time(),
  conversionFinishedAt: time(),
  conversionError: jsonb().$type<ConversionError>(),
  conversionProgress: jsonb().$type<ConversionProgress>(),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
  deletedAt: time(),
  deletedBy: uuid(),
})
export type MediaRow = typeof media.$inferSelect

export const objectIntents = pgTable('object_intents', {
  mediaId: uuid().primaryKey(),
  orgId: uuid().notNull(),
  createdAt: time().notNull().defaultNow(),
  abandonedAt: time(),
})

export const UPLOAD_STATES = ['open', 'merging', 'completed', 'aborted', 'expired'] as const

export const uploads = pgTable('uploads', {
  id: uuid().primaryKey(),
  orgId: uuid().notNull(),
  uploaderId: uuid().notNull(),
  mediaId: uuid().notNull(),
  state: text({ enum: UPLOAD_STATES }).notNull().default('open'),
  layout: text({ enum: ['multipart', 'staged'] }).notNull(),
  multipartId: text(),
  filename: text().notNull(),
  mimeType: text().notNull(),
  fileSizeBytes: bytes().notNull(),
  chunkSizeBytes: bytes().notNull(),
  totalChunks: integer().notNull(),
  checksumSha256: text('checksum_sha256'),
  livePhotoPairId: uuid(),
  assetIdentifier: text(),
  mergeLeaseUntil: time(),
  mergeLeaseHolder: uuid(),
  version: integer().notNull().default(1),
  createdAt: time().notNull().defaultNow(),
  expiresAt: time().notNull(),
  absoluteExpiresAt: time().notNull(),
  storageReleasedAt: time(),
})
export type UploadRow = typeof uploads.$inferSelect

export const uploadChunks = pgTable(
  'upload_chunks',
  {
    orgId: uuid().notNull(),
    uploadId: uuid().notNull(),
    chunkIndex: integer().notNull(),
    sizeBytes: bytes().notNull(),
    sha256: text('sha256').notNull(),
    etag: text().notNull(),
    receivedAt: time().notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.uploadId, t.chunkIndex] })],
)

export const outbox = pgTable('outbox', {
  id: uuid().primaryKey(),
  orgId: uuid().notNull(),
  area: text().notNull(),
  aggregateId: uuid().notNull(),
  aggregateVersion: integer().notNull(),
  type: text().notNull(),
  payload: jsonb().notNull(),
  traceparent: text(),
  createdAt: time().notNull().defaultNow(),
  publishedAt: time(),
  attempts: integer().notNull().default(0),
  nextAttemptAt: time().notNull().defaultNow(),
  lastError: text(),
})

export const auditLog = pgTable('audit_log', {
  id: uuid().primaryKey(),
  orgId: uuid(),
  actorId: uuid(),
  action: text().notNull(),
  resourceType: text().notNull(),
  resourceId: text(),
  result: text({ enum: ['success', 'failure', 'denied'] }).notNull(),
  ipAddress: text(),
  userAgent: text(),
  requestId: text(),
  details: jsonb().notNull().default({}),
  occurredAt: time().notNull().defaultNow(),
})

export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    userId: uuid().notNull(),
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

export const jwksCache = pgTable('jwks_cache', {
  issuer: text().primaryKey(),
  jwks: jsonb().notNull(),
  fetchedAt: time().notNull(),
})
