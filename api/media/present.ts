import { formatId } from '../../lib/contract/ids.ts'
import { originalKey } from '../../lib/contract/object-keys.ts'
import type { MediaRow } from '../db/schema/media.ts'
import type { Links } from '../deps.ts'
import { timestamp } from '../http/schemas.ts'
import type { Media, MediaMetadata, UploadedMedia } from './media.ts'
import type { ListedMedia } from './queries.ts'

export function toMedia(row: ListedMedia | MediaRow, links: Links): Media {
  return {
    media_id: formatId('media', row.id),
    org_id: formatId('organization', row.orgId),
    uploader_id: formatId('user', row.uploaderId),
    original_filename: row.originalFilename,
    mime_type: row.mimeType,
    file_size_bytes: row.fileSizeBytes,
    upload_status: row.uploadStatus,
    created_at: typeof row.createdAt === 'string' ? toMilliseconds(row.createdAt) : timestamp(row.createdAt),
    original_url: links.url(originalKey(row.orgId, row.id)),
    expires_in: links.expiresIn,
    variants: {
      image_url: null,
      image_webp_url: null,
      hls_master_url: row.outputPrefix && row.hlsMaster ? links.url(row.outputPrefix + row.hlsMaster) : null,
      live_photo_video_url: null,
      asset_identifier: row.assetIdentifier,
    },
    conversion_progress: progressOf(row),
  }
}

/** Truncates, as Date does. */
const toMilliseconds = (isoWithMicroseconds: string) => `${isoWithMicroseconds.slice(0, 23)}Z`

const progressOf = (row: Pick<MediaRow, 'uploadStatus' | 'conversionProgress'>) =>
  row.uploadStatus === 'processing' ? row.conversionProgress : null

export const toUploadedMedia = (row: MediaRow): UploadedMedia => ({
  media_id: formatId('media', row.id),
  org_id: formatId('organization', row.orgId),
  original_filename: row.originalFilename,
  mime_type: row.mimeType,
  file_size_bytes: row.fileSizeBytes,
  upload_status: row.uploadStatus,
  created_at: timestamp(row.createdAt),
})

/** EXIF orientation by degrees of clockwise rotation. */
const ORIENTATION: Record<number, number> = { 0: 1, 90: 6, 180: 3, 270: 8 }

export function toMetadata(row: MediaRow, mayLocate: boolean): MediaMetadata {
  const source = row.manifest?.source
  return {
    media_id: formatId('media', row.id),
    captured_at: source?.capturedAt ? new Date(source.capturedAt).toISOString() : null,
    width: source?.width ?? null,
    height: source?.height ?? null,
    duration_sec: source?.durationSec ?? null,
    orientation: source ? (ORIENTATION[((source.rotation % 360) + 360) % 360] ?? null) : null,
    camera: { make: source?.camera.make ?? null, model: source?.camera.model ?? null },
    location: (mayLocate && source?.location) || null,
    exif: {},
    conversion: {
      state: row.conversionState,
      attempts: row.conversionAttempts,
      started_at: timestamp(row.conversionStartedAt),
      finished_at: timestamp(row.conversionFinishedAt),
      error: row.conversionError,
      progress: progressOf(row),
      renditions: (row.manifest?.hls.renditions ?? []).map((r) => ({
        name: r.name,
        width: r.width,
        height: r.height,
        bandwidth: r.bandwidth,
        codecs: r.codecs,
        frame_rate: r.frameRate,
      })),
    },
  }
}
