import { link } from './client.js'
import { announce, arrange, copyOf } from './dom.js'
import { movedBy } from './highlight-words.js'
import { kindOf, nameOf } from './item.js'
import { drawPlaceholder } from './picture.js'
import { makeSortable } from './lib/sortable.js'
import { hue } from './words.js'

const KINDS = { photo: '', live: 'Live', video: 'Video' }

/**
 * The items of a film to be: in order by dragging and by keys, and each can be taken out. `onChange` is called after each
 * change; `scroller` is what scrolls when an item is dragged to an edge.
 */
export function newOrder(list, { onChange, scroller }) {
  let items = []
  const elements = new Map()
  const idOf = (element) => element?.dataset.media
  const indexOf = (element) => items.findIndex((m) => m.media_id === idOf(element))

  makeSortable(list, {
    scroller,
    isOn: () => items.length > 1,
    start() {},
    end() {
      const place = new Map([...list.children].map((element, i) => [idOf(element), i]))
      show(items.toSorted((a, b) => place.get(a.media_id) - place.get(b.media_id)))
    },
    cancel: () => show(items),
    move(element, by) {
      show(movedBy(items, indexOf(element), by))
      element.querySelector('.handle').focus()
      announce(`${nameOf(items[indexOf(element)])} is item ${indexOf(element) + 1} of ${items.length}`)
    },
  })

  function show(next) {
    items = next
    const wanted = items.map(elementOf)
    arrange(list, wanted, (gone) => elements.delete(idOf(gone)))
    for (const [i, element] of wanted.entries()) number(element, i)
    onChange()
  }

  function number(element, i) {
    const name = nameOf(items[i])
    element.querySelector('.place').textContent = i + 1
    element.querySelector('.handle').ariaLabel = `Move ${name}, item ${i + 1}: drag, or use the arrow keys`
    element.querySelector('.take-out').ariaLabel = `Take out ${name}`
  }

  function elementOf(m) {
    const known = elements.get(m.media_id)
    if (known) return known
    const element = copyOf('order-item')
    elements.set(m.media_id, element)
    element.dataset.media = m.media_id
    element.title = nameOf(m)
    element.querySelector('.frame').style.setProperty('--hue', hue(m.media_id))
    element.querySelector('.badge').textContent = KINDS[kindOf(m)]
    showPicture(element, m)
    element.querySelector('.take-out').addEventListener('click', () => takeOut(element))
    return element
  }

  /** The focus goes to the item that takes its place. */
  function takeOut(element) {
    const index = indexOf(element)
    show(items.toSpliced(index, 1))
    list.children[Math.min(index, items.length - 1)]?.querySelector('.take-out').focus()
  }

  return {
    show,
    items: () => items,
    /** Marks the items at these places as those that are to blame. */
    mark(places) {
      for (const [i, element] of [...list.children].entries()) element.classList.toggle('refused', places.includes(i))
    },
  }
}

/** The blur at once, and the thumbnail above it. */
export function showPicture(element, m) {
  const [blur, image] = ['.blur', '.thumb'].map((part) => element.querySelector(part))
  blur.hidden = !drawPlaceholder(blur, m.placeholder)
  image.addEventListener('load', () => image.classList.add('loaded'))
  if (m.variants.image_thumb_url) image.src = link(m.variants.image_thumb_url)
}
