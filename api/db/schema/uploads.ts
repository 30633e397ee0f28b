import type { FieldIssue, ProblemCode } from '../../../lib/contract/problem.ts'
import { integer, jsonb, pgTable, primaryKey, text, uuid } from '../orm.ts'
import { bytes, id, leaseTime, time } from './columns.ts'

export const UPLOAD_STATES = ['open', 'merging', 'completed', 'aborted', 'expired'] as const

/** Why a merge ended the session. */
export interface MergeRefusal {
  code: ProblemCode
  message: string
  status: number
  details?: FieldIssue[]
}

export const uploads = pgTable('uploads', {
  id: id('upload').primaryKey(),
  orgId: id('organization').notNull(),
  uploaderId: id('user').notNull(),
  mediaId: id('media').notNull(),
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
  refusal: jsonb().$type<MergeRefusal>(),
  version: integer().notNull().default(1),
  createdAt: time().notNull().defaultNow(),
  expiresAt: time().notNull(),
  absoluteExpiresAt: time().notNull(),
  storageReleasedAt: time(),
  leaseAt: leaseTime().notNull().default('-infinity'),
  leaseToken: uuid(),
})
export type UploadRow = typeof uploads.$inferSelect

export const uploadChunks = pgTable(
  'upload_chunks',
  {
    orgId: id('organization').notNull(),
    uploadId: id('upload').notNull(),
    chunkIndex: integer().notNull(),
    sizeBytes: bytes().notNull(),
    sha256: text('sha256').notNull(),
    etag: text().notNull(),
    receivedAt: time().notNull().defaultNow(),
  },
  (t) => [primaryKey({ columns: [t.uploadId, t.chunkIndex] })],
)

export const releasedStaging = pgTable('released_staging', {
  uploadId: id('upload').primaryKey(),
  orgId: id('organization').notNull(),
  looks: integer().notNull().default(0),
  nextLookAt: time().notNull(),
})
