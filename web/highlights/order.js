import { html, useLayoutEffect, useRef } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { kindOf, nameOf } from '../lib/media.js'
import { Picture } from '../lib/picture.js'
import { useSortable } from '../lib/sortable.js'
import { announce } from '../lib/toast.js'
import { hue } from '../lib/words.js'
import { movedBy } from './words.js'

const KINDS = { photo: '', live: 'Live', video: 'Video' }

/**
 * The items of a highlight to be, in order by dragging and by keys; each can be taken out. `onChange(items)` gets them
 * anew. `marks` has what is wrong with items, by their ids, and `leftOut` those that the highlight does not show. `scroller`
 * is a ref of what scrolls during a drag.
 */
export function Order({ items, onChange, marks, leftOut, scroller }) {
  const list = useRef()
  const before = useRef()
  const focus = useRef()
  const indexOf = (element) => items.findIndex((m) => m.media_id === element.dataset.media)
  const stateOf = (m) => (leftOut.has(m) ? 'left-out' : marks.has(m.media_id) ? 'refused' : undefined)
  const tell = (m, index) => announce(`${nameOf(m)} is item ${index + 1} of ${items.length}`)
  useSortable(list, {
    scroller,
    isOn: () => items.length > 1,
    start: () => (before.current = items),
    over: (element, other) => onChange(movedBy(items, indexOf(element), indexOf(other) - indexOf(element))),
    end: (element) => tell(items[indexOf(element)], indexOf(element)),
    cancel: () => before.current !== items && onChange(before.current),
    move(element, by) {
      const m = items[indexOf(element)]
      const next = movedBy(items, indexOf(element), by)
      focus.current = () => element.querySelector('.handle')
      onChange(next)
      tell(m, next.indexOf(m))
    },
  })
  /** The focus goes to the item that takes its place. */
  function takeOut(index) {
    focus.current = () => list.current.children[Math.min(index, items.length - 2)]?.querySelector('.take-out')
    onChange(items.toSpliced(index, 1))
  }
  // An element that is moved loses the focus.
  useLayoutEffect(() => {
    focus.current?.()?.focus()
    focus.current = undefined
  }, [items])
  return html`
    <ol ref=${list} class="order" aria-label="Items, in the order in which they are shown">
      ${items.map(
        (m, i) => html`
          <li key=${m.media_id} class="order-item" data-media=${m.media_id} data-state=${stateOf(m)} title=${nameOf(m)}>
            <span class="picture" style=${{ '--hue': hue(m.media_id) }}>
              <${Picture} m=${m} /><span class="place">${i + 1}</span><span class="badge">${KINDS[kindOf(m)]}</span>
            </span>
            <span class="item-tools">
              <button class="round take-out" type="button" aria-label=${`Take out ${nameOf(m)}`} onClick=${() => takeOut(i)}><${Icon} name="close" size="14" /></button>
              <button class="round handle" type="button" aria-label=${`Move ${nameOf(m)}, item ${i + 1}: drag, or use the arrow keys`}><${Icon} name="handle" size="14" /></button>
            </span>
            ${stateOf(m) && html`<span class="mark small">${leftOut.has(m) ? 'Is left out' : marks.get(m.media_id)}</span>`}
          </li>`,
      )}
    </ol>`
}
