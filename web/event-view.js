import { call } from './client.js'
import { closeComments, lookAtComments, openComments } from './comments.js'
import { ask, sayIn } from './dialogs.js'
import { $, announce, avatar, copyOf, toast } from './dom.js'
import { lookAtEventAlbum } from './event-album.js'
import { editEvent } from './event-form.js'
import * as words from './event-words.js'
import { fillSheet } from './events.js'
import { findInGroups } from './lib/find-in-groups.js'
import { NAMELESS } from './lib/names.js'
import { newHighlightShelf } from './highlight-shelf.js'
import { inviteTo, showLinkOf } from './invite.js'
import { newPager } from './pager.js'
import { inWords } from './refusal-words.js'

const LOOK_MS = 5000
const HIDDEN_MS = 60_000

const shelf = newHighlightShelf($('event-highlights'))
/** What is shown: the event, its group, and the lists below it. */
let at
let timer
let asked = 0
/** Counts the looks: what an earlier one saw is not shown over what a later one saw. */
let looks = 0

/** Shows an event. */
export async function openEvent(id, { me, organizations, first, onFound }) {
  const mine = ++asked
  $('event-shown').hidden = true
  $('event-gone').hidden = true
  try {
    const there = await findInGroups((org) => `/api/orgs/${org.org_id}/events/${encodeURIComponent(id)}`, { organizations, first })
    if (mine !== asked) return
    if (!there) return showGone('This event does not exist, or it is a draft of another person.')
    const { found: event, org, path } = there
    onFound(org)
    at = { event, org, path, me, ...listsOf(there) }
    openComments({ ...at, look })
    await look()
  } catch (error) {
    if (mine === asked) showGone(inWords(error))
  }
}

export function closeEvent() {
  asked++
  clearTimeout(timer)
  closeComments()
  shelf.close()
  at = undefined
}

function showGone(text) {
  $('event-gone-text').textContent = text
  $('event-gone').hidden = false
  $('event-shown').hidden = true
}

const listsOf = ({ path }) => ({
  participants: newPager(`${path}/participants`, 'participants', { limit: '100' }),
  invitations: newPager(`${path}/invitations`, 'invitations', { limit: '50' }),
})

const viewer = () => ({ userId: at.me.user_id, role: at.org.role })
const allowed = () => words.actionsFor(at.event, viewer())

/** Asks for the present state of everything that is shown, and again after a while: others answer meanwhile. */
async function look() {
  clearTimeout(timer)
  const mine = at
  if (!mine) return
  const turn = ++looks
  const isOld = () => mine !== at || turn !== looks
  try {
    const [event] = await Promise.all([
      call('GET', mine.path),
      mine.participants.again(),
      allowed().seeInvitations && mine.invitations.again().catch(ifNoMoreAdministrator(mine)),
    ])
    if (isOld()) return
    at.event = event
    shelf.open(at.org, event.album_id)
    renderIfChanged()
    await Promise.all([lookAtComments(event), lookAtEventAlbum(mine, () => !isOld())])
    if (isOld()) return
  } catch (error) {
    if (isOld()) return
    if (error.status === 404) return showGone(inWords(error))
    if (error.status !== 429) toast(inWords(error))
  }
  timer = setTimeout(look, document.hidden ? HIDDEN_MS : LOOK_MS)
}

/** A button that is replaced while it is pressed gets no click, and one that has the focus loses it. */
function renderIfChanged() {
  const minute = Math.floor(Date.now() / 60_000)
  const state = JSON.stringify([at.event, at.org.role, at.participants.items(), at.invitations.items(), minute])
  if (state === at.drawn) return
  at.drawn = state
  render()
}

/** The API answers a refusal as if there were no list. Whether the event is still there, its own request says. */
const ifNoMoreAdministrator = (mine) => (error) => {
  if (error.status !== 404) throw error
  mine.org = { ...mine.org, role: 'member' }
}

function render() {
  const { event, org, me } = at
  const can = allowed()
  $('event-shown').hidden = false
  $('event-shown').dataset.status = event.status
  fillSheet($('event-sheet'), event)
  sayIn('event-title', event.title)
  sayIn('event-state', words.STATES[event.status])
  sayIn('event-part', words.partOf(event, me.user_id))
  sayIn('event-when', words.when(event))
  sayIn('event-place', words.placeOf(event))
  sayIn('event-host', `${words.hostOf(event)} · ${org.name}`)
  sayIn('event-description', event.description)
  sayIn('event-note', words.noteOn(event))
  document.title = `${event.title} · Keepsake`
  for (const action of ['accept', 'decline', 'edit', 'activate', 'archive', 'invite']) $(`event-${action}`).hidden = !can[action]
  // The next step of a draft is to activate it, and of an invited viewer to answer.
  $('event-invite').classList.toggle('primary', !can.activate && !can.accept)
  renderParticipants()
  renderInvitations(can)
}

function renderParticipants() {
  const people = at.participants.items()
  $('participants-count').textContent = String(at.participants.total() ?? people.length)
  $('participant-groups').replaceChildren(...words.groupsOf(people, at.event).map(groupElement))
  $('participants-more').hidden = !at.participants.hasMore()
}

function groupElement({ status, title, people }) {
  const group = copyOf('participant-group')
  group.dataset.status = status
  group.querySelector('h3').textContent = title
  group.querySelector('ul').append(...people.map(personElement))
  return group
}

function personElement({ user_id, display_name }) {
  const item = copyOf('person')
  const name = display_name ?? NAMELESS
  item.prepend(avatar(display_name ?? '?'))
  item.querySelector('.name').textContent = user_id === at.me.user_id ? `${name} (you)` : name
  item.querySelector('.role').textContent = user_id === at.event.owner_id ? 'Host' : ''
  item.classList.toggle('nameless', !display_name)
  return item
}

function renderInvitations({ seeInvitations, reissue }) {
  $('invitations').hidden = !seeInvitations
  const items = at.invitations.items()
  $('invitations-count').textContent = items.length + (at.invitations.hasMore() ? '+' : '')
  $('invitations-none').hidden = items.length > 0
  $('invitation-list').replaceChildren(...items.map((item) => invitationElement(item, reissue)))
  $('invitations-more').hidden = !at.invitations.hasMore()
}

function invitationElement(invitation, reissue) {
  const item = copyOf('invitation-row')
  const name = words.inviteeOf(invitation)
  item.dataset.status = invitation.status
  item.querySelector('.name').textContent = name
  item.querySelector('.text').textContent = words.invitationState(invitation, at.event, Date.now())
  item.querySelector('.said').textContent = invitation.response_message ?? ''
  const button = item.querySelector('.new-link')
  button.hidden = !(reissue && words.mayReissue(invitation))
  button.ariaLabel = `New link for ${name}`
  button.addEventListener('click', () => void renew(button, invitation, name))
  return item
}

const REISSUE = { INVALID_STATE_TRANSITION: 'This invitation was answered meanwhile.' }

async function renew(button, { invitation_id }, name) {
  const { event } = at
  button.disabled = true
  try {
    showLinkOf(await call('POST', `/api/invitations/${invitation_id}/reissue`), { name, event, isNew: false })
  } catch (error) {
    toast(inWords(error, REISSUE))
  } finally {
    button.disabled = false
  }
  await look()
}

const ANSWER = { INVITATION_EXPIRED: 'The invitation has expired. Ask the host for another one.' }

/** The viewer's own answer, for which the API needs no link. */
async function answer(response, done) {
  const mine = at
  for (const name of ['accept', 'decline']) $(`event-${name}`).disabled = true
  try {
    await call('POST', `/api/invitations/${mine.event.my_invitation_id}/respond`, { response })
    announce(done)
  } catch (error) {
    toast(inWords(error, ANSWER))
  } finally {
    for (const name of ['accept', 'decline']) $(`event-${name}`).disabled = false
  }
  if (mine === at) await look()
}

/** Archived in one window while another one still offers to activate. */
const MOVED = { INVALID_STATE_TRANSITION: 'The event was archived meanwhile.' }

async function move(to, done) {
  const mine = at
  const event = await call('POST', `${mine.path}/${to}`)
  if (mine !== at) return
  at.event = event
  announce(done)
  await look()
}

$('event-accept').addEventListener('click', () => void answer('accept', 'You’re going'))
$('event-decline').addEventListener('click', () => void answer('decline', 'You declined'))
$('event-edit').addEventListener('click', () => editEvent({ org: at.org, event: at.event, onSaved: () => void look() }))
$('event-activate').addEventListener('click', () => {
  ask({
    title: `Activate “${at.event.title}”?`,
    text: `Every member of ${at.org.name} can see the event from now on, and those who are invited are told.`,
    label: 'Activate',
    run: () => move('activate', 'The event is active'),
    say: (error) => inWords(error, MOVED),
  })
})
$('event-archive').addEventListener('click', () => {
  ask({
    title: `Archive “${at.event.title}”?`,
    text: 'It can still be read, but nothing in it changes any more, and open invitations can no longer be answered. This cannot be taken back.',
    label: 'Archive',
    run: () => move('archive', 'The event is archived'),
    say: (error) => inWords(error, MOVED),
  })
})
$('event-invite').addEventListener('click', () => inviteTo({ ...at, onInvited: () => void look() }))
for (const name of ['participants', 'invitations']) {
  $(`${name}-more`).addEventListener('click', async () => {
    const mine = at
    await mine[name].more().catch((error) => toast(inWords(error)))
    if (mine === at) render()
  })
}
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void look()
})
