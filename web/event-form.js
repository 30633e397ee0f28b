import { call, newAttempts } from './client.js'
import { sayIn } from './dialogs.js'
import { $ } from './dom.js'
import { changesOf, mistakesIn, toLocalInput, usualStart } from './event-words.js'
import { fieldWords, inWords } from './refusal-words.js'

const FIELDS = ['title', 'start_at', 'end_at', 'location_name', 'description']
const attempts = newAttempts()
const dialog = $('event-form-dialog')
// The view of an event shows two of them under these names.
const SHOWN = ['title', 'description']
const inputOf = (name) => $(`event-${name}${SHOWN.includes(name) ? '-input' : ''}`)
let editing

/** Asks for a new event, or for changes of `event`. `onSaved` gets what the API made of it. */
export function editEvent({ org, event, onSaved }) {
  editing = { org, event, onSaved }
  $('event-form-title').textContent = event ? 'Edit event' : 'New event'
  $('event-form-hint').hidden = Boolean(event)
  $('event-save').textContent = event ? 'Save' : 'Create draft'
  const values = event ?? { start_at: usualStart(Date.now()) }
  for (const name of FIELDS) {
    inputOf(name).value = name.endsWith('_at') ? toLocalInput(values[name]) : (values[name] ?? '')
  }
  showMistakes({})
  sayIn('event-form-error')
  dialog.showModal()
  inputOf('title').focus()
}

function showMistakes(mistakes) {
  for (const name of FIELDS) {
    sayIn(`event-${name}-error`, mistakes[name])
    inputOf(name).ariaInvalid = String(Boolean(mistakes[name]))
  }
  const first = FIELDS.find((name) => mistakes[name])
  if (first) inputOf(first).focus()
  return Boolean(first)
}

async function save() {
  const { org, event, onSaved } = editing
  const form = Object.fromEntries(FIELDS.map((name) => [name, inputOf(name).value]))
  sayIn('event-form-error')
  if (showMistakes(mistakesIn(form))) return
  const changes = changesOf(event, form)
  if (Object.keys(changes).length === 0) return dialog.close()
  $('event-save').disabled = true
  try {
    const saved = await send(org, event, changes)
    attempts.done()
    dialog.close()
    onSaved(saved)
  } catch (error) {
    if (!showMistakes(fieldWords(error))) sayIn('event-form-error', inWords(error))
  } finally {
    $('event-save').disabled = false
  }
}

function send(org, event, changes) {
  const path = `/api/orgs/${org.org_id}/events`
  if (event) return call('PUT', `${path}/${event.event_id}`, changes)
  return call('POST', path, changes, attempts.keyFor([path, changes]))
}

$('event-form').addEventListener('submit', (submitted) => {
  submitted.preventDefault()
  if (!$('event-save').disabled) void save()
})
