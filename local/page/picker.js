import { call } from './client.js'
import { sayIn } from './dialogs.js'
import { $ } from './dom.js'
import { newGrid } from './grid.js'
import { inWords } from './refusal-words.js'
import { newTimeline } from './timeline.js'
import { newLoader } from './timeline-loader.js'
import { plural } from './words.js'

const dialog = $('picker')
let timeline = newTimeline()
let loader
let picking
/** By id, in the order in which they were chosen. */
let chosen = new Map()

const does = {
  find: (id) => timeline.find(id),
  refresh,
  remove: () => {},
  canRemove: () => false,
  open: toggle,
  mark(tile, { media_id: id }) {
    const frame = tile.querySelector('.frame')
    const isThere = picking?.has(id) ?? false
    frame.ariaPressed = String(chosen.has(id))
    frame.disabled = isThere
    tile.classList.toggle('there', isThere)
  },
}
const grid = newGrid($('picker-months'), does)

/**
 * Asks for media items of the library. `has(id)` says which are there already, `most` how many can be chosen. `run` gets
 * those chosen and a function that shows how far it is; a refusal stays in the dialog, in the words of `say`.
 */
export async function pickMedia({ org, title, label, most = Infinity, has = () => false, run, say = inWords }) {
  picking = { org, label, most, has, run, say }
  chosen = new Map()
  timeline = newTimeline()
  loader?.end()
  loader = newLoader(org, timeline, renderSoon)
  grid.clear()
  $('picker-title').textContent = title
  $('picker-empty').hidden = true
  sayIn('picker-error')
  showChosen()
  dialog.showModal()
  $('picker-scroll').scrollTop = 0
  try {
    const { months } = await call('GET', `/api/media/${org.org_id}/months`)
    timeline.setMonths(months)
    $('picker-empty').hidden = months.length > 0
    render()
  } catch (error) {
    sayIn('picker-error', inWords(error))
  }
}

async function refresh({ media_id: id }) {
  const fresh = await call('GET', `/api/media/${picking.org.org_id}/${id}`)
  timeline.put(fresh)
  renderSoon()
  return fresh
}

let frame
function render() {
  frame = undefined
  if (!dialog.open) return
  const { missing } = grid.render(timeline.months())
  if (missing) loader.load(missing).catch((error) => sayIn('picker-error', inWords(error)))
}
const renderSoon = () => {
  frame ??= requestAnimationFrame(render)
}

function toggle(id) {
  const m = timeline.find(id)
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
  const { run, say } = picking
  const add = $('picker-add')
  add.dataset.busy = 'yes'
  add.disabled = true
  try {
    await run([...chosen.values()], (text, m) => {
      add.textContent = text
      if (m) chosen.delete(m.media_id)
    })
    dialog.close()
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
  loader?.end()
  grid.clear()
})
