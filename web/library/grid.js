import { html, useEffect, useId, useLayoutEffect, useMemo, useRef } from '../lib/html.js'
import { STEP, useView } from '../lib/near.js'
import { monthName, plural } from '../lib/words.js'
import { gridFor, isWithin, layOut, monthAt, placesBetween, topOf } from './grid-layout.js'
import { Tile } from './tile.js'

/**
 * The months of a library as a grid. Only what is near the window has elements: every month reserves its height, so
 * scrolling never jumps, and a library of any size costs as much as a few screens. `months()` are those of a timeline;
 * `markOf(m)` marks tiles that can be chosen; `onDrawn({missing, near})` says which place near the window is yet to be
 * loaded; `handle.current` gets `{layout, current, scrollTo, reveal}`. `scroller` is what scrolls, the window by default.
 */
export function Grid({ months, does, markOf, onDrawn, handle, scroller, head = 0 }) {
  const root = useRef()
  const id = useId()
  const view = useView(root, scroller)
  const all = months()
  const grid = gridFor(view.width)
  const layout = view.width ? layOut(all, grid) : []
  const near = { from: view.top - innerHeight, to: view.top + 2 * innerHeight + STEP }
  const tileFor = useTiles(does, markOf)
  const wanted = []
  const stale = []
  const nearMonths = new Set()
  const sections = layout.map((section, i) => {
    const isNear = isWithin(section, near.from, near.to)
    if (isNear) nearMonths.add(section.month)
    const places = isNear ? placesBetween(section, grid, near.from, near.to) : { from: 0, to: 0, above: 0 }
    if (places.to > Math.max(places.from, all[i].items.length))
      wanted.push(section.month === undefined ? undefined : { section, index: places.to - 1 })
    if (isNear && all[i].isStale) stale.push({ section, index: all[i].items.length - 1 })
    return html`<${Section} key=${section.month} section=${section} items=${all[i].items} places=${places} grid=${grid} id=${`${id}-${section.month}`} tileFor=${tileFor} />`
  })
  // What is in the window comes before what is near it, and what is missing before what has changed.
  const first =
    wanted.find(({ section }) => isWithin(section, view.top, view.top + innerHeight)) ?? wanted[0] ?? stale[0]
  useLayoutEffect(() => {
    if (handle) handle.current = controls({ root, layout, grid, all, head })
  })
  useEffect(() => {
    if (view.width) onDrawn({ missing: first && { month: first.section.month, index: first.index }, near: nearMonths })
  })
  return html`
    <div ref=${root} class="months" style=${{ '--columns': grid.columns, '--side': `${grid.side}px` }} onKeyDown=${(event) => moveFocus(event, root.current, grid.columns)}>
      ${sections}
    </div>`
}

/** A section that is no month has a title. */
function Section({ section, items, places: { from, to, above }, grid, id, tileFor }) {
  const { month, title = monthName(month), count, height } = section
  const tiles = Array.from({ length: to - from }, (_, i) =>
    items[from + i]
      ? tileFor(items[from + i])
      : html`<li key=${`slot-${from + i}`} class="slot" aria-hidden="true"></li>`,
  )
  return html`
    <section class="month" data-month=${month} aria-labelledby=${id} style=${{ height: `${height}px` }}>
      <h2 class="month-head"><span id=${id} class="month-name">${title}</span> <span class="count muted">${plural(count, 'item')}</span></h2>
      <ul class="tiles" style=${{ paddingBlockStart: `${above * (grid.side + grid.gap)}px` }}>${tiles}</ul>
    </section>`
}

/** A tile that shows what it showed before is not drawn again: the same element is recognised as such. */
function useTiles(does, markOf) {
  const known = useMemo(() => new Map(), [])
  return (m) => {
    const mark = markOf?.(m)
    const sign = mark && Object.values(mark).join()
    const before = known.get(m.media_id)
    if (before && before.m === m && before.sign === sign && before.does === does) return before.tile
    const tile = html`<${Tile} key=${m.media_id} m=${m} does=${does} mark=${mark} />`
    if (known.size > 2000) known.clear()
    known.set(m.media_id, { m, sign, does, tile })
    return tile
  }
}

/** Arrow keys go through the tiles as through a table. */
function moveFocus(event, root, columns) {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key]
  if (!step || !event.target.matches('.frame')) return
  const all = [...root.querySelectorAll('.frame')]
  const next = all[all.indexOf(event.target) + step]
  if (!next) return
  event.preventDefault()
  next.focus()
}

const controls = ({ root, layout, grid, all, head }) => ({
  layout,
  /** The month at the top of the window. */
  current: () => monthAt(layout, head + 8 - root.current.getBoundingClientRect().top),
  scrollTo(month) {
    const section = layout.find((s) => s.month === month)
    if (section) scrollTo({ top: scrollY + root.current.getBoundingClientRect().top + section.top - head })
  },
  /** Scrolls to a media item that is out of sight, and gives it the focus: it was the last one in the viewer. */
  reveal(id) {
    const at = all.findIndex((month) => month.items.some((m) => m.media_id === id))
    if (at < 0) return
    const index = all[at].items.findIndex((m) => m.media_id === id)
    const y = topOf(layout[at], grid, index) + root.current.getBoundingClientRect().top
    if (y < head || y + grid.side > innerHeight)
      scrollTo({ top: scrollY + y - (innerHeight - grid.side) / 2, behavior: 'instant' })
    // Once the tiles around it are drawn.
    requestAnimationFrame(() =>
      requestAnimationFrame(() =>
        root.current?.querySelector(`[data-media="${id}"] .frame`)?.focus({ preventScroll: true }),
      ),
    )
  },
})
