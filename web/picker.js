import { call } from './client.js'
import { sayIn } from './dialogs.js'
import { $ } from './dom.js'
import { newGrid } from './grid.js'
import { inWords } from './refusal-words.js'
import { newTimeline } from './timeline.js'
import { newLoader } from './timeline-loader.js'
import { plural } from './words.js'

const dialog = $('picker')
/** What is chosen from: the library, or an album. */
let source
let picking
/** By id, in the order in which they were chosen. */
let chosen = new Map()

const does = {
  find: (id) => source.find(id),
  refresh,
  remove: () => {},
  canRemove: () => false,
  open: toggle,
  mark(tile, { media_id: id }) {
    const frame = tile.querySelector('.frame')
    const isThere = picking?.has(id) ?? false
    frame.ariaPressed = String(chosen.has(id))
    frame.disabled = isThere
    frame.dataset.place = picking?.isOrdered && chosen.has(id) ? [...chosen.keys()].indexOf(id) + 1 : ''
    tile.classList.toggle('there', isThere)
  },
}
const grid = newGrid($('picker-months'), does)

/** The media items of a group by month. A source has what of this one is used here. */
function librarySource(org, onPage) {
  const timeline = newTimeline()
  const loader = newLoader(org, timeline, onPage)
  return {
    ...timeline,
    ...loader,
    begin: async () => timeline.setMonths((await call('GET', `/api/media/${org.org_id}/months`)).months),
  }
}

/**
 * Asks for media items of the library, or of the source that `from(org, onPage)` returns. `has(id)` says which are there
 * already, `most` how many can be chosen, `isOrdered` that the order counts. `run` gets those chosen and a function that
 * shows how far it is; a refusal stays in the dialog, in the words of `say`. `then` gets those chosen after the dialog.
 */
export async function pickMedia({ org, title, label, from = librarySource, ...options }) {
  picking = { most: Infinity, has: () => false, run: async () => {}, then: () => {}, say: inWords, ...options, org, label }
  chosen = new Map()
  source?.end()
  const mine = from(org, renderSoon)
  source = mine
  grid.clear()
  $('picker-title').textContent = title
  $('picker-empty').hidden = true
  sayIn('picker-error')
  showChosen()
  dialog.showModal()
  $('picker-scroll').scrollTop = 0
  try {
    await mine.begin()
    if (mine !== source) return
    $('picker-empty').hidden = mine.months().length > 0
    render()
  } catch (error) {
    if (mine === source) sayIn('picker-error', inWords(error))
  }
}

async function refresh({ media_id: id }) {
  const fresh = await call('GET', `/api/media/${picking.org.org_id}/${id}`)
  source.put(fresh)
  renderSoon()
  return fresh
}

let frame
function render() {
  frame = undefined
  if (!dialog.open) return
  const { missing } = grid.render(source.months())
  if (missing) source.load(missing).catch((error) => sayIn('picker-error', inWords(error)))
}
const renderSoon = () => {
  frame ??= requestAnimationFrame(render)
}

function toggle(id) {
  const m = source.find(id)
  if (!m || $('picker-add').dataset.busy) return
  const { most } = picking
  sayIn('picker-error')
  if (chosen.has(id)) chosen.delete(id)
  else if (chosen.size < most) chosen.set(id, m)
  else sayIn('picker-error', `At most ${most} can be chosen.`)
  showChosen()
  renderSoon()
}

function showChosen() {
  const { label } = picking
  $('picker-add').textContent = chosen.size === 0 ? label : `${label} ${chosen.size}`
  $('picker-add').disabled = chosen.size === 0
  $('picker-count').textContent = chosen.size === 0 ? '' : `${plural(chosen.size, 'item')} chosen`
}

async function done() {
  const { run, say, then } = picking
  const all = [...chosen.values()]
  const add = $('picker-add')
  add.dataset.busy = 'yes'
  add.disabled = true
  try {
    await run(all, (text, m) => {
      add.textContent = text
      if (m) chosen.delete(m.media_id)
    })
    dialog.close()
    then(all)
  } catch (error) {
    sayIn('picker-error', say(error))
  } finally {
    delete add.dataset.busy
    if (picking) showChosen()
    renderSoon()
  }
}

$('picker-add').addEventListener('click', () => void done())
$('picker-scroll').addEventListener('scroll', renderSoon, { passive: true })
new ResizeObserver(renderSoon).observe($('picker-scroll'))
dialog.addEventListener('close', () => {
  source?.end()
  grid.clear()
})
