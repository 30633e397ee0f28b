import { call } from './api.js'
import { kindOf, newDetails } from './media-details.js'
import { seconds } from './words.js'

const FAILURES = {
  UNSUPPORTED_CODEC: 'This kind of file cannot be converted.',
  CORRUPT_INPUT: 'The file is damaged.',
  LIMIT_EXCEEDED: 'The file is too large to convert.',
  TIMEOUT: 'The conversion took too long.',
  INTERNAL: 'Something went wrong on our side.',
}

export { kindOf }
export const KINDS = { photo: 'Photo', live: 'Live Photo', video: 'Video' }
export const nameOf = (m) => m.original_filename ?? m.media_id
export const isPlayable = (m) => kindOf(m) === 'video' && Boolean(m.variants?.hls_master_url)

/** processing, playable, completed or failed. */
export const stateOf = (m) => (m.upload_status === 'processing' && isPlayable(m) ? 'playable' : m.upload_status)

/** The state of the conversion in words; empty when there is nothing to say. */
export function describe(m) {
  if (m.upload_status === 'completed') return ''
  if (m.upload_status === 'failed') return reasons.get(m.media_id)?.short ?? 'Could not be converted'
  if (!m.conversion_progress) return 'Waiting to be converted'
  const { percent, speed, eta_sec: eta } = m.conversion_progress
  const parts = [
    ...[isPlayable(m) && 'Playable', percent === 0 && 'Preparing', `${Math.floor(percent)} %`],
    ...[speed && `${Number.parseFloat(speed)}×`, eta && `${seconds(eta)} left`],
  ]
  return parts.filter(Boolean).join(' · ')
}

const REMEMBERED = 2000
const reasons = new Map()

const details = newDetails(async (m) => {
  const meta = await call('GET', `/api/media/${m.org_id}/${m.media_id}/metadata`)
  const { code, message } = meta.conversion.error ?? {}
  if (code) reasons.set(m.media_id, { short: FAILURES[code] ?? message, long: message })
  if (reasons.size > REMEMBERED) reasons.delete(reasons.keys().next().value)
  return meta
})

/** The metadata of a media item: a list of media items does not say how long a video lasts or why it failed. */
export const detailsOf = (m) => details.of(m)
/** Why the conversion failed, once `detailsOf` has asked: in short for a tile, and in the words of the API. */
export const reasonOf = (m) => reasons.get(m.media_id)
/** Of the moving part of a Live Photo. */
export const knownMotion = (m) => details.known(m)?.live_photo_duration_sec ?? undefined
export const knownDuration = (m) => details.known(m)?.duration_sec ?? undefined

export const restoreMedia = (m) => call('POST', `/api/media/${m.org_id}/${m.media_id}/restore`)
export const deleteMedia = (m) => call('DELETE', `/api/media/${m.org_id}/${m.media_id}`)
