import { html, useEffect, useReducer, useRef, useState } from '../lib/html.js'
import { monthName } from '../lib/words.js'
import { monthAt } from './grid-layout.js'

const heightOf = (layout) => {
  const last = layout.at(-1)
  return last ? last.top + last.height : 0
}
const percent = (share) => ({ top: `${Math.min(1, Math.max(0, share)) * 100}%` })

/** What follows the scrolling of the window. */
function useScroll() {
  const [, draw] = useReducer((count) => count + 1, 0)
  useEffect(() => {
    let frame
    const soon = () => {
      frame ??= requestAnimationFrame(() => {
        frame = undefined
        draw()
      })
    }
    addEventListener('scroll', soon, { passive: true })
    return () => {
      cancelAnimationFrame(frame)
      removeEventListener('scroll', soon)
    }
  }, [])
}

/** A list of the months, for the keyboard and for fingers. */
export function Jump({ grid }) {
  useScroll()
  const months = (grid.current?.layout ?? []).filter((m) => !m.title)
  return (
    months.length > 1 &&
    html`
      <label class="jump" for="jump"><span class="visually-hidden">Jump to a month</span>
        <select id="jump" value=${grid.current.current()?.month} onChange=${(event) => grid.current.scrollTo(event.target.value)}>
          ${months.map((m) => html`<option key=${m.month} value=${m.month}>${monthName(m.month)} · ${m.count.toLocaleString()}</option>`)}
        </select>
      </label>`
  )
}

/** A rail at the edge of the window that leads to any month. */
export function Scrubber({ grid }) {
  useScroll()
  const rail = useRef()
  const [bubble, setBubble] = useState()
  const [isActive, setActive] = useState(false)
  // On phones the rail shows while one scrolls.
  useEffect(() => {
    let idle
    const scrolled = () => {
      setActive(true)
      clearTimeout(idle)
      idle = setTimeout(() => setActive(false), 1200)
    }
    addEventListener('scroll', scrolled, { passive: true })
    return () => {
      clearTimeout(idle)
      removeEventListener('scroll', scrolled)
    }
  }, [])
  const layout = grid.current?.layout ?? []
  const height = heightOf(layout)
  if (height < 2 * innerHeight || layout.length < 2) return null

  function drag({ clientY }) {
    const box = rail.current.getBoundingClientRect()
    const share = Math.min(1, Math.max(0, (clientY - box.top) / box.height))
    scrollTo({ top: share * (document.documentElement.scrollHeight - innerHeight), behavior: 'instant' })
    const month = grid.current.current() ?? monthAt(layout, share * height)
    if (month) setBubble({ share, text: month.title ?? monthName(month.month) })
  }
  const onPointerDown = (event) => {
    rail.current.setPointerCapture(event.pointerId)
    drag(event)
  }
  return html`
    <div
      ref=${rail} id="scrubber" class=${`scrubber ${isActive ? 'active' : ''}`} aria-hidden="true" onPointerDown=${onPointerDown}
      onPointerMove=${(event) => rail.current.hasPointerCapture(event.pointerId) && drag(event)} onLostPointerCapture=${() => setBubble(undefined)}
    >
      <div class="years">${yearsOf(layout, height, rail.current?.clientHeight ?? innerHeight).map(({ year, share }) => html`<span key=${year} style=${percent(share)}>${year}</span>`)}</div>
      <span class="mark" style=${percent(scrollY / Math.max(1, document.documentElement.scrollHeight - innerHeight))}></span>
      ${bubble && html`<span class="bubble" style=${percent(bubble.share)}>${bubble.text}</span>`}
    </div>`
}

/** Where each year begins, unless its number would lie on the one above. */
function yearsOf(layout, height, length) {
  const months = layout.filter((m) => !m.title)
  const firsts = months.filter((m, i) => m.month.slice(0, 4) !== months[i - 1]?.month.slice(0, 4))
  let used = -Infinity
  return firsts.flatMap(({ month, top }) => {
    const at = (top / height) * length
    if (at - used < 22) return []
    used = at
    return [{ year: month.slice(0, 4), share: top / height }]
  })
}
