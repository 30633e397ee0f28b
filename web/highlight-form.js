import { albumSource } from './albums/source.js'
import { call, newAttempts, patiently } from './client.js'
import { sayIn } from './dialogs.js'
import { $, announce } from './dom.js'
import { newOrder } from './highlight-order.js'
import { estimateOf, HIGHLIGHT_REFUSALS, highlightMistakes, MAX_ITEMS, pathTo, refusedPlaces } from './highlight-words.js'
import { detailsOf, kindOf, knownDuration, knownMotion } from './item.js'
import { newTrackList } from './music-tracks.js'
import { pickMedia } from './picker.js'
import { fieldWords, inWords } from './refusal-words.js'
import { clock, plural } from './words.js'

const CHOICES = ['transition', 'orientation', 'captions', 'fill']
const SWITCHES = ['show_title', 'ken_burns', 'skip_broken']
const USUAL = {
  ...{ transition: 'crossfade', orientation: 'auto', captions: 'none', fill: 'blur' },
  ...{ show_title: true, ken_burns: true, skip_broken: false, music_track_id: null },
}
const dialog = $('highlight-form-dialog')
const attempts = newAttempts()
const inputOf = (name) => $(`highlight-form-${name}`)
const tracks = newTrackList($('highlight-tracks'), $('track-player'))
const order = newOrder($('highlight-order'), { onChange: changed, scroller: dialog.querySelector('.film-form-body') })
/** Where the film is made: {org, album, event, onMade}. */
let making

const picking = ({ org, album }) => ({
  ...{ org, isOrdered: true, offersAll: Boolean(album) },
  ...(album && { from: albumSource(album) }),
})

/**
 * Asks for the items of a film, from the album if one is given and from the library otherwise, and then how it should be.
 * `event` is the event of the album. `onMade` gets the id of the new highlight.
 */
export const chooseForHighlight = (place) =>
  pickMedia({
    ...picking(place),
    title: 'Choose photos and videos, in the order of the film',
    label: 'Continue with',
    most: MAX_ITEMS,
    then: (items) => makeHighlight({ ...place, items }),
  })

/** Asks how a film of these items should be, and has it made. `settings` are those of another highlight. */
export function makeHighlight({ items, settings = {}, ...place }) {
  making = place
  const { org, album, event } = place
  const values = { ...USUAL, title: event?.title ?? album?.title ?? '', ...settings }
  inputOf('title').value = values.title
  for (const name of CHOICES) inputOf(name).value = values[name]
  for (const name of SWITCHES) inputOf(name).checked = values[name]
  $('highlight-form-caption').disabled = !album
  if (!album && values.captions === 'caption') inputOf('captions').value = 'none'
  show({})
  sayIn('highlight-form-error')
  dialog.showModal()
  dialog.querySelector('.film-form-body').scrollTop = 0
  order.show([])
  order.show(items)
  inputOf('title').focus()
  void loadTracks(values.music_track_id)
  announce(`A highlight in ${org.name}`)
}

async function loadTracks(chosen) {
  sayIn('highlight-tracks-error')
  try {
    await tracks.load(chosen)
  } catch (error) {
    sayIn('highlight-tracks-error', inWords(error))
  }
}

function changed() {
  if (!making) return
  order.mark([])
  sayIn('highlight-form-items-error')
  $('highlight-more').hidden = order.items().length >= MAX_ITEMS
  showLength()
  void loadDurations(making)
}

const secondsOf = (m) => ({ video: knownDuration, live: knownMotion })[kindOf(m)]?.(m)
const lengthOfItem = (m) => ({ kind: kindOf(m), seconds: secondsOf(m) })

function showLength() {
  const items = order.items()
  const seconds = estimateOf(items.map(lengthOfItem), inputOf('transition').value)
  $('highlight-form-length').textContent = items.length === 0 ? '' : `${plural(items.length, 'item')}, about ${clock(seconds)}`
}

/** A list of media items does not say how long a video lasts. One that is being converted has no length yet. */
async function loadDurations(mine) {
  if (mine.isLoading) return
  mine.isLoading = true
  const asked = new Set()
  const next = () =>
    order.items().find((m) => kindOf(m) !== 'photo' && secondsOf(m) === undefined && !asked.has(m.media_id))
  for (let m = next(); m && mine === making; m = next()) {
    const wanted = m
    asked.add(wanted.media_id)
    await patiently(() => detailsOf(wanted)).catch(() => {})
    if (mine === making) showLength()
  }
  mine.isLoading = false
}

function show(mistakes) {
  for (const name of ['title', 'items']) sayIn(`highlight-form-${name}-error`, mistakes[name])
  inputOf('title').ariaInvalid = String(Boolean(mistakes.title))
  if (mistakes.title) inputOf('title').focus()
  return Object.keys(mistakes).length > 0
}

async function save() {
  const mine = making
  const items = order.items()
  sayIn('highlight-form-error')
  if (show(highlightMistakes({ title: inputOf('title').value, items }))) return
  const body = {
    title: inputOf('title').value.trim(),
    media_ids: items.map((m) => m.media_id),
    music_track_id: tracks.chosen(),
    ...Object.fromEntries(CHOICES.map((name) => [name, inputOf(name).value])),
    ...Object.fromEntries(SWITCHES.map((name) => [name, inputOf(name).checked])),
  }
  const path = pathTo(mine)
  $('highlight-make').disabled = true
  try {
    const { highlight_id: id } = await call('POST', path, body, attempts.keyFor([path, body]))
    attempts.done()
    dialog.close()
    mine.onMade(id)
  } catch (error) {
    refused(error)
  } finally {
    $('highlight-make').disabled = false
  }
}

function refused(error) {
  order.mark(refusedPlaces(error))
  const { title } = fieldWords(error)
  if (!show(title ? { title } : {})) sayIn('highlight-form-error', inWords(error, HIGHLIGHT_REFUSALS))
}

function addItems() {
  const mine = making
  const chosen = new Set(order.items().map((m) => m.media_id))
  void pickMedia({
    ...picking(mine),
    title: 'Add items',
    label: 'Add',
    most: MAX_ITEMS - chosen.size,
    has: (id) => chosen.has(id),
    then: (items) => mine === making && order.show([...order.items(), ...items]),
  })
}

$('highlight-form').addEventListener('submit', (submitted) => {
  submitted.preventDefault()
  if (!$('highlight-make').disabled) void save()
})
$('highlight-more').addEventListener('click', addItems)
inputOf('transition').addEventListener('change', showLength)
dialog.addEventListener('close', () => {
  making = undefined
  tracks.stop()
})
