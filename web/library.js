import { call } from './client.js'
import { $, announce, showProblem, toast } from './dom.js'
import { newGrid } from './grid.js'
import { chooseForHighlight } from './highlight-form.js'
import { nameOf } from './item.js'
import { newScrubber } from './scrubber.js'
import { newTimeline } from './timeline.js'
import { newLoader } from './timeline-loader.js'
import { restoreMedia as restore } from './lib/media.js'
import { openViewer, refreshViewer } from './viewer.js'
import { linkToHighlight } from './views.js'
import { plural } from './words.js'

/** Media items in memory; the pictures of those that are out of sight are not. */
const KEPT = 4000
/** Media items that are watched one by one while they are converted. */
const WATCHED = 12

let timeline = newTimeline()
let organization
let me
let timer
let loader
let onSignedOut = () => {}

const does = {
  find: (id) => timeline.find(id),
  neighbour: (id, step) => timeline.neighbour(id, step),
  load: (missing) => loader.load(missing),
  refresh,
  remove,
  canRemove: (m) => m.uploader_id === me?.user_id || ['owner', 'admin'].includes(organization?.role),
  open: (id) => openViewer(timeline.find(id), does),
  closed: (id) => void ($('photos').hidden || grid.reveal(id, timeline.months(), render)),
}
const grid = newGrid($('months'), does)
const scrubber = newScrubber(grid)

export function openLibrary(user, signedOut) {
  me = user
  onSignedOut = signedOut
}

export function closeLibrary() {
  clearTimeout(timer)
  loader?.end()
  organization = undefined
  timeline = newTimeline()
  grid.clear()
}

export async function showLibraryOf(chosen) {
  closeLibrary()
  organization = chosen
  loader = newLoader(chosen, timeline, renderSoon)
  $('summary').textContent = ''
  $('empty').hidden = true
  await look()
}

/** Opens a media item by its id, wherever in the library it is. */
export async function openById(id) {
  const known = timeline.find(id)
  const item = known ?? (await call('GET', `/api/media/${organization.org_id}/${id}`).catch(() => undefined))
  if (item) openViewer(item, does)
}

/** Asks for the months and for what was uploaded last, and schedules the next look: soon during a conversion. */
export async function look() {
  clearTimeout(timer)
  const asked = organization
  if (!asked) return
  let busy = false
  try {
    const base = `/api/media/${asked.org_id}`
    const [{ months }, latest] = await Promise.all([call('GET', `${base}/months`), call('GET', `${base}?limit=50`)])
    if (asked !== organization) return
    timeline.setMonths(months)
    for (const m of latest.media) take(m)
    busy = latest.media.some((m) => m.upload_status === 'processing')
    const watched = watchedItems(latest.media)
    busy ||= watched.length > 0
    for (const m of watched) await refresh(m)
    if (asked !== organization) return
    showProblem()
    summarize(latest.media)
    render()
  } catch (error) {
    if (asked !== organization) return
    if (error.status === 401) return onSignedOut()
    // Too many requests, e.g. of a long way through the months: the next look comes later anyway.
    if (error.status !== 429) showProblem(error)
  }
  timer = setTimeout(look, document.hidden ? 15_000 : busy ? 1000 : 8000)
}

function take(m) {
  timeline.put(m)
  refreshViewer(m)
}

/** What is on the screen and being converted, unless it is among the latest uploads. */
function watchedItems(latest) {
  const known = new Set(latest.map((m) => m.media_id))
  const tiles = [...$('months').querySelectorAll('.tile:is([data-state=processing], [data-state=playable])')]
  return tiles.map((tile) => timeline.find(tile.dataset.media)).filter((m) => m && !known.has(m.media_id)).slice(0, WATCHED)
}

function summarize(latest) {
  const total = timeline.total()
  const busy = latest.filter((m) => m.upload_status === 'processing').length
  const working = busy ? `, ${busy === 50 ? 'many' : busy} being converted` : ''
  $('summary').textContent = total === 0 ? '' : plural(total, 'memory', 'memories') + working
  $('empty').hidden = total > 0
  $('library-highlight').hidden = total === 0
  $('months').hidden = total === 0
}

let frame
/** Draws what is near the window, and loads what is missing there. */
function render() {
  frame = undefined
  if (!organization || $('photos').hidden) return
  const { missing, near } = grid.render(timeline.months())
  scrubber.update()
  if (missing) loader.load(missing).catch(() => {})
  else timeline.trim(KEPT, near)
}
const renderSoon = () => {
  frame ??= requestAnimationFrame(render)
}
export const showPhotos = render

/** The present state of a media item, with new links. One that is gone leaves the grid. */
async function refresh(m) {
  try {
    const fresh = await call('GET', `/api/media/${m.org_id}/${m.media_id}`)
    take(fresh)
    renderSoon()
    return fresh
  } catch (error) {
    if (error.status === 404) {
      timeline.drop(m.media_id)
      renderSoon()
    }
    throw error
  }
}

/** Deletes a media item, and offers to take that back. */
async function remove(id) {
  const m = timeline.find(id)
  if (!m) return false
  try {
    await call('DELETE', `/api/media/${m.org_id}/${id}`)
  } catch (error) {
    toast(error.message)
    return false
  }
  timeline.drop(id)
  render()
  const undo = async () => {
    await restore(m).then(() => announce(`${nameOf(m)} is back`), (error) => toast(error.message))
    await look()
  }
  toast(`${nameOf(m)} is in the trash`, { label: 'Undo', run: undo })
  return true
}

$('library-highlight').addEventListener('click', () => {
  if (!organization) return
  void chooseForHighlight({ org: organization, onMade: (id) => location.assign(linkToHighlight(id)) })
})
addEventListener('scroll', renderSoon, { passive: true })
new ResizeObserver(renderSoon).observe($('months'))
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void look()
})
