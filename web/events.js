import { $, copyOf, showProblem } from './dom.js'
import { editEvent } from './event-form.js'
import { going, hostOf, partOf, placeOf, sectionsOf, sheetOf, STATES, when } from './event-words.js'
import { newPager } from './pager.js'
import { inWords } from './refusal-words.js'
import { hue, plural } from './words.js'
import { linkToEvent } from './views.js'

const STATUSES = ['draft', 'active', 'archived']
const PAGE = '50'

let organization
let me
let lists

/** The events of a group: drafts, what comes up, what is past, and what is archived. */
export async function openEvents(org, user) {
  const isAnother = org !== organization
  organization = org
  me = user
  lists = listsOf(org)
  if (isAnother) {
    $('event-sections').replaceChildren()
    $('events-summary').textContent = ''
    $('events-empty').hidden = true
  }
  await load(Object.values(lists).map((list) => list.again()))
}

/** Answers that arrive later belong to no view. */
export function closeEvents() {
  lists = undefined
}

function listsOf({ org_id }) {
  const path = `/api/orgs/${org_id}/events`
  return Object.fromEntries(STATUSES.map((status) => [status, newPager(path, 'events', { status, limit: PAGE })]))
}

async function load(requests) {
  const mine = lists
  try {
    await Promise.all(requests)
    if (mine !== lists) return
    showProblem()
    render()
  } catch (error) {
    if (mine === lists) showProblem(new Error(inWords(error)))
  }
}

function render() {
  const events = Object.fromEntries(STATUSES.map((status) => [status, lists[status].items()]))
  const sections = sectionsOf(events, Date.now())
  const coming = sections.find(({ title }) => title === 'Coming up')?.events.length ?? 0
  $('events-summary').textContent = [organization.name, coming && `${plural(coming, 'event')} coming up`].filter(Boolean).join(' · ')
  $('events-empty').hidden = sections.length > 0
  $('event-sections').replaceChildren(...sections.map(sectionElement))
}

function sectionElement({ status, title, events, isLast }) {
  const section = copyOf('event-section')
  section.querySelector('.title').textContent = title
  section.querySelector('ul').append(...events.map(card))
  const more = section.querySelector('.show-more')
  more.hidden = !(isLast && lists[status].hasMore())
  more.addEventListener('click', () => {
    more.disabled = true
    void load([lists[status].more()])
  })
  return section
}

function card(event) {
  const item = copyOf('event-card')
  const put = (part, text) => {
    item.querySelector(part).textContent = text
    item.querySelector(part).hidden = !text
  }
  item.dataset.event = event.event_id
  item.dataset.status = event.status
  item.querySelector('a').href = linkToEvent(event.event_id)
  fillSheet(item.querySelector('.date-sheet'), event)
  put('.name', event.title)
  put('.when', when(event))
  put('.place', placeOf(event))
  put('.going', going(event))
  put('.host', hostOf(event))
  put('.part', partOf(event, me.user_id))
  put('.badge-state', event.status === 'active' ? '' : STATES[event.status])
  return item
}

/** The month and the day, on a colour that the event keeps. */
export function fillSheet(sheet, event) {
  const { month, day } = sheetOf(event)
  sheet.querySelector('.sheet-month').textContent = month
  sheet.querySelector('.sheet-day').textContent = day
  sheet.style.setProperty('--hue', hue(event.event_id))
}

function create() {
  // A person without a group has no list either.
  if (!lists) return
  editEvent({ org: organization, onSaved: (event) => location.assign(linkToEvent(event.event_id)) })
}
for (const id of ['new-event', 'first-event']) $(id).addEventListener('click', create)
document.addEventListener('visibilitychange', () => {
  if (lists && !document.hidden) void load(Object.values(lists).map((list) => list.again()))
})
