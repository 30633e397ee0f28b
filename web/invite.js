import { call, link, newAttempts } from './client.js'
import { sayIn } from './dialogs.js'
import { $, announce, avatar, copyOf } from './dom.js'
import { candidatesOf, linkLeft } from './event-words.js'
import { NAMELESS } from './lib/names.js'
import { fieldWords, inWords } from './refusal-words.js'
import { demoKey } from './sign-in.js'

const CHANNELS = ['uuid', 'email', 'phone_number']
const attempts = newAttempts()
const dialog = $('invite')
let inviting
/** The member who is chosen: `{user_id, display_name}`. */
let member
let shown
let timer

/** Asks whom to invite to an event, and shows the link that was made. */
export function inviteTo({ event, org, path, me, participants, onInvited }) {
  inviting = { event, org, path, me, participants, onInvited }
  $('invite-form').reset()
  // Those of the last time may be invited by now.
  $('invite-members').replaceChildren()
  choose(undefined)
  show('form')
  showChannel()
  if (!dialog.open) dialog.showModal()
  void search()
}

function show(part) {
  $('invite-form').hidden = part !== 'form'
  $('invite-link').hidden = part !== 'link'
  sayIn('invite-error')
}

const channel = () => new FormData($('invite-form')).get('channel')

function showChannel() {
  for (const name of CHANNELS) $(`invite-by-${name}`).hidden = name !== channel()
  sayIn('invite-error')
}

let searching = 0
/** Members whose name contains the text; those who joined last where there is none. */
async function search() {
  const mine = ++searching
  const text = $('invite-query').value.trim()
  const query = new URLSearchParams({ limit: '20', ...(text && { query: text }) })
  try {
    const { members } = await call('GET', `/api/organizations/${inviting.org.org_id}/members?${query}`)
    if (mine === searching) showMembers(candidatesOf(members, inviting.participants.items(), inviting.me.user_id))
  } catch (error) {
    if (mine === searching) sayIn('invite-error', inWords(error))
  }
}

function showMembers(members) {
  $('invite-members').replaceChildren(...members.map(memberElement))
  $('invite-none').hidden = members.length > 0
}

function memberElement(found) {
  const item = copyOf('member')
  const button = item.querySelector('button')
  button.prepend(avatar(found.display_name ?? '?'))
  item.querySelector('.name').textContent = found.display_name ?? NAMELESS
  item.querySelector('.since').textContent = found.already ?? `Joined ${found.joined_at.slice(0, 4)}`
  button.disabled = Boolean(found.already)
  button.ariaPressed = String(found.user_id === member?.user_id)
  button.addEventListener('click', () => {
    choose(found)
    for (const other of $('invite-members').querySelectorAll('button')) other.ariaPressed = String(other === button)
  })
  return item
}

function choose(found) {
  member = found
  sayIn('invite-error')
  $('invite-chosen').textContent = found ? `${found.display_name ?? NAMELESS} will be invited.` : ''
}

/** Whom the form names: the field of the API and a name to show. Undefined for none. */
function target() {
  const by = channel()
  if (by === 'uuid') return member && { uuid: member.user_id, name: member.display_name ?? NAMELESS }
  const typed = $(`invite-${by}`).value.trim()
  const value = by === 'phone_number' ? typed.replace(/[\s()/.-]/g, '') : typed
  return value ? { [by]: value, name: value } : undefined
}

const MISSING = { uuid: 'Choose a member.', email: 'Enter an e-mail address.', phone_number: 'Enter a phone number.' }
const WRONG = {
  email: 'This is not an e-mail address.',
  phone_number: 'Enter the number with the code of its country, like +49 170 1234567.',
}

async function send() {
  const { path, event, onInvited } = inviting
  const wanted = target()
  if (!wanted) return sayIn('invite-error', MISSING[channel()])
  const { name, ...whom } = wanted
  const message = $('invite-message').value.trim()
  const body = { ...whom, ...(message && { message }) }
  sayIn('invite-error')
  $('invite-send').disabled = true
  try {
    const made = await call('POST', `${path}/invitations`, body, attempts.keyFor([path, body]))
    attempts.done()
    showLinkOf(made, { name, event, isNew: true })
    onInvited()
  } catch (error) {
    const [field] = Object.keys(fieldWords(error))
    sayIn('invite-error', WRONG[field] ?? fieldWords(error)[field] ?? inWords(error))
  } finally {
    $('invite-send').disabled = false
  }
}

/** Shows a link with its QR code. It is a credential, so it is kept nowhere. */
export function showLinkOf(made, { name, event, isNew }) {
  shown = made
  show('link')
  $('link-title').textContent = isNew ? `${name} is invited` : `New link for ${name}`
  $('link-hint').textContent =
    event.status === 'draft'
      ? 'Send the link yourself. It can be answered once the event is active.'
      : 'Send the link yourself, or let them scan the code. It works for one answer.'
  $('link-url').value = made.invite_url
  $('link-qr').hidden = !made.qr_png_url
  if (made.qr_png_url) $('link-qr').src = link(made.qr_png_url)
  $('link-copy').textContent = 'Copy'
  $('link-another').hidden = !isNew
  showTry(made)
  showLeft()
  if (!dialog.open) dialog.showModal()
  $('link-copy').focus()
}

/** In the demo a person answers their own invitations: the key shows the accounts in the other window. */
function showTry({ invite_url }) {
  const key = demoKey()
  $('link-try').hidden = !key
  if (key) $('link-try').href = `${invite_url}&${new URLSearchParams({ key })}`
}

function showLeft() {
  clearTimeout(timer)
  if (!shown) return
  $('link-left').textContent = linkLeft(shown.token_expires_at, Date.now())
  timer = setTimeout(showLeft, 5000)
}

async function copy() {
  try {
    await navigator.clipboard.writeText($('link-url').value)
    $('link-copy').textContent = 'Copied'
    announce('The link is copied')
  } catch {
    // Without the permission, the person copies what is selected.
    $('link-url').select()
  }
}

dialog.addEventListener('close', () => {
  shown = undefined
  clearTimeout(timer)
  $('link-url').value = ''
  $('link-qr').removeAttribute('src')
  $('link-try').removeAttribute('href')
})
$('invite-form').addEventListener('submit', (event) => {
  event.preventDefault()
  if (!$('invite-send').disabled) void send()
})
for (const radio of $('invite-form').elements.channel) radio.addEventListener('change', showChannel)
let typing
$('invite-query').addEventListener('input', () => {
  clearTimeout(typing)
  typing = setTimeout(() => void search(), 200)
})
$('link-copy').addEventListener('click', () => void copy())
$('link-another').addEventListener('click', () => inviteTo(inviting))
