import type { Manifest } from '../../../lib/contract/manifest.ts'
import { originalKey } from '../../../lib/contract/object-keys.ts'
import type { MediaRow } from '../../db/schema/media.ts'
import type { Links } from '../../deps.ts'
import type { Now } from '../../permissions/permit.ts'
import { timestamp } from '../../requests/schemas.ts'
import type { Media, MediaMetadata, UploadedMedia } from './media.ts'
import { MEDIA, type MediaSeen, VISIBLE } from './policy.ts'
import type { DescribedMedia, FoundMedia, ListedMedia } from './queries.ts'
import { variantKeys } from './variants.ts'

export interface Showing {
  links: Links
  now: Now
}

/** `seen`: of a deleted one its deletion, and for guests that they are shown it. */
export function toMedia(
  row: ListedMedia | FoundMedia,
  { links, now }: Showing,
  seen: Omit<MediaSeen, 'uploaderId'> = VISIBLE,
): Media {
  return {
    media_id: row.id,
    org_id: row.orgId,
    uploader_id: row.uploaderId,
    original_filename: row.originalFilename,
    mime_type: row.mimeType,
    file_size_bytes: row.fileSizeBytes,
    upload_status: row.uploadStatus,
    created_at: typeof row.createdAt === 'string' ? toMilliseconds(row.createdAt) : timestamp(row.createdAt),
    captured_at: timestamp(row.capturedAt),
    original_url: links.url(originalKey(row.orgId, row.id)),
    expires_in: links.expiresIn,
    variants: toVariants(row, links),
    placeholder: row.placeholder,
    conversion_progress: progressOf(row),
    can: now(MEDIA, { uploaderId: row.uploaderId, ...seen }),
  }
}

/** A media item that was shown before, with links that are as new as those of `toMedia`. */
export function withNewLinks<M extends Pick<Media, 'original_url' | 'expires_in' | 'variants'>>(
  shown: M,
  links: Links,
): M {
  const renewed = (link: string | null) => link && links.renewed(link)
  const { variants } = shown
  return {
    ...shown,
    original_url: links.renewed(shown.original_url),
    expires_in: links.expiresIn,
    variants: {
      ...variants,
      image_url: renewed(variants.image_url),
      image_webp_url: renewed(variants.image_webp_url),
      image_thumb_url: renewed(variants.image_thumb_url),
      hls_master_url: renewed(variants.hls_master_url),
      live_photo_video_url: renewed(variants.live_photo_video_url),
    },
  }
}

function toVariants(row: ListedMedia | FoundMedia, links: Links): Media['variants'] {
  const keys = variantKeys(row)
  const url = (key: string | null) => (key === null ? null : links.url(key))
  return {
    image_url: url(keys.image_url),
    image_webp_url: url(keys.image_webp_url),
    image_thumb_url: url(keys.image_thumb_url),
    hls_master_url: url(keys.hls_master_url),
    live_photo_video_url: url(keys.live_photo_video_url),
    asset_identifier: row.assetIdentifier,
  }
}

/** Truncates, as Date does. */
const toMilliseconds = (isoWithMicroseconds: string) => `${isoWithMicroseconds.slice(0, 23)}Z`

const progressOf = (row: Pick<MediaRow, 'uploadStatus' | 'conversionProgress'>) =>
  row.uploadStatus === 'processing' ? row.conversionProgress : null

export const toUploadedMedia = (row: MediaRow, now: Now): UploadedMedia => ({
  media_id: row.id,
  org_id: row.orgId,
  original_filename: row.originalFilename,
  mime_type: row.mimeType,
  file_size_bytes: row.fileSizeBytes,
  upload_status: row.uploadStatus,
  created_at: timestamp(row.createdAt),
  can: now(MEDIA, { uploaderId: row.uploaderId, ...VISIBLE }),
})

/** EXIF orientation, which says how to turn clockwise, by the degrees of a manifest, which are counterclockwise. */
const ORIENTATION: Record<number, number> = { 0: 1, 90: 8, 180: 3, 270: 6 }

const orientationOf = (manifest: Manifest): number | null =>
  manifest.type === 'image'
    ? manifest.source.orientation
    : (ORIENTATION[((manifest.source.rotation % 360) + 360) % 360] ?? null)

export function toMetadata(row: DescribedMedia, mayLocate: boolean): MediaMetadata {
  const { manifest } = row
  const source = manifest?.source
  return {
    media_id: row.id,
    captured_at: timestamp(row.capturedAt),
    width: source?.width ?? null,
    height: source?.height ?? null,
    duration_sec: manifest?.type === 'video' ? manifest.hls.durationSec : null,
    live_photo_duration_sec: row.livePhotoDurationSec,
    orientation: manifest ? orientationOf(manifest) : null,
    camera: { make: source?.camera.make ?? null, model: source?.camera.model ?? null },
    location: (mayLocate && source?.location) || null,
    exif: manifest?.type === 'image' ? manifest.source.exif : {},
    conversion: {
      state: row.conversionState,
      attempts: row.conversionAttempts,
      started_at: timestamp(row.conversionStartedAt),
      finished_at: timestamp(row.conversionFinishedAt),
      error: row.conversionError && { code: row.conversionError.code, message: row.conversionError.message },
      progress: progressOf(row),
      renditions: (manifest?.type === 'video' ? manifest.hls.renditions : []).map((r) => ({
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
