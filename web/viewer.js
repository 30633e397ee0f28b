import { link } from './client.js'
import { $, toast, wantsLessMotion } from './dom.js'
import { hideToast, saveToast } from './lib/toast.js'
import { describe, detailsOf, isPlayable, kindOf, nameOf, reasonOf } from './item.js'
import { playLivePhoto } from './live-photo.js'
import { closeMediaComments, openMediaComments } from './media-comments.js'
import { drawPlaceholder } from './picture.js'
import { newNames } from './lib/names.js'
import { newPlayer } from './player.js'
import { withMedia } from './views.js'
import { clock, momentOf, size } from './words.js'

const dialog = $('viewer')
const player = newPlayer({
  video: $('video'),
  quality: $('quality'),
  label: $('quality-label'),
  say(text) {
    $('viewer-note').hidden = false
    $('viewer-note').textContent = text
  },
})
let shown
let does
let stopMotion = () => {}
/** What was shown before attachments of a comment were opened: {does, shown}. */
const below = []
/** Beside the media item: `details`, `comments` or nothing. On a phone there is room for the picture alone. */
let panel = matchMedia('(min-width: 60rem)').matches ? 'comments' : ''

export const isShown = (id) => shown?.media_id === id

/**
 * Opens a media item: plays a video, shows a photo. The page's address names it, so the back button closes it. `given`,
 * the list that it is shown from: {find, neighbour(id, step), load(missing), refresh(m), remove(id), canRemove(m),
 * captionOf(m), closed(id), discussed}. `discussed`, of media items of an event: {event(), org, path, me}.
 */
export function openViewer(m, given) {
  if (dialog.open) below.push({ does, shown })
  does = given
  if (!dialog.open) {
    history.pushState({ viewer: true }, '', withMedia(location.hash, m.media_id))
    dialog.showModal()
  }
  show(m)
}

/** The browser scrolls to where the view was when the viewer opened: what scrolls elsewhere has to come later. */
let goneBack = Promise.resolve()

/** Closes what is shown; what was shown before it is there again. */
function back() {
  if (below.length === 0) return closeViewer()
  const before = below.pop()
  does = before.does
  show(does.find(before.shown.media_id) ?? before.shown)
}

export function closeViewer() {
  if (!dialog.open) return
  if (history.state?.viewer) {
    goneBack = new Promise((resolve) => addEventListener('popstate', () => setTimeout(resolve), { once: true }))
    history.back()
  }
  dialog.close()
}

/** Called with every update of media items: more renditions may exist than at the start. */
export function refreshViewer(m) {
  if (!isShown(m.media_id)) return
  const before = shown
  shown = m
  say(m)
  const finished = before.upload_status !== m.upload_status || isPlayable(before) !== isPlayable(m)
  if (finished) load(m, isPlayable(before) ? player.seconds() : 0)
}

function show(m) {
  shown = m
  history.replaceState(history.state, '', withMedia(location.hash, m.media_id))
  $('viewer-title').textContent = nameOf(m)
  $('viewer-facts').replaceChildren()
  $('viewer-remove').hidden = !does.canRemove(m)
  say(m)
  load(m, 0)
  showPanel()
  for (const [id, step] of [['viewer-previous', -1], ['viewer-next', 1]]) {
    const { item, missing } = does.neighbour(m.media_id, step)
    $(id).disabled = !item && !missing
    // The next picture is there before it is asked for.
    if (item?.variants.image_webp_url && kindOf(item) !== 'video') new Image().src = link(item.variants.image_webp_url)
  }
}

function showPanel() {
  const { discussed } = does
  const isDiscussed = panel === 'comments' && Boolean(discussed)
  dialog.dataset.panel = panel === 'comments' && !discussed ? '' : panel
  $('viewer-talk').hidden = !discussed
  $('viewer-talk').ariaExpanded = String(isDiscussed)
  $('viewer-info').ariaExpanded = String(panel === 'details')
  if (isDiscussed) discuss(discussed)
  else leaveComments()
}

let discussing
/** The media item whose comment the toast says is unsent. */
let announced
/** What was begun about another media item is kept there, which its author should know. */
function discuss(discussed) {
  if (discussing !== shown.media_id) leaveComments()
  discussing = shown.media_id
  if (announced === discussing) hideToast()
  openMediaComments(shown, discussed, openViewer)
}

function leaveComments() {
  const [id, given] = [discussing, does]
  discussing = undefined
  if (!closeMediaComments() || (dialog.open && isShown(id))) return
  if (below.some((before) => before.shown.media_id === id)) return
  announced = id
  const m = given.find(id)
  const text = 'Your comment is not sent. It is kept with the item.'
  const run = () => dialog.open && does === given && show(given.find(id) ?? m)
  toast(text, m && dialog.open ? { label: 'Go back', run } : undefined)
}

function say(m) {
  const note = describe(m)
  const early = m.upload_status === 'processing' && isPlayable(m)
  $('viewer-note').hidden = note === ''
  $('viewer-note').textContent = early ? `${note}. Better quality follows when it is converted` : note
  $('viewer-download').href = link(m.original_url)
  $('viewer-download').ariaLabel = `Download the original of ${nameOf(m)}`
  $('viewer-when').textContent = `${m.captured_at ? '' : 'Added '}${momentOf(m)}`
  const caption = does.captionOf?.(m) ?? ''
  $('viewer-caption').hidden = caption === ''
  $('viewer-caption').textContent = caption
}

function load(m, from) {
  stop()
  const stage = $('viewer-stage')
  stage.dataset.kind = kindOf(m)
  $('viewer-live').hidden = kindOf(m) !== 'live'
  const hasPicture = showPicture(m)
  $('viewer-nothing').hidden = hasPicture || isPlayable(m)
  $('viewer-nothing').textContent = m.upload_status === 'failed' ? 'No preview' : 'The preview follows'
  if (isPlayable(m)) player.play(m, from, () => does.refresh(m))
  else if (kindOf(m) === 'live' && !wantsLessMotion()) playLive(m)
  void details(m)
}

function stop() {
  stopMotion()
  player.stop()
  $('viewer-picture').hidden = true
  $('viewer-picture').removeAttribute('src')
  $('viewer-blur').hidden = true
}

/** The blur at once, then the thumbnail that the grid has loaded, then the photo itself. */
function showPicture(m) {
  const { image_webp_url: large, image_url: full, image_thumb_url: small } = m.variants
  const best = large ?? full ?? small
  if (isPlayable(m)) return true
  $('viewer-blur').hidden = !drawPlaceholder($('viewer-blur'), m.placeholder)
  if (!best) return !$('viewer-blur').hidden
  const picture = $('viewer-picture')
  picture.alt = `${nameOf(m)}`
  picture.hidden = false
  picture.src = link(small ?? best)
  const whole = new Image()
  whole.src = link(best)
  whole.decode().then(
    () => {
      if (!isShown(m.media_id)) return
      picture.src = whole.src
      picture.dataset.loaded = m.media_id
    },
    () => void (isShown(m.media_id) && again(m)),
  )
  return true
}

/** A link that has expired: once more with new ones. */
async function again(m) {
  const fresh = await does.refresh(m).catch(() => undefined)
  const url = fresh && (fresh.variants.image_webp_url ?? fresh.variants.image_url)
  if (url && isShown(m.media_id)) $('viewer-picture').src = link(url)
}

function playLive(m) {
  stopMotion = playLivePhoto($('viewer-stage'), m, does.refresh)
}

const names = new Map()
/** Who added it. A media item says that by an id. */
async function authorOf({ org_id, uploader_id: id }) {
  if (!names.has(org_id)) names.set(org_id, newNames({ org_id }))
  await names.get(org_id).need([id]).catch(() => {})
  return names.get(org_id).of(id)
}

/** The lines below the picture: what the file says of itself. */
async function details(m) {
  const [meta, author] = await Promise.all([detailsOf(m).catch(() => undefined), authorOf(m)])
  if (!meta || !isShown(m.media_id)) return
  const { camera, exif, location } = meta
  const renditions = meta.conversion.renditions.map((r) => r.name).join(', ')
  const facts = [
    ['Name', nameOf(m)],
    [m.captured_at ? 'Taken' : 'Added', momentOf(m)],
    ['Added by', author],
    ['Length', meta.duration_sec && clock(meta.duration_sec)],
    ['Dimensions', meta.width && `${meta.width} × ${meta.height}`],
    ['Size', size(m.file_size_bytes)],
    ['Camera', [camera.make, camera.model].filter(Boolean).join(' ')],
    ['Exposure', exposureOf(exif)],
    ['Lens', exif.LensModel],
    ['Place', location && `${location.latitude.toFixed(4)}, ${location.longitude.toFixed(4)}`],
    ['Streams', renditions],
    ['Not converted', m.upload_status === 'failed' && reasonOf(m)?.long],
  ]
  $('viewer-facts').replaceChildren(...facts.filter(([, value]) => value).flatMap(([name, value]) => fact(name, value)))
  say(m)
}

const EXPOSURE = {
  ExposureTime: (text) => `${text} s`,
  FNumber: (text) => text,
  ISOSpeedRatings: (text) => `ISO ${text}`,
  FocalLength: (text) => text,
}
const exposureOf = (exif) =>
  Object.entries(EXPOSURE).flatMap(([tag, show]) => (exif[tag] ? [show(exif[tag])] : [])).join(' · ')

function fact(name, value) {
  const [dt, dd] = ['dt', 'dd'].map((tag) => document.createElement(tag))
  dt.textContent = name
  dd.textContent = value
  return [dt, dd]
}

async function go(step) {
  const from = shown
  const { item, missing } = does.neighbour(from.media_id, step)
  const next = item ?? (missing && (await does.load(missing).then(() => does.neighbour(from.media_id, step).item, () => {})))
  if (next && shown === from && dialog.open) show(next)
}

/** Deletes what is shown, and shows the next one. */
async function remove() {
  const m = shown
  const next = does.neighbour(m.media_id, 1).item ?? does.neighbour(m.media_id, -1).item
  if (!(await does.remove(m.media_id))) return
  if (!isShown(m.media_id)) return
  if (next) show(does.find(next.media_id) ?? next)
  else back()
}

$('viewer-previous').addEventListener('click', () => void go(-1))
$('viewer-next').addEventListener('click', () => void go(1))
$('viewer-remove').addEventListener('click', () => void remove())
$('viewer-live').addEventListener('click', () => playLive(shown))
$('viewer-close').addEventListener('click', back)
for (const [id, name] of [['viewer-info', 'details'], ['viewer-talk', 'comments']]) {
  $(id).addEventListener('click', () => {
    panel = dialog.dataset.panel === name ? '' : name
    showPanel()
  })
}
dialog.addEventListener('keydown', (event) => {
  // Arrows also move through a video, a list of qualities and a text that have the focus.
  if (event.target.closest('video, select, .beside')) return
  if (event.key === 'ArrowLeft') void go(-1)
  if (event.key === 'ArrowRight') void go(1)
  if (event.key === 'Delete' && !$('viewer-remove').hidden) void remove()
})
dialog.addEventListener('cancel', (event) => {
  event.preventDefault()
  back()
})
dialog.addEventListener('close', () => {
  const [first] = [...below.splice(0), { does, shown }]
  stop()
  shown = undefined
  saveToast(dialog)
  leaveComments()
  void goneBack.then(() => first.does.closed(first.shown?.media_id))
})
addEventListener('popstate', () => {
  if (dialog.open && !history.state?.viewer) dialog.close()
})

let touch
const stage = $('viewer-stage')
stage.addEventListener('touchstart', ({ touches: [first], touches }) => {
  touch = touches.length === 1 ? { x: first.clientX, y: first.clientY } : undefined
}, { passive: true })
stage.addEventListener('touchend', ({ changedTouches: [last], target }) => {
  if (!touch || target.closest('video')) return
  const [dx, dy] = [last.clientX - touch.x, last.clientY - touch.y]
  if (Math.abs(dx) > 50 && Math.abs(dx) > 2 * Math.abs(dy)) void go(dx < 0 ? 1 : -1)
  else if (dy > 90 && dy > 2 * Math.abs(dx)) back()
})
