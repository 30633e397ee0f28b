import { $, arrange, copyOf } from './dom.js'
import { gridFor, isWithin, layOut, monthAt, placesBetween, topOf } from './grid-layout.js'
import { newTile, releaseTile, updateTile } from './tile.js'
import { monthName, plural } from './words.js'

/**
 * Shows the months of a timeline as a grid. Only what is near the window has elements: every month reserves its height,
 * so scrolling never jumps, and a library of any size costs as much as a few screens.
 */
export function newGrid(root, does) {
  const sections = new Map()
  const tiles = new Map()
  let layout = []
  let grid = gridFor(root.clientWidth)

  /** Returns the first place near the window whose media item has yet to be loaded: {month, index}. */
  function render(months) {
    grid = gridFor(root.clientWidth)
    root.style.setProperty('--columns', grid.columns)
    root.style.setProperty('--side', `${grid.side}px`)
    layout = layOut(months, grid)
    placeSections()
    const top = -root.getBoundingClientRect().top
    const wanted = []
    const near = new Set()
    for (const [i, section] of layout.entries()) {
      const isNear = isWithin(section, top - innerHeight, top + 2 * innerHeight)
      if (isNear) near.add(section.month)
      const places = isNear ? placesBetween(section, grid, top - innerHeight, top + 2 * innerHeight) : { from: 0, to: 0, above: 0 }
      fill(sections.get(section.month), months[i].items, places)
      if (places.to > Math.max(places.from, months[i].items.length)) wanted.push({ month: section.month, index: places.to - 1, section })
    }
    for (const [id, tile] of tiles) if (!tile.isConnected) tiles.delete(id)
    // What is in the window comes before what is near it.
    const inWindow = wanted.find(({ section }) => isWithin(section, top, top + innerHeight))
    return { missing: inWindow ?? wanted[0], near }
  }

  function placeSections() {
    const known = new Set(layout.map((s) => s.month))
    for (const [month, node] of sections) {
      if (known.has(month)) continue
      node.remove()
      sections.delete(month)
    }
    let next = root.firstElementChild
    for (const section of layout) {
      const node = sections.get(section.month) ?? newSection(section)
      node.style.height = `${section.height}px`
      node.querySelector('.count').textContent = plural(section.count, 'item')
      if (node === next) next = next.nextElementSibling
      else root.insertBefore(node, next)
    }
  }

  /** A section that is no month has a title. */
  function newSection({ month, title: name = monthName(month) }) {
    const node = copyOf('month')
    node.dataset.month = month
    const title = node.querySelector('.month-name')
    title.textContent = name
    title.id = `${root.id}-${month}`
    node.setAttribute('aria-labelledby', title.id)
    sections.set(month, node)
    return node
  }

  function fill(node, items, { from, to, above }) {
    const list = node.querySelector('.tiles')
    list.style.paddingBlockStart = `${above * (grid.side + grid.gap)}px`
    const spare = [...list.querySelectorAll('.slot')]
    const nodes = Array.from({ length: to - from }, (_, i) => {
      const m = items[from + i]
      return m ? tileFor(m) : (spare.shift() ?? copyOf('slot'))
    })
    arrange(list, nodes, (child) => child.dataset.media && releaseTile(child))
  }

  function tileFor(m) {
    const known = tiles.get(m.media_id)
    const tile = known?.isConnected ? known : newTile(m, does)
    tiles.set(m.media_id, tile)
    updateTile(tile, m, does)
    return tile
  }

  /** Arrow keys go through the tiles as through a table. */
  root.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns }[event.key]
    if (!step || !event.target.matches('.frame')) return
    const all = [...root.querySelectorAll('.frame')]
    const next = all[all.indexOf(event.target) + step]
    if (!next) return
    event.preventDefault()
    next.focus()
  })

  return {
    render,
    clear() {
      for (const tile of tiles.values()) releaseTile(tile)
      tiles.clear()
      sections.clear()
      root.replaceChildren()
    },
    /** The months with their places, for the scrubber. */
    layout: () => layout,
    /** The month at the top of the window. */
    current: () => monthAt(layout, $('bar').offsetHeight + 8 - root.getBoundingClientRect().top),
    scrollTo(month) {
      const section = layout.find((s) => s.month === month)
      if (section) scrollTo({ top: scrollY + root.getBoundingClientRect().top + section.top - $('bar').offsetHeight })
    },
    /** Scrolls to a media item that is out of sight, and gives it the focus: it was the last one in the viewer. */
    reveal(id, months, draw) {
      const at = months.findIndex((month) => month.items.some((m) => m.media_id === id))
      if (at < 0) return
      const index = months[at].items.findIndex((m) => m.media_id === id)
      const inGrid = topOf(layout[at], grid, index)
      const y = inGrid + root.getBoundingClientRect().top
      if (y < $('bar').offsetHeight || y + grid.side > innerHeight) scrollTo({ top: scrollY + y - (innerHeight - grid.side) / 2, behavior: 'instant' })
      draw()
      tiles.get(id)?.querySelector('.frame').focus({ preventScroll: true })
    },
  }
}
