import { $ } from './dom.js'
import { monthAt } from './grid-layout.js'
import { monthName } from './words.js'

/** A rail at the edge of the window that leads to any month, and a list of the months for the keyboard. */
export function newScrubber(grid) {
  const [rail, years, bubble, list] = ['scrubber', 'scrubber-years', 'scrubber-bubble', 'jump'].map($)
  let drawn = ''
  let idle
  const height = () => {
    const last = grid.layout().at(-1)
    return last ? last.top + last.height : 0
  }

  /** Called whenever the grid has been rendered. */
  function update() {
    const months = grid.layout()
    rail.hidden = height() < 2 * innerHeight || months.length < 2
    $('jump-label').hidden = months.length < 2
    const signature = months.map((m) => `${m.month}:${m.count}:${m.top}`).join()
    if (signature !== drawn) draw(months)
    drawn = signature
    const current = grid.current()
    if (!current) return
    list.value = current.month
    const mark = $('scrubber-mark')
    mark.style.top = `${(Math.min(1, Math.max(0, scrollY / Math.max(1, document.documentElement.scrollHeight - innerHeight)))) * 100}%`
  }

  function draw(months) {
    list.replaceChildren(...months.map((m) => new Option(`${monthName(m.month)} · ${m.count.toLocaleString()}`, m.month)))
    const firsts = months.filter((m, i) => m.month.slice(0, 4) !== months[i - 1]?.month.slice(0, 4))
    let used = -Infinity
    const labels = []
    for (const { month, top } of firsts) {
      const at = (top / height()) * rail.clientHeight
      if (at - used < 22) continue
      used = at
      const label = Object.assign(document.createElement('span'), { textContent: month.slice(0, 4) })
      label.style.top = `${(top / height()) * 100}%`
      labels.push(label)
    }
    years.replaceChildren(...labels)
  }

  function drag({ clientY }) {
    const box = rail.getBoundingClientRect()
    const share = Math.min(1, Math.max(0, (clientY - box.top) / box.height))
    scrollTo({ top: share * (document.documentElement.scrollHeight - innerHeight), behavior: 'instant' })
    const month = grid.current() ?? monthAt(grid.layout(), share * height())
    if (!month) return
    bubble.hidden = false
    bubble.textContent = monthName(month.month)
    bubble.style.top = `${share * 100}%`
  }

  rail.addEventListener('pointerdown', (event) => {
    rail.setPointerCapture(event.pointerId)
    drag(event)
  })
  rail.addEventListener('pointermove', (event) => {
    if (rail.hasPointerCapture(event.pointerId)) drag(event)
  })
  rail.addEventListener('lostpointercapture', () => {
    bubble.hidden = true
  })
  list.addEventListener('change', () => grid.scrollTo(list.value))
  // On phones the rail shows while one scrolls.
  addEventListener('scroll', () => {
    rail.classList.add('active')
    clearTimeout(idle)
    idle = setTimeout(() => rail.classList.remove('active'), 1200)
  }, { passive: true })
  return { update }
}
