import type { HighlightErrorCode } from '../../../lib/contract/highlight-error.ts'
import type { HighlightManifest } from '../../../lib/contract/highlight-manifest.ts'
import type { Uuid } from '../../../lib/contract/ids.ts'
import { boolean, doublePrecision, integer, jsonb, pgTable, primaryKey, text, uuid } from '../orm.ts'
import { bytes, id, leaseTime, time } from './columns.ts'
import type { Progress } from './progress.ts'

export interface HighlightError {
  code: HighlightErrorCode
  message: string
  /** The media item that it is about. */
  mediaId: Uuid | null
}

export const highlights = pgTable('highlights', {
  id: id('highlight').primaryKey(),
  orgId: id('organization').notNull(),
  createdBy: id('user').notNull(),
  albumId: id('album'),
  title: text().notNull(),
  transition: text({ enum: ['cut', 'crossfade', 'fade'] }).notNull(),
  musicTrackId: id('track'),
  orientation: text({ enum: ['auto', 'landscape', 'portrait', 'square'] }).notNull(),
  fill: text({ enum: ['blur', 'black'] }).notNull(),
  kenBurns: boolean().notNull(),
  showTitle: boolean().notNull(),
  captions: text({ enum: ['none', 'caption', 'date'] }).notNull(),
  skipBroken: boolean().notNull(),
  estimatedDurationSec: doublePrecision().notNull(),
  status: text({ enum: ['processing', 'completed', 'failed'] })
    .notNull()
    .default('processing'),
  version: integer().notNull().default(1),
  generation: integer().notNull().default(1),
  renderState: text({ enum: ['queued', 'running', 'succeeded', 'failed'] })
    .notNull()
    .default('queued'),
  renderAttempts: integer().notNull().default(0),
  renderStartedAt: time(),
  renderAdmittedAt: time(),
  renderProgress: jsonb().$type<Progress>(),
  outputPrefix: text(),
  hlsMaster: text(),
  webpFile: text(),
  thumbFile: text(),
  placeholder: text(),
  durationSec: doublePrecision(),
  manifest: jsonb().$type<HighlightManifest>(),
  error: jsonb().$type<HighlightError>(),
  createdAt: time().notNull().defaultNow(),
  updatedAt: time().notNull().defaultNow(),
  finishedAt: time(),
  deletedAt: time(),
  deletedBy: id('user'),
  purgeAt: time(),
  purgeLeaseUntil: time(),
  purgeLooks: integer().notNull().default(0),
})
export type HighlightRow = typeof highlights.$inferSelect

export const highlightItems = pgTable(
  'highlight_items',
  {
    highlightId: id('highlight').notNull(),
    position: integer().notNull(),
    orgId: id('organization').notNull(),
    mediaId: id('media').notNull(),
    sourceId: id('media').notNull(),
    uploaderId: id('user').notNull(),
    type: text({ enum: ['image', 'video', 'motion'] }).notNull(),
    seconds: doublePrecision().notNull(),
    caption: text().notNull(),
    skipped: text(),
    captionBy: id('user'),
  },
  (t) => [primaryKey({ columns: [t.highlightId, t.position] })],
)
export type HighlightItemRow = typeof highlightItems.$inferSelect
export type ItemType = HighlightItemRow['type']

/** Pieces of a source, which are kept for later highlights. Triggers insert the rows. */
export const mediaPieces = pgTable('media_pieces', {
  mediaId: id('media').primaryKey(),
  orgId: id('organization').notNull(),
  usedBy: id('user'),
  usedAt: time().notNull(),
  bytes: bytes().notNull().default(0),
  measuredAt: time(),
  leaseAt: leaseTime().notNull().default('-infinity'),
  leaseToken: uuid(),
})

export const musicTracks = pgTable('music_tracks', {
  id: id('track').primaryKey(),
  title: text().notNull(),
  license: text().notNull(),
  attribution: text().notNull(),
  durationSec: doublePrecision().notNull(),
  mimeType: text().notNull(),
  fileSizeBytes: bytes().notNull(),
  createdAt: time().notNull().defaultNow(),
  retiredAt: time(),
})
export type MusicTrackRow = typeof musicTracks.$inferSelect
