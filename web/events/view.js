import { EventComments } from '../discussions/event-comments.js'
import { inviteTo } from '../invitations/invite.js'
import { Invitations } from '../invitations/list.js'
import { call } from '../lib/api.js'
import { ask } from '../lib/dialogs.js'
import { useInGroups } from '../lib/find-in-groups.js'
import { keepFocus } from '../lib/focus.js'
import { html, useEffect, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { Menu } from '../lib/menu.js'
import { usePages } from '../lib/pages.js'
import { Empty, Problem, Wait } from '../lib/parts.js'
import { may } from '../lib/permissions.js'
import { inWords } from '../lib/refusals.js'
import { announce, toast, toastNext } from '../lib/toast.js'
import { AlbumCard } from './album-card.js'
import { DateSheet } from './date-sheet.js'
import { editEvent } from './form.js'
import { Participants } from './participants.js'
import { partingsOf } from './partings.js'
import { Purge, Save } from './save.js'
import { hostOf, noteOn, partOf, placeOf, STATES, when } from './words.js'

const LOOK_MS = 5000
const ANSWER = { INVITATION_EXPIRED: 'The invitation has expired. Ask the host for another one.' }
/** Archived in one window while another one still offers to activate. */
const MOVED = { INVALID_STATE_TRANSITION: 'The event was archived meanwhile.' }
const DELETED = { INVALID_STATE_TRANSITION: 'The event was activated meanwhile. It can be archived.' }

/** One event. Others answer and write meanwhile, so all of it is looked at again and again. */
export function Event(props) {
  const {
    data: event,
    error,
    ...rest
  } = useInGroups((org) => `/api/orgs/${org.org_id}/events/${encodeURIComponent(props.id)}`, props, LOOK_MS)
  const isGone = error?.status === 404 || (error && !event)
  return html`
    <section class="view-event" aria-label="Event">
      <p class="back"><a class="button quiet" href="#events"><${Icon} name="back" size=${18} />All events</a></p>
      ${
        isGone
          ? html`<${Empty} title="This event cannot be shown" text=${error.code || error.status !== 404 ? inWords(error) : 'It does not exist, or it is a draft of another person.'} />`
          : event
            ? html`<${Problem} class="banner" error=${error} /><${Shown} event=${event} me=${props.me} ...${rest} />`
            : html`<${Wait} />`
      }
    </section>`
}

function Shown({ event, org, path, me, reload, set }) {
  const heading = useRef()
  const [isBusy, setBusy] = useState(false)
  const seesInvitations = may(event, 'event.list_invitations')
  const participants = usePages(`${path}/participants`, 'participants', { query: { limit: '100' }, every: LOOK_MS })
  const invitations = usePages(seesInvitations ? `${path}/invitations` : undefined, 'invitations', {
    query: { limit: '50' },
    every: LOOK_MS,
  })
  const look = () => Promise.all([reload(), participants.reload(), invitations.reload()])
  useEffect(() => {
    document.title = `${event.title} · Keepsake`
  }, [event.title])
  // Who may no longer see the list gets no list. The event says what is left.
  useEffect(() => {
    if (invitations.error?.status === 404) void reload()
  }, [invitations.error])

  const keepHere = () => keepFocus(() => heading.current)

  /** The viewer's own answer, for which the API needs no link. */
  async function answer(response, done) {
    setBusy(true)
    try {
      await call('POST', `/api/invitations/${event.my_invitation_id}/respond`, { response })
      announce(done)
    } catch (error) {
      toast(inWords(error, ANSWER))
    }
    await look()
    setBusy(false)
    keepHere()
  }

  async function move(to, done) {
    set(await call('POST', `${path}/${to}`))
    announce(done)
    void look()
    keepHere()
  }

  const activate = () =>
    ask({
      title: `Activate “${event.title}”?`,
      text: `Every member of ${org.name} can see the event from now on, and those who are invited are told.`,
      label: 'Activate',
      run: () => move('activate', 'The event is active'),
      say: (error) => inWords(error, MOVED),
    })
  const archive = () =>
    ask({
      title: `Archive “${event.title}”?`,
      text: 'It can still be read, but nothing in it changes any more, and open invitations can no longer be answered. This cannot be taken back.',
      label: 'Archive',
      run: () => move('archive', 'The event is archived'),
      say: (error) => inWords(error, MOVED),
    })
  const remove = () =>
    ask({
      title: `Delete “${event.title}”?`,
      text: 'Its invitations, comments and album go with it; the photos stay in the library. This cannot be taken back.',
      label: 'Delete',
      async run() {
        await call('DELETE', path)
        toastNext('The event is deleted')
        location.replace('#events')
      },
      say: (error) => inWords(error, DELETED),
    })
  const { leave, removeOne } = partingsOf({ event, org, path, look })
  const canActivate = may(event, 'event.activate')
  const isInvited = Boolean(event.my_invitation_id)
  const [part, place, note] = [partOf(event, me.user_id), placeOf(event), noteOn(event)]
  // The next step of a draft is to activate it, and of an invited viewer to answer.
  const inviteClass = canActivate || isInvited ? 'button' : 'button primary'
  return html`
    <div id="event-shown" data-status=${event.status}>
      <header class="event-head">
        <${DateSheet} event=${event} />
        <div class="event-words">
          <p class="chips"><span id="event-state" class="chip badge-state">${STATES[event.status]}</span>${part && html`<span id="event-part" class="chip part">${part}</span>`}</p>
          <h1 id="event-title" ref=${heading} tabindex="-1" dir="auto">${event.title}</h1>
          <p class="fact">${CLOCK}<span id="event-when">${when(event)}</span></p>
          ${place && html`<p class="fact">${PIN}<span dir="auto">${place}</span></p>`}
          <p class="fact">${PERSON}<span>${hostOf(event)} · ${org.name}</span></p>
        </div>
        <div class="tools">
          ${
            isInvited &&
            html`
              <button class="button primary" type="button" disabled=${isBusy} onClick=${() => answer('accept', 'You’re going')}>Accept</button>
              <button class="button" type="button" disabled=${isBusy} onClick=${() => answer('decline', 'You declined')}>Decline</button>`
          }
          ${canActivate && html`<button class="button primary" type="button" onClick=${activate}>Activate</button>`}
          ${may(event, 'event.invite') && html`<button class=${inviteClass} type="button" onClick=${() => inviteTo({ event, org, path, me, participants: participants.items ?? [], onInvited: look })}>Invite</button>`}
          ${may(event, 'event.update') && html`<button class="button" type="button" onClick=${() => editEvent({ org, event, onSaved: set })}>Edit</button>`}
          ${may(event, 'event.archive') && html`<button class="button" type="button" onClick=${archive}>Archive</button>`}
          <${Menu} items=${[leave, may(event, 'event.delete') && ['Delete the draft', remove]]} />
        </div>
      </header>
      ${note && html`<p id="event-note" class="event-note">${note}</p>`}
      <${Purge} event=${event} />
      ${event.description && html`<p id="event-description" class="event-description" dir="auto">${event.description}</p>`}
      <div class="event-body">
        <div class="event-main">
          <${AlbumCard} event=${event} org=${org} path=${path} />
          <${EventComments} event=${event} org=${org} path=${path} me=${me} />
        </div>
        <div class="event-lists">
          <${Participants} list=${participants} event=${event} me=${me} onRemove=${removeOne} />
          <${Save} event=${event} path=${path} />
          ${seesInvitations && html`<${Invitations} list=${invitations} event=${event} participants=${participants.items ?? []} look=${look} />`}
        </div>
      </div>
    </div>`
}

const fact = (shape) => html`<svg aria-hidden="true" viewBox="0 0 20 20" width="18" height="18">${shape}</svg>`
const CLOCK = fact(html`<circle cx="10" cy="10" r="7.5" /><path d="M10 5.5V10l3 2" />`)
const PIN = fact(
  html`<path d="M10 17.5s5.5-5 5.5-9.3a5.5 5.5 0 0 0-11 0c0 4.3 5.5 9.3 5.5 9.3Z" /><circle cx="10" cy="8.2" r="2" />`,
)
const PERSON = fact(html`<circle cx="10" cy="7" r="3.2" /><path d="M3.8 17c.6-3.2 3-5 6.2-5s5.6 1.8 6.2 5" />`)
