import { editAlbum } from './album-form.js'
import { newAlbumItems } from './album-items.js'
import * as words from './album-words.js'
import { call, patiently } from './client.js'
import { ask, sayIn } from './dialogs.js'
import { $, announce, toast } from './dom.js'
import { findInGroups } from './lib/find-in-groups.js'
import { chooseForHighlight } from './highlights/form.js'
import { newHighlightShelf } from './highlight-shelf.js'
import { mayMakeOf } from './highlights/words.js'
import { newPager } from './pager.js'
import { pickMedia } from './picker.js'
import { inWords } from './refusal-words.js'
import { openViewer, refreshViewer } from './viewer/viewer.js'
import { linkToEvent, linkToHighlight } from './views.js'

const LOOK_MS = 5000
const BUSY_MS = 1500
const HIDDEN_MS = 60_000
const PAGE = 500
/** How far below the window the end may be before more is loaded. */
const NEAR = 600
/** How often an order is made anew when others add and remove meanwhile. */
const MAX_MERGES = 3

const shelf = newHighlightShelf($('album-highlights'))
let at
let timer
let asked = 0

/** Shows an album. */
export async function openAlbum(id, { me, organizations, first, onFound }) {
  const mine = ++asked
  $('album-shown').hidden = true
  $('album-gone').hidden = true
  try {
    const pathIn = (org) => `/api/orgs/${org.org_id}/albums/${encodeURIComponent(id)}`
    const there = await findInGroups(pathIn, { organizations, first })
    if (mine !== asked) return
    if (!there) return showGone('This album does not exist, or it is not published for you.')
    const { found: album, org, path } = there
    onFound(org)
    const pager = newPager(`${path}/media`, 'media', { limit: PAGE })
    at = { album, org, path, me, pager, items: [], moves: [], moved: 0, isArranging: false }
    items.clear()
    shelf.open(org, album.album_id)
    await look()
  } catch (error) {
    if (mine === asked) showGone(inWords(error))
  }
}

export function closeAlbum() {
  asked++
  clearTimeout(timer)
  shelf.close()
  at = undefined
}

function showGone(text) {
  $('album-gone-text').textContent = text
  $('album-gone').hidden = false
  $('album-shown').hidden = true
}

const can = () => words.albumActionsFor(at.album, at.event, { userId: at.me.user_id, role: at.org.role })
const say = (error) => inWords(error, words.ALBUM_REFUSALS)

/** Asks for the present state, and again after a while: others add meanwhile, and what they add is being converted. */
async function look() {
  clearTimeout(timer)
  const mine = at
  if (!mine) return
  try {
    const [album, event] = await Promise.all([call('GET', mine.path), eventOf(mine)])
    if (mine !== at) return
    Object.assign(mine, { album, event })
    await loadChanged(mine)
    if (mine !== at) return
    render()
  } catch (error) {
    if (mine !== at) return
    if (error.status === 404) return showGone(inWords(error))
    if (error.status !== 429) toast(inWords(error))
  }
  timer = setTimeout(look, document.hidden ? HIDDEN_MS : isConverting(mine) ? busyMs(mine) : LOOK_MS)
}

/** A draft event of another person is as good as none. */
const eventOf = ({ album, org }) =>
  album.event_id
    ? call('GET', `/api/orgs/${org.org_id}/events/${album.event_id}`).catch((error) => {
        if (error.status !== 404) throw error
      })
    : undefined

/** The pages of a large album are too many to be asked for so often. */
const busyMs = ({ items: all }) => (all.length > PAGE ? LOOK_MS : BUSY_MS)
const isConverting = (mine) => mine.items.some((m) => m.upload_status === 'processing')

/** Every change of an album gives it a new time; only a deleted or restored media item does not, and it counts. */
async function loadChanged(mine) {
  const state = [mine.album.updated_at, mine.album.media_count].join()
  if (mine.state === state && !isConverting(mine)) return
  const { moved } = mine
  await mine.pager.again()
  // What the person is moving stays as they see it, until it is saved. Pages may be from before it was.
  if (mine.isHeld || mine.isSaving || moved !== mine.moved) return
  mine.state = state
  take(mine)
}

/** A page that was read before another one may have an item that has moved since. */
const loaded = ({ pager }) => [...new Map(pager.items().map((m) => [m.media_id, m])).values()]

function take(mine) {
  mine.items = loaded(mine)
  for (const m of mine.items) refreshViewer(m)
}

function render() {
  const { album, event, org } = at
  const { manage, add, steps } = can()
  if (!manage) at.isArranging = false
  $('album-shown').hidden = false
  $('album-shown').dataset.status = album.status
  sayIn('album-title', album.title)
  sayIn('album-state', words.STATUSES[album.status])
  sayIn('album-audience', words.audienceOf(album))
  sayIn('album-count', `${words.itemsOf(album)} · ${org.name}`)
  sayIn('album-description', album.description)
  sayIn('album-note', words.noteOn(album, event))
  $('album-event').hidden = !event
  if (event) Object.assign($('album-event'), { textContent: event.title, href: linkToEvent(event.event_id) })
  document.title = `${album.title} · Keepsake`
  $('album-add').hidden = !add
  $('album-add').classList.toggle('primary', album.media_count === 0 || !steps[0]?.isNext)
  $('album-highlight').hidden = !mayMakeOf(album)
  $('album-edit').hidden = !manage
  $('album-arrange').hidden = !manage || album.media_count < 1
  $('album-arrange').textContent = at.isArranging ? 'Done' : 'Arrange'
  $('album-arrange').ariaPressed = String(at.isArranging)
  $('album-hint').hidden = !at.isArranging
  $('album-empty').hidden = album.media_count > 0
  $('album-empty-add').hidden = !add
  renderSteps(steps)
  renderItems()
}

function renderSteps(steps) {
  const key = steps.map(({ label }) => label).join()
  if ($('album-steps').dataset.steps === key) return
  $('album-steps').dataset.steps = key
  $('album-steps').replaceChildren(
    ...steps.map((step) => {
      const button = Object.assign(document.createElement('button'), { type: 'button', className: 'button', textContent: step.label })
      button.classList.toggle('primary', Boolean(step.isNext))
      button.addEventListener('click', () => askFor(step))
      return button
    }),
  )
}

function renderItems() {
  items.render(at.items)
  $('album-more').hidden = !at.pager.hasMore()
  moreIfNear()
}

/** Loads the next page when the end of those that are loaded comes near. */
function moreIfNear() {
  const more = $('album-more')
  if (more.offsetParent && more.getBoundingClientRect().top < innerHeight + NEAR) void showMore()
}

function askFor(step) {
  const mine = at
  ask({
    ...words.questionOf(step, mine.album),
    async run() {
      await call('PUT', '/api/v1/albums/status', { album_id: mine.album.album_id, status: step.to })
      announce(`The album is ${words.STATUSES[step.to].toLowerCase()}`)
      await look()
    },
    say,
  })
}

/** Runs a change, says what was wrong with it, and shows what has become of the album. True if it was made. */
async function change(work) {
  const mine = at
  let isMade = true
  await work(mine).catch((error) => {
    isMade = false
    toast(say(error))
  })
  if (mine === at) await look()
  return isMade
}

const find = (id) => at?.items.find((m) => m.media_id === id)

const items = newAlbumItems($('album-items'), {
  find,
  refresh,
  open: (id) => openViewer(find(id), viewing),
  isArranging: () => at?.isArranging ?? false,
  mayManage: () => can().manage,
  coverId: () => at.album.cover_media_id,
  saveCaption: (m, caption) => change(({ path }) => call('PATCH', `${path}/media/${m.media_id}`, { caption })),
  chooseCover: (m) => void change(({ path }) => call('PATCH', path, { cover_media_id: m.media_id })),
  remove: (m) => void remove(m),
  hold() {
    at.isHeld = true
  },
  let() {
    at.isHeld = false
    renderItems()
  },
  place: (id, neighbours) => void saveOrder(at, { id, ...neighbours }),
  move: (id, by) => void move(at, id, by),
})

async function remove(m) {
  if (await change(({ path }) => call('DELETE', `${path}/media/${m.media_id}`))) {
    toast('It is no longer in the album. It stays in the library.')
  }
}

/** Moves an item by some places; ±Infinity is an end, also where that is not loaded yet. The part that was used keeps the focus. */
async function move(mine, id, by) {
  const part = ['.handle', '.earlier', '.later'].find((each) => document.activeElement?.matches(each))
  try {
    if (by === Infinity) await loadRest(mine)
  } catch (error) {
    return toast(say(error))
  }
  const neighbours = words.neighboursAfter(mine.items, id, by)
  if (!neighbours || mine !== at) return
  const saved = saveOrder(mine, { id, ...neighbours })
  items.focus(id, part)
  await saved
}

/**
 * One order at a time is sent; of several, the last one counts. The API wants all items of the album in it: if another
 * person has added or removed one meanwhile, what this person moved is moved again in the album as it is then.
 */
async function saveOrder(mine, change) {
  mine.moves.push(change)
  mine.moved++
  mine.items = words.moved(mine.items, change)
  mine.isHeld = false
  renderItems()
  if (mine.isSaving) return
  mine.isSaving = true
  try {
    const isMerged = await sendOrders(mine)
    announce('The order is saved')
    if (isMerged) toast('Someone else changed the album meanwhile. Your order is saved, with what they changed.')
  } catch (error) {
    mine.state = undefined
    toast(say(error))
  } finally {
    Object.assign(mine, { isSaving: false, moves: [] })
  }
  if (mine === at) await look()
}

/** Sends orders until there is nothing new to send. Returns whether others have changed the album meanwhile. */
async function sendOrders(mine) {
  let merges = 0
  while (mine.moves.length > 0) {
    await loadRest(mine)
    const sent = mine.moves.length
    try {
      await call('POST', `${mine.path}/media/reorder`, { media_ids: mine.items.map((m) => m.media_id) })
      mine.moves.splice(0, sent)
    } catch (error) {
      if (error.code !== 'REORDER_MISMATCH' || ++merges > MAX_MERGES) throw error
      await merge(mine)
    }
  }
  return merges > 0
}

async function merge(mine) {
  await patiently(() => mine.pager.again())
  while (mine.pager.hasMore()) await patiently(() => mine.pager.more())
  mine.items = mine.moves.reduce(words.moved, loaded(mine))
  if (mine === at) renderItems()
}

async function loadRest(mine) {
  while (mine.pager.hasMore()) await more(mine)
}

async function more(mine) {
  await patiently(() => mine.pager.more())
  const known = new Set(mine.items.map((m) => m.media_id))
  mine.items = [...mine.items, ...mine.pager.items().filter((m) => !known.has(m.media_id))]
}

/** The present state of an item, with new links. */
async function refresh(m) {
  const mine = at
  const fresh = { ...m, ...(await call('GET', `/api/media/${m.org_id}/${m.media_id}`)) }
  if (mine && mine === at) {
    mine.items = mine.items.map((other) => (other.media_id === m.media_id ? fresh : other))
    renderItems()
  }
  refreshViewer(fresh)
  return fresh
}

/** Opens an item of the album that is shown, as the address named it. False if it is not there. */
export function openInAlbum(id) {
  const m = find(id)
  if (m) openViewer(m, viewing)
  return Boolean(m)
}

/** The album as the viewer goes through it. What is in the album of an event can be discussed there. */
const viewing = {
  get discussed() {
    const { org, me, event } = at ?? {}
    return event && { event: () => at?.event ?? event, org, me, path: `/api/orgs/${org.org_id}/events/${event.event_id}` }
  },
  find,
  neighbour(id, step) {
    const index = at?.items.findIndex((m) => m.media_id === id) ?? -1
    if (index < 0) return {}
    const item = at.items[index + step]
    return item || index + step < 0 || !at.pager.hasMore() ? { item } : { missing: true }
  },
  load: () => more(at),
  refresh,
  captionOf: (m) => find(m.media_id)?.caption,
  closed(id) {
    if (at) items.focus(id)
  },
}

async function addMedia() {
  const mine = at
  const inAlbum = new Set(mine.items.map((m) => m.media_id))
  await pickMedia({
    org: mine.org,
    title: `Add to “${mine.album.title}”`,
    label: 'Add',
    has: (id) => inAlbum.has(id),
    say,
    async run(chosen, show) {
      try {
        for (const [i, m] of chosen.entries()) {
          show(`Adding ${i + 1} of ${chosen.length}`)
          await patiently(() => call('POST', `${mine.path}/media`, { media_id: m.media_id })).catch(ifThere)
          inAlbum.add(m.media_id)
          show(`Adding ${i + 1} of ${chosen.length}`, m)
        }
      } finally {
        if (mine === at) void look()
      }
    },
  })
}

/** Someone else has added it meanwhile. */
const ifThere = (error) => {
  if (error.code !== 'CONFLICT') throw error
}

async function showMore() {
  const mine = at
  if (!mine || $('album-more').hidden) return
  // Of two at once, the second would load the same page.
  if (mine.isHeld || mine.isLoading) return
  mine.isLoading = true
  await more(mine).catch((error) => toast(inWords(error)))
  mine.isLoading = false
  if (mine === at) renderItems()
}

for (const id of ['album-add', 'album-empty-add']) $(id).addEventListener('click', () => void addMedia())
$('album-edit').addEventListener('click', () => editAlbum({ org: at.org, album: at.album, onSaved: () => void look() }))
$('album-highlight').addEventListener('click', () => {
  const { org, album, event } = at
  void chooseForHighlight({ org, album, event, onMade: (id) => location.assign(linkToHighlight(id)) })
})
$('album-arrange').addEventListener('click', () => {
  at.isArranging = !at.isArranging
  render()
})
$('album-more').addEventListener('click', () => void showMore())
// An observer of intersections would miss a scroll to the end in the frame in which a page arrives.
addEventListener('scroll', moreIfNear, { passive: true })
document.addEventListener('visibilitychange', () => {
  if (!document.hidden) void look()
})
