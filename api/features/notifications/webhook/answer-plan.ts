import type { Outcome } from '../channel.ts'

/** A receiver that asks for more patience is asked again after this time. */
const MAX_PATIENCE_SECONDS = 3600

/** A receiver that dislikes this message may like the next one. */
const OF_THE_MESSAGE = [400, 409, 413, 422]

/** What the answer of a receiver means. Only 2xx is success: a redirect would be followed to where nothing was checked. */
export function outcomeOf(status: number, retryAfterSeconds: number | undefined): Outcome {
  if (status >= 200 && status < 300) return { is: 'sent' }
  const reason = `the receiver answered ${status}`
  if (status === 410) return { is: 'gone', reason }
  if (OF_THE_MESSAGE.includes(status)) return { is: 'later', reason }
  const asked = status === 429 || status === 503 ? retryAfterSeconds : undefined
  if (asked === undefined) return { is: 'later', of: 'destination', reason }
  return { is: 'later', of: 'destination', reason, afterSeconds: Math.min(asked, MAX_PATIENCE_SECONDS) }
}
