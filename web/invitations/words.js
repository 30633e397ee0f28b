import { uuidOf } from '../lib/ids.js'
import { inAWhile } from '../lib/refusals.js'
import { plural } from '../lib/words.js'

/** What the page says about invitations to those who send them and to those who get them. No browser is needed here. */

export const inviteeOf = ({ invitee }) =>
  invitee.display_name ?? invitee.email ?? invitee.phone_number ?? 'A person with an account'

const INVITATION_STATES = { accepted: 'Accepted', declined: 'Declined', expired: 'Link expired', revoked: 'Withdrawn' }

/**
 * The state of an invitation; while it is open, how long its link works. `names` are those of the participants by their
 * ids: a link can be answered by someone else than its invitee.
 */
export function invitationState(invitation, event, now, names = new Map()) {
  const { status, token_expires_at, responded_by } = invitation
  const isOpen = status === 'pending' || status === 'expired'
  if (isOpen && event.status === 'archived') return 'Not answered'
  if (status === 'pending') return `Open · ${linkLeft(token_expires_at, now).toLowerCase()}`
  const name = names.get(responded_by)
  return name && name !== inviteeOf(invitation) ? `${INVITATION_STATES[status]} by ${name}` : INVITATION_STATES[status]
}

/** How long a link still works. Rounded up: in its last minute there is still one. */
export function linkLeft(expiresAt, now) {
  const minutes = Math.ceil((Date.parse(expiresAt) - now) / 60_000)
  if (minutes < 1) return 'The link has expired'
  return minutes < 60 ? `${plural(minutes, 'minute')} left` : '1 hour left'
}

const PARTS = { accepted: 'Going', invited: 'Invited' }

/** What those who take part in an event are to it, by their ids as lists of members write them. */
export const partsIn = (participants) =>
  new Map(participants.map(({ user_id, status }) => [uuidOf(user_id), PARTS[status]]))

/** `/i/K7M2QX9A`: the slug, as the API writes it. */
export const slugOf = (path) => path.replace(/^.*\/i\//, '').toUpperCase()

const isTemporary = ({ status, code }) =>
  status === 0 || status >= 500 || code === 'RATE_LIMITED' || code === 'IDEMPOTENCY_IN_PROGRESS'

/**
 * Whether an answer may still count: the page cannot tell whether it arrived, or has to send it again. It is repeated with
 * the same Idempotency-Key.
 */
export const mayRepeat = (error) => isTemporary(error) || error.status === 401

const tooOften = (error) => ({
  title: 'Too many tries',
  text: `Someone tried too often from your network. Try again ${inAWhile(error.retryAfter)}.`,
  does: 'retry',
})

/** Why an invitation cannot be shown. */
export function lookUpProblem(error) {
  if (error.code === 'RATE_LIMITED') return tooOften(error)
  if (error.status === 404 || error.status === 400) {
    return {
      title: 'There is no such invitation',
      text: 'Check that you have the whole link. If you have, the event may not be open for answers yet.',
    }
  }
  return { title: 'The invitation cannot be shown', text: 'Check your connection and try again.', does: 'retry' }
}

/** Why an answer did not count. `does` names the button that helps: retry, switch (another account) or open (the app). */
export function answerProblem(error, { name, host }) {
  const from = host ?? 'the person who invited you'
  if (error.code === 'RATE_LIMITED') return tooOften(error)
  if (isTemporary(error)) {
    return {
      title: 'Your answer may not have arrived',
      text: 'Send it again. However often you do, it counts once.',
      does: 'retry',
    }
  }
  const known = {
    NOT_FOUND: {
      title: 'This link is not for you',
      text: `You are signed in as ${name}. The invitation may be for another account of yours, or ${from} may have sent a newer link.`,
      does: 'switch',
    },
    INVITATION_EXPIRED: {
      title: 'The link has expired',
      text: `Links work for one hour. A fresh one can be sent to the invited address, or ask ${from} for one.`,
      does: 'renew',
    },
    INVITATION_ALREADY_USED: {
      title: 'This invitation was answered already',
      text: 'A link counts once. If the answer was yours, you find the event in Keepsake.',
      does: 'open',
    },
    EVENT_ARCHIVED: {
      title: 'The event is archived',
      text: 'It can still be read by those who took part. Nothing in it changes any more.',
    },
    INVALID_STATE_TRANSITION: {
      title: 'This invitation cannot bring you in',
      text: `You are not a member of the group, and the person who invited you can no longer add members. Ask ${from} for another link.`,
    },
    UNAUTHORIZED: { title: 'Your session has ended', text: 'Sign in again to send your answer.', does: 'switch' },
  }
  return known[error.code] ?? { title: 'Your answer was refused', text: error.message, does: 'retry' }
}

export const ENDED = {
  title: 'The link has expired',
  text: 'Links work for one hour. A fresh one can be sent to the invited address.',
}
export const RENEWED = {
  title: 'Look at your messages',
  text: 'If the invitation can still be answered, a fresh link is on its way to the invited address.',
}

/** Whether the token of a link has expired, by its own words. One that cannot be read has not. */
export function hasEnded(token, now = Date.now()) {
  try {
    const { exp } = JSON.parse(atob(token.split('.')[1].replaceAll('-', '+').replaceAll('_', '/')))
    return exp * 1000 <= now
  } catch {
    return false
  }
}

/** When the event is, in the words and the time zone of the browser. */
export function whenWords({ start_at: start, end_at: end }, locale = undefined) {
  const words = new Intl.DateTimeFormat(locale, { dateStyle: 'full', timeStyle: 'short' })
  return end ? words.formatRange(new Date(start), new Date(end)) : words.format(new Date(start))
}

/** What an accepted invitation makes of a guest. The name of the group is for those with the link. */
export function joinWords({ organization_name: group }, joins) {
  const named = group ? `the group “${group}”` : 'the group'
  return joins
    ? `If you accept, you become a member of ${named}: you see its events, its shared albums and photos, and its members.`
    : `If you accept and are no member of ${named}, you become a guest: you see this event, who takes part, what is said about it and its shared album, and nothing else of ${named}.`
}

/** What became of an answer that counted. */
export function outcomeWords(status, { title, host }, isGuest = false) {
  if (status === 'accepted') {
    const text = `“${title}” is now among your events.`
    return {
      title: 'You’re in!',
      text: isGuest ? `${text} You are its guest, and see nothing else of the group.` : text,
    }
  }
  return { title: 'You declined', text: `${host ?? 'The host'} sees that you can’t come to “${title}”.` }
}
