import { may } from '../lib/permissions.js'
import { plural } from '../lib/words.js'

/** What the page says about albums. No browser is needed here. */

export const STATUSES = { DRAFT: 'Draft', PUBLIC: 'Published', ARCHIVE: 'Archived' }

const AUDIENCES = {
  organization: 'Everyone in the group',
  participants: 'Those who take part in the event',
  private: 'The owner and the administrators',
}

/** Who can see an album now. */
export function audienceOf({ status, visibility, event_id: event }) {
  const of = status === 'PUBLIC' ? visibility : 'private'
  return of === 'private' && event ? 'The owner, the owner of its event and the administrators' : AUDIENCES[of]
}

export const itemsOf = ({ media_count: count }) => (count === 0 ? 'Empty' : plural(count, 'item'))

const PUBLISH = { to: 'PUBLIC', label: 'Publish', isNext: true }
const STEPS = {
  DRAFT: [PUBLISH],
  PUBLIC: [
    { to: 'DRAFT', label: 'Make it a draft' },
    { to: 'ARCHIVE', label: 'Archive' },
  ],
  ARCHIVE: [{ ...PUBLISH, label: 'Open again' }],
}

/** The other statuses that the viewer may give to an album. */
export const stepsOf = (album) => (may(album, 'album.set_status') ? STEPS[album.status] : [])

/** What the owner is asked before the status changes. */
export function questionOf({ to, label }, { status, title, visibility }) {
  const texts = {
    PUBLIC: `${AUDIENCES[visibility]} can see the album from now on.`,
    DRAFT: 'Only those who manage the album can see it from now on.',
    ARCHIVE:
      'Only those who manage the album can see it from now on, and nothing in it changes until you open it again.',
  }
  const questions = { PUBLIC: `Publish “${title}”?`, DRAFT: `Make “${title}” a draft?`, ARCHIVE: `Archive “${title}”?` }
  return { title: status === 'ARCHIVE' ? `Open “${title}” again?` : questions[to], text: texts[to], label }
}

const NOTES = {
  DRAFT: 'A draft: only those who manage it can see it.',
  ARCHIVE: 'This album is archived. Nothing in it changes.',
}

/** What the viewer should know first; empty if there is nothing. */
export function noteOn({ status }, event) {
  if (event?.status === 'archived') return 'The event of this album is archived. Nothing in the album changes any more.'
  return NOTES[status] ?? ''
}

/** What the API's answers mean for an album. */
export const ALBUM_REFUSALS = {
  CONFLICT: 'The album has it already.',
  QUOTA_EXCEEDED: 'The album is full: it has 5,000 items, with those that were deleted recently.',
  REORDER_MISMATCH:
    'Other members add or remove a lot right now. Here is the album as it is; move the item again in a moment.',
}

/**
 * The items with one of them in another place: behind `after`, else before `before`, the ids of its neighbours there. Where
 * neither of them is in the list any more, or the item is not, nothing moves.
 */
export function moved(items, { id, after, before }) {
  const item = items.find((m) => m.media_id === id)
  const rest = items.filter((m) => m !== item)
  const place = (neighbour) => rest.findIndex((m) => m.media_id === neighbour)
  const index = after && place(after) >= 0 ? place(after) + 1 : before ? place(before) : -1
  return item && index >= 0 ? rest.toSpliced(index, 0, item) : items
}

/** The neighbours of an item after it is moved by some places; ±Infinity is an end. Undefined where it stays. */
export function neighboursAfter(items, id, by) {
  const from = items.findIndex((m) => m.media_id === id)
  const to = Math.min(Math.max(from + by, 0), items.length - 1)
  if (from < 0 || to === from) return undefined
  const rest = items.toSpliced(from, 1)
  return { after: rest[to - 1]?.media_id, before: rest[to]?.media_id }
}

/** The fields of a form that differ from the album. */
export function albumChanges(album, form) {
  const before = {
    title: album?.title ?? '',
    description: album?.description ?? '',
    visibility: album?.visibility ?? 'organization',
    // The event of an album is chosen once.
    ...(!album && { event_id: '' }),
  }
  const changed = Object.keys(before).filter((name) => tidy(before[name]) !== tidy(form[name]))
  return Object.fromEntries(changed.map((name) => [name, tidy(form[name]) || null]))
}

const tidy = (text) => text.replace(/\r\n/g, '\n').trim()

/** What is wrong with a form, by field. */
export function albumMistakes({ title, visibility, event_id: event }) {
  return {
    ...(title.trim() === '' && { title: 'Give the album a name.' }),
    ...(visibility === 'participants' &&
      event === '' && { visibility: 'Choose the event whose participants you mean.' }),
  }
}
