import { call } from './api.js'

/** What a media item is to its viewer. */
export function kindOf(m) {
  if (m.mime_type.startsWith('video/')) return 'video'
  return m.variants?.live_photo_video_url ? 'live' : 'photo'
}

export const KINDS = { photo: 'Photo', live: 'Live Photo', video: 'Video' }
export const nameOf = (m) => m.original_filename ?? m.media_id

export const restoreMedia = (m) => call('POST', `/api/media/${m.org_id}/${m.media_id}/restore`)
export const deleteMedia = (m) => call('DELETE', `/api/media/${m.org_id}/${m.media_id}`)
