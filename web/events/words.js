import { dayHere, plural } from '../lib/words.js'

/** What the page says about events. No browser is needed here. */

export const MOMENT = {
  ...{ weekday: 'short', day: 'numeric', month: 'long', year: 'numeric' },
  ...{ hour: 'numeric', minute: '2-digit' },
}

/** When an event is, by the viewer's clock. A range on one day names the day once. */
export function when({ start_at, end_at }, { locale = [], timeZone } = {}) {
  const format = new Intl.DateTimeFormat(locale, { ...MOMENT, timeZone })
  const start = new Date(start_at)
  const text = end_at && end_at !== start_at ? format.formatRange(start, new Date(end_at)) : format.format(start)
  // Thin and narrow spaces look like mistakes in most fonts.
  return text.replace(/[\u2009\u202f]/g, ' ')
}

/** The sheet of a calendar: month and day. */
export function sheetOf({ start_at }, { locale = [], timeZone } = {}) {
  const part = (options) => new Intl.DateTimeFormat(locale, { ...options, timeZone }).format(new Date(start_at))
  return { month: part({ month: 'short' }), day: part({ day: 'numeric' }) }
}

const startOfDay = (now) => new Date(now).setHours(0, 0, 0, 0)

/** An event without an end is over when its day is. */
export const isOver = ({ start_at, end_at }, now) =>
  end_at ? Date.parse(end_at) < now : Date.parse(start_at) < startOfDay(now)

const byStart = (a, b) => Date.parse(a.start_at) - Date.parse(b.start_at)

/** The sections of the list, without those that are empty. `status` is the list that continues after the section. */
export function sectionsOf({ draft, active, archived }, now) {
  const [past, coming] = [active.filter((e) => isOver(e, now)), active.filter((e) => !isOver(e, now))]
  const sections = [
    { status: 'draft', title: 'Drafts', events: draft },
    { status: 'active', title: 'Coming up', events: coming.sort(byStart) },
    { status: 'active', title: 'Past', events: past.sort(byStart).reverse() },
    { status: 'archived', title: 'Archived', events: archived },
  ].filter(({ events }) => events.length > 0)
  const lastOf = new Map(sections.map((section) => [section.status, section]))
  return sections.map((section) => ({ ...section, isLast: lastOf.get(section.status) === section }))
}

export const STATES = { draft: 'Draft', active: 'Active', archived: 'Archived' }

/** The viewer's own part in an event; empty for a viewer who is not invited. */
export function partOf(event, userId) {
  const isArchived = event.status === 'archived'
  if (event.owner_id === userId && event.my_participation === 'accepted') return isArchived ? 'You hosted' : 'You host'
  const words = {
    accepted: isArchived ? 'You were there' : 'You’re going',
    invited: isArchived ? 'You were invited' : 'You’re invited',
    declined: 'You declined',
  }
  return words[event.my_participation] ?? ''
}

export const going = ({ participant_count: count, status }) =>
  status === 'archived' ? plural(count, 'participant') : `${count.toLocaleString()} going`

export const hostOf = ({ host_name }) => `Hosted by ${host_name ?? 'a member'}`

export function placeOf({ location_name, location_geo }) {
  if (location_name) return location_name
  return location_geo ? location_geo.map((degrees) => degrees.toFixed(4)).join(', ') : ''
}

const NOTES = {
  draft: 'A draft: only its host and the administrators of the group can see it. Activate it when it is ready.',
  archived: 'This event is archived. It can be read, and nothing in it changes any more.',
}

/** What the viewer should know first; empty if there is nothing. */
export function noteOn({ status, my_participation, my_invitation_id }) {
  if (status !== 'active') return NOTES[status]
  if (my_invitation_id) return 'You are invited. Accept to take part.'
  return my_participation === 'invited'
    ? 'You are invited. Answer with the link that you were sent, or ask the host for it.'
    : ''
}

/** When an archived event goes; empty where it is kept. */
export const goesOn = ({ purge_at }, where) => (purge_at ? `Will be deleted on ${dayHere(purge_at, where)}` : '')

const ORDER = [
  ['accepted', 'Going'],
  ['invited', 'Invited'],
  ['declined', 'Declined'],
]
/** The participants in groups, those who come first. */
export function groupsOf(participants, { status: state }) {
  const groups = ORDER.map(([status, title]) => ({
    status,
    title,
    people: participants.filter((p) => p.status === status),
  }))
  if (state === 'archived') groups[0].title = 'Took part'
  return groups.filter(({ people }) => people.length > 0)
}

/**
 * Whether a viewer who may remove participants may remove this one: not the host. A host who has left the group has no
 * name any more, and can be removed; of a host without a name who has not, the API refuses it.
 */
export const isRemovable = ({ user_id }, { owner_id, host_name }) => user_id !== owner_id || host_name === null

const two = (number) => String(number).padStart(2, '0')

/** A time as an input of the type `datetime-local` has it, by the viewer's clock. */
export function toLocalInput(time) {
  if (!time) return ''
  const d = new Date(time)
  const date = [String(d.getFullYear()).padStart(4, '0'), two(d.getMonth() + 1), two(d.getDate())].join('-')
  return `${date}T${two(d.getHours())}:${two(d.getMinutes())}`
}

/** The time that an input means; null for none. */
export function fromLocalInput(text) {
  const time = new Date(text)
  return text === '' || Number.isNaN(time.getTime()) ? null : time.toISOString()
}

/** In a week, at six in the evening. */
export function usualStart(now) {
  const start = new Date(now)
  start.setDate(start.getDate() + 7)
  start.setHours(18, 0, 0, 0)
  return start
}

/** The fields of the form of an event. */
export const fieldsOf = (event) => ({
  title: event?.title ?? '',
  start_at: toLocalInput(event?.start_at),
  end_at: toLocalInput(event?.end_at),
  location_name: event?.location_name ?? '',
  description: event?.description ?? '',
})

/** The fields of a form that differ from the event. What a person leaves alone keeps its seconds and its line ends. */
export function changesOf(event, form) {
  const before = fieldsOf(event)
  const tidy = (text) => text.replace(/\r\n/g, '\n').trim()
  const changed = Object.keys(before).filter((name) => tidy(before[name]) !== tidy(form[name]))
  return Object.fromEntries(changed.map((name) => [name, sentValue(name, form[name].trim())]))
}

function sentValue(name, text) {
  if (name.endsWith('_at')) return fromLocalInput(text)
  return text === '' && name !== 'title' ? null : text
}

/** What is wrong with a form, by field. */
export function mistakesIn({ title, start_at, end_at }) {
  const [start, end] = [fromLocalInput(start_at), fromLocalInput(end_at)]
  return {
    ...(title.trim() === '' && { title: 'Give the event a title.' }),
    ...(!start && { start_at: 'Say when it starts.' }),
    ...(start && end && end < start && { end_at: 'The end is before the start.' }),
  }
}
