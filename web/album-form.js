import { albumChanges, albumMistakes } from './album-words.js'
import { call, newAttempts } from './client.js'
import { sayIn } from './dialogs.js'
import { $ } from './dom.js'
import { fieldWords, inWords } from './refusal-words.js'

const FIELDS = ['title', 'description', 'event_id', 'visibility']
const REFUSALS = { CONFLICT: 'The event has an album already.' }
const attempts = newAttempts()
const dialog = $('album-form-dialog')
const inputOf = (name) => $(`album-form-${name}`)
let editing

/** Asks for a new album, of `event` if it is given, or for changes of `album`. `onSaved` gets what the API made of it. */
export function editAlbum({ org, album, event, onSaved }) {
  editing = { org, album, onSaved }
  $('album-form-heading').textContent = album ? 'Edit album' : 'New album'
  $('album-save').textContent = album ? 'Save' : 'Create draft'
  $('album-form-hint').hidden = Boolean(album)
  const values = album ?? { title: event?.title, event_id: event?.event_id, visibility: 'organization' }
  offerEvents(event ? [event] : [])
  for (const name of FIELDS) inputOf(name).value = values[name] ?? ''
  inputOf('event_id').disabled = Boolean(event)
  $('album-form-event').hidden = Boolean(album)
  $('album-form-participants').disabled = Boolean(album && !album.event_id)
  show({})
  sayIn('album-form-error')
  dialog.showModal()
  inputOf('title').focus()
  if (!album && !event) void loadEvents(editing)
}

const offerEvents = (events) =>
  inputOf('event_id').replaceChildren(
    new Option('None', ''),
    ...events.map((event) => new Option(event.title, event.event_id)),
  )

/** The events that the person can see and that can have an album. */
async function loadEvents(mine) {
  const lists = await Promise.all(
    ['active', 'draft'].map((status) => call('GET', `/api/orgs/${mine.org.org_id}/events?${new URLSearchParams({ status, limit: '100' })}`)),
  ).catch(() => [])
  if (mine === editing) offerEvents(lists.flatMap(({ events }) => events).filter((event) => !event.album_id))
}

function show(mistakes) {
  for (const name of FIELDS) {
    sayIn(`album-form-${name}-error`, mistakes[name])
    inputOf(name).ariaInvalid = String(Boolean(mistakes[name]))
  }
  const first = FIELDS.find((name) => mistakes[name])
  if (first) inputOf(first).focus()
  return Boolean(first)
}

async function save() {
  const { org, album, onSaved } = editing
  const form = Object.fromEntries(FIELDS.map((name) => [name, inputOf(name).value]))
  sayIn('album-form-error')
  if (show(albumMistakes({ ...form, event_id: album?.event_id ?? form.event_id }))) return
  const changes = albumChanges(album, form)
  if (Object.keys(changes).length === 0) return dialog.close()
  $('album-save').disabled = true
  try {
    const saved = await send(org, album, changes)
    attempts.done()
    dialog.close()
    onSaved(saved)
  } catch (error) {
    if (!show(fieldWords(error))) sayIn('album-form-error', inWords(error, REFUSALS))
  } finally {
    $('album-save').disabled = false
  }
}

function send(org, album, changes) {
  const path = `/api/orgs/${org.org_id}/albums`
  if (album) return call('PATCH', `${path}/${album.album_id}`, changes)
  return call('POST', path, changes, attempts.keyFor([path, changes]))
}

$('album-form').addEventListener('submit', (submitted) => {
  submitted.preventDefault()
  if (!$('album-save').disabled) void save()
})
