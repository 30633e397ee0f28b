import { plural } from './words.js'

const WORDS = {
  EVENT_ARCHIVED: 'The event was archived meanwhile. Nothing in it changes any more.',
  ALBUM_ARCHIVED: 'The album was archived meanwhile. Nothing in it changes until it is opened again.',
  LEGAL_HOLD: 'A legal hold keeps this. It cannot be deleted or removed now.',
  MEDIA_NOT_AVAILABLE: 'One of the photos was deleted meanwhile.',
  COMMENT_EDIT_WINDOW_EXPIRED: 'A comment can be changed for 15 minutes, and they are over.',
  ALREADY_INVITED: 'This person is invited already, or takes part. The list of invitations has a new link for them.',
  INVITATION_ALREADY_USED: 'This invitation was answered meanwhile.',
  NOT_FOUND: 'It does not exist any more, or it is not for you to see.',
  FORBIDDEN: 'You may not do this.',
  UNAUTHORIZED: 'Your session has ended. Sign in again.',
  OFFLINE: 'There is no connection.',
  IDEMPOTENCY_IN_PROGRESS: 'This is still being saved. Try again in a moment.',
}

/** How long a caller has to wait, in words. */
export function inAWhile(seconds = 60) {
  if (seconds < 90) return `in ${plural(Math.max(1, Math.ceil(seconds)), 'second')}`
  const minutes = Math.ceil(seconds / 60)
  return minutes < 90 ? `in ${plural(minutes, 'minute')}` : `in ${plural(Math.ceil(minutes / 60), 'hour')}`
}

/** An answer of the API in words. `more` has words for codes that mean something special where they are shown. */
export function inWords(error, more = {}) {
  if (error.code === 'RATE_LIMITED') return `That was too often. Try again ${inAWhile(error.retryAfter)}.`
  const known = more[error.code] ?? WORDS[error.code]
  if (known) return known
  if (error.status >= 500) return 'Something went wrong on our side. Try again in a moment.'
  return error.message
}

/** Whether the media item that a request named is what does not exist any more, and not what it was to be added to. */
export const isMediaGone = ({ status, code, details }) =>
  code === 'MEDIA_NOT_AVAILABLE' || (status === 404 && details?.[0]?.field === 'body.media_id')

/** Behind the number of those that were added. */
export const leftOut = (gone) =>
  gone === 0 ? '' : `. ${gone === 1 ? 'One was' : `${gone.toLocaleString()} were`} deleted meanwhile.`

/** What the API says about the fields of a form, by field, as sentences. */
export function fieldWords(error) {
  const issues = error.code === 'VALIDATION_ERROR' ? (error.details ?? []) : []
  return Object.fromEntries(
    issues.map(({ field, issue }) => [field.replace(/^body\.?/, ''), `This ${issue}.`.replace(/\.\.$/, '.')]),
  )
}
