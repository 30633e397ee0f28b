import type { Uuid } from '../../../lib/contract/ids.ts'
import { originalKey } from '../../../lib/contract/object-keys.ts'

/** The columns that say which derivatives of a media item exist. */
export interface WithVariants {
  id: Uuid
  orgId: Uuid
  outputPrefix: string | null
  hlsMaster: string | null
  imageFile: string | null
  imageIsOriginal: boolean
  webpFile: string | null
  thumbFile: string | null
  /** Object key of the master playlist of the video half of a Live Photo; null for the video itself. */
  livePhotoVideo: string | null
}

/**
 * Object keys under the names of `variants`; null for a derivative that does not exist. The original stands for
 * `image_url` only where the job found that browsers show it and that it contains no location.
 */
export function variantKeys(row: WithVariants) {
  const below = (file: string | null) => (row.outputPrefix && file ? row.outputPrefix + file : null)
  return {
    image_url: row.imageIsOriginal ? originalKey(row.orgId, row.id) : below(row.imageFile),
    image_webp_url: below(row.webpFile),
    image_thumb_url: below(row.thumbFile),
    hls_master_url: below(row.hlsMaster),
    live_photo_video_url: row.livePhotoVideo,
  }
}
