import { html } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { usePages } from '../lib/pages.js'
import { Empty, Intro, More, Problem, Wait } from '../lib/parts.js'
import { plural } from '../lib/words.js'
import { linkToEvent } from '../shell/views.js'
import { DateSheet } from './date-sheet.js'
import { editEvent } from './form.js'
import { goesOn, going, hostOf, partOf, placeOf, STATES, sectionsOf, when } from './words.js'

const PICTURE = html`<rect x="12" y="9" width="40" height="34" rx="6" /><path d="M12 19h40M23 5v8M41 5v8M32 25v12M26 31h12" />`

const ACTIVE_PAGES = 10

/** The events of a group: drafts, what comes up, what is past, and what is archived. */
export function Events({ org, me }) {
  const listOf = (status, atFirst) =>
    usePages(`/api/orgs/${org.org_id}/events`, 'events', { query: { status, limit: '50' }, atFirst })
  // The API lists what was planned last first: what comes up next may have been planned before all others.
  const lists = { draft: listOf('draft'), active: listOf('active', ACTIVE_PAGES), archived: listOf('archived') }
  const guest = useGuestEvents()
  const all = Object.values(lists)
  const isKnown = all.every((list) => list.items)
  const error = all.find((list) => list.error)?.error
  const sections = isKnown
    ? sectionsOf({ draft: lists.draft.items, active: lists.active.items, archived: lists.archived.items }, Date.now())
    : []
  const coming = sections.find(({ title }) => title === 'Coming up')?.events.length ?? 0
  const create = () => editEvent({ org, onSaved: (event) => location.assign(linkToEvent(event.event_id)) })
  return html`
    <section class="view-events" aria-label="Events">
      <${Intro} title="Events" text=${[org.name, coming && `${plural(coming, 'event')} coming up`].filter(Boolean).join(' · ')}>
        <button class="button primary" type="button" onClick=${create}><${Icon} name="add" size=${18} />New event</button>
      <//>
      <${Problem} class="banner" error=${error} />
      ${!isKnown && !error && html`<${Wait} />`}
      <div class="event-sections">
        ${sections.map(
          ({ status, title, events, isLast }) => html`
            <section key=${title} class="event-section">
              <h2>${title}</h2>
              <ul class="event-cards">${events.map((event) => html`<${Card} key=${event.event_id} event=${event} me=${me} />`)}</ul>
              ${isLast && html`<${More} list=${lists[status]} />`}
            </section>`,
        )}
      </div>
      ${
        isKnown &&
        sections.length === 0 &&
        html`
          <${Empty} title="No events yet" text="Plan a reunion, a trip or an evening, and invite people by link." picture=${PICTURE}>
            <button class="button primary" type="button" onClick=${create}>Plan an event</button>
          <//>`
      }
      <${AsGuest} list=${guest} me=${me} />
    </section>`
}

const useGuestEvents = () => usePages('/api/users/me/events', 'events', { query: { as_guest: 'true', limit: '50' } })

/** The events of other groups that the person is a guest of. */
function AsGuest({ list, me }) {
  if (!list.items?.length) return null
  return html`
    <div class="event-sections">
      <section class="event-section" id="guest-events">
        <h2>As a guest</h2>
        <ul class="event-cards">${list.items.map((event) => html`<${Card} key=${event.event_id} event=${event} me=${me} />`)}</ul>
        <${More} list=${list} />
      </section>
    </div>`
}

/** What a person sees who belongs to no group: the events that they are a guest of. */
export function GuestEvents({ me }) {
  const list = useGuestEvents()
  return html`
    <section class="view-events" aria-label="Events">
      <${Intro} title="Your events" text="You are not a member of any group yet." />
      <${Problem} class="banner" error=${list.error} />
      ${!list.items && !list.error && html`<${Wait} />`}
      <${AsGuest} list=${list} me=${me} />
      ${list.items?.length === 0 && html`<${Empty} title="No events yet" text="When you accept an invitation to an event, you find it here." picture=${PICTURE} />`}
    </section>`
}

function Card({ event, me }) {
  const [place, part] = [placeOf(event), partOf(event, me.user_id)]
  return html`
    <li class="event-card" data-status=${event.status}>
      <a href=${linkToEvent(event.event_id)}>
        <${DateSheet} event=${event} />
        <span class="event-card-words">
          <strong class="name" dir="auto">${event.title}</strong>
          <span class="when">${when(event)}</span>
          ${place && html`<span class="muted small line" dir="auto">${place}</span>`}
          <span class="muted small line" dir="auto">${[hostOf(event), event.as_guest && event.org_name].filter(Boolean).join(' · ')}</span>
          ${event.purge_at && html`<span class="muted small line purge">${goesOn(event)}</span>`}
          <span class="chips">
            ${event.status !== 'active' && html`<span class="chip badge-state">${STATES[event.status]}</span>`}
            ${part && html`<span class="chip part">${part}</span>`}
            <span class="chip going">${going(event)}</span>
          </span>
        </span>
      </a>
    </li>`
}
