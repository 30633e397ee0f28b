/**
 * What became of each file, across reloads: so that the same folder dropped again goes on where it ended. Of each file:
 * {pairId, once, isSent, uploadId, mediaId, at}. One entry per key, because rewriting thousands after each chunk would be
 * slow.
 */
const PREFIX = 'keepsake.upload.'
/** Uploads end 7 days after their start. */
const KEPT_MS = 7 * 86_400_000
/** Idempotency keys are kept for 24 hours. */
const ONCE_MS = 23 * 3_600_000

const keys = () => Object.keys(localStorage).filter((key) => key.startsWith(PREFIX))

export function recall(key) {
  const { at = 0, once, ...known } = JSON.parse(localStorage.getItem(PREFIX + key) ?? '{}')
  if (Date.now() - at > KEPT_MS) return {}
  return Date.now() - at > ONCE_MS ? known : { ...known, once }
}

export function remember(key, known) {
  try {
    localStorage.setItem(PREFIX + key, JSON.stringify({ ...known, at: Date.now() }))
  } catch {
    // Full: without the entry, a reload only means that this file is sent anew.
  }
}

export const forget = (key) => localStorage.removeItem(PREFIX + key)

const UNFINISHED = 'keepsake.unfinished'

/** How many files were on their way to each group when the page was left: `{org_id: count}`. */
export const unfinished = () => Object(JSON.parse(localStorage.getItem(UNFINISHED) ?? '{}'))

export function rememberUnfinished(org, count) {
  const { [org]: before = 0, ...others } = unfinished()
  if (count !== before)
    localStorage.setItem(UNFINISHED, JSON.stringify(count > 0 ? { ...others, [org]: count } : others))
}

const PERSON = 'keepsake.uploader'

/** What another person has left behind, whose session ended without a sign-out, is forgotten: it is theirs. */
export function rememberUploadsOf(userId) {
  if (![null, userId].includes(localStorage.getItem(PERSON))) forgetUploads()
  localStorage.setItem(PERSON, userId)
}

export function forgetUploads() {
  localStorage.removeItem(UNFINISHED)
  localStorage.removeItem(PERSON)
  for (const key of keys()) localStorage.removeItem(key)
}

for (const key of keys()) if (Object.keys(recall(key.slice(PREFIX.length))).length === 0) localStorage.removeItem(key)
