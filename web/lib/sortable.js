import { useEffect, useRef } from './html.js'

const SLACK = 6
const EDGE = 90
const SPEED = 14

/** The listeners of useSortable, until the returned function is called. */
function makeSortable(list, does) {
  let drag
  const scroller = does.scroller?.current ?? window
  const ended = new AbortController()
  const on = (target, type, run) => target.addEventListener(type, run, { signal: ended.signal })

  const entryAt = (target) => target.closest?.('li')
  const isIn = (entry) => entry?.parentElement === list

  function begin() {
    const { entry, x, y } = drag
    const box = entry.getBoundingClientRect()
    const ghost = entry.cloneNode(true)
    ghost.classList.add('ghost')
    Object.assign(ghost.style, { width: `${box.width}px`, left: `${box.left}px`, top: `${box.top}px` })
    ghost.ariaHidden = 'true'
    // Within the list, so that it looks like its entries; no entry is found below the pointer but the others.
    list.parentElement.append(ghost)
    entry.classList.add('dragging')
    list.setPointerCapture(drag.pointer)
    Object.assign(drag, { ghost, isMoving: true, from: { x, y } })
    does.start(entry)
    drag.frame = requestAnimationFrame(scrollAlong)
  }

  /** Near an edge of the window, the list goes on. */
  function scrollAlong() {
    if (!drag?.isMoving) return
    const step = drag.y < EDGE ? -SPEED : drag.y > innerHeight - EDGE ? SPEED : 0
    if (step) {
      scroller.scrollBy({ top: step, behavior: 'instant' })
      place()
    }
    drag.frame = requestAnimationFrame(scrollAlong)
  }

  /** The entry takes the place of the one that is below the pointer. */
  function place() {
    const { entry, ghost, from, x, y } = drag
    ghost.style.transform = `translate(${x - from.x}px, ${y - from.y}px) rotate(1.5deg)`
    const over = entryAt(document.elementFromPoint(x, y) ?? list)
    if (!isIn(over) || over === entry) return
    const isAfter = entry.compareDocumentPosition(over) & Node.DOCUMENT_POSITION_FOLLOWING
    does.over(entry, over, Boolean(isAfter))
    drag.isMoved = true
  }

  function finish(isKept) {
    if (!drag) return
    const { entry, ghost, isMoving, isMoved, frame, pointer } = drag
    drag = undefined
    if (!isMoving) return
    cancelAnimationFrame(frame)
    ghost.remove()
    entry.classList.remove('dragging')
    if (list.hasPointerCapture(pointer)) list.releasePointerCapture(pointer)
    if (isKept && isMoved) does.end(entry)
    else does.cancel()
  }

  on(list, 'pointerdown', (event) => {
    const entry = entryAt(event.target)
    const onHandle = event.target.closest('.handle')
    const isHeld = onHandle || (event.pointerType === 'mouse' && !event.target.closest('.caption-part, .item-tools'))
    if (drag || !does.isOn() || !isIn(entry) || !isHeld || event.button !== 0) return
    drag = { entry, pointer: event.pointerId, x: event.clientX, y: event.clientY }
  })
  on(list, 'pointermove', (event) => {
    if (event.pointerId !== drag?.pointer) return
    if (!drag.isMoving && Math.hypot(event.clientX - drag.x, event.clientY - drag.y) < SLACK) return
    if (!drag.isMoving) begin()
    Object.assign(drag, { x: event.clientX, y: event.clientY })
    place()
  })
  on(globalThis, 'pointerup', (event) => {
    if (event.pointerId === drag?.pointer) finish(true)
  })
  on(globalThis, 'pointercancel', (event) => {
    if (event.pointerId === drag?.pointer) finish(false)
  })
  on(globalThis, 'keydown', (event) => {
    if (event.key === 'Escape' && drag?.isMoving) finish(false)
  })
  // The browser would drag the picture itself.
  on(list, 'dragstart', (event) => event.preventDefault())
  // The click that ends a drag is no click.
  on(list, 'click', (event) => {
    if (does.isOn() && event.target.closest('.frame')) event.preventDefault()
  })

  const KEYS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }
  on(list, 'keydown', (event) => {
    const handle = event.target.closest('.handle')
    const by = KEYS[event.key]
    if (!handle || !by || !does.isOn()) return
    event.preventDefault()
    does.move(entryAt(handle), by)
  })

  return () => {
    finish(false)
    ended.abort()
  }
}

/**
 * Lets the entries of a list be put in another order: with the mouse anywhere on an entry, with a finger on its `.handle`,
 * with keys on the handle. `list` is a ref. `does`: {isOn(), start(entry), over(entry, other, isAfter), end(entry),
 * cancel(), move(entry, by), scroller}. `over` draws an entry that is held before or behind another one, `cancel` draws the
 * list as it was; the elements are the component's. `move` moves an entry by some places, ±Infinity to an end. `scroller`,
 * a ref, is what scrolls at the edges; the window unless given.
 */
export function useSortable(list, does) {
  const latest = useRef()
  latest.current = does
  useEffect(() => {
    const run =
      (name) =>
      (...given) =>
        latest.current[name](...given)
    const names = ['isOn', 'start', 'over', 'end', 'cancel', 'move']
    return makeSortable(list.current, {
      ...Object.fromEntries(names.map((name) => [name, run(name)])),
      scroller: does.scroller,
    })
  }, [])
}
