import { windowOf } from './album-window.js'
import { $, arrange, copyOf } from './dom.js'
import { nameOf } from './item.js'
import { makeSortable } from './lib/sortable.js'
import { newTile, releaseTile, updateTile } from './tile.js'

/**
 * The items of an album, in its order, with their captions. Only those near the window have elements, so an album of
 * thousands costs as much as a few screens. `does`: {find(id), refresh(m), open(id), isArranging(), mayManage(), coverId(),
 * saveCaption(m, text), chooseCover(m), remove(m), hold(), place(id, {after, before}), move(id, by), let()}. Between `hold`
 * and `place` or `let`, a person drags an item; `place` names its new neighbours.
 */
export function newAlbumItems(list, does) {
  const tiles = new Map()
  let shown = []
  /** The items that have elements, as indexes of `shown`. */
  let near = { from: 0, to: 0 }
  const idOf = (tile) => tile?.dataset.media
  const order = makeSortable(list, {
    isOn: does.isArranging,
    start: does.hold,
    end: (tile) =>
      does.place(idOf(tile), { after: idOf(tile.previousElementSibling), before: idOf(tile.nextElementSibling) }),
    cancel: does.let,
    move: (tile, by) => does.move(idOf(tile), by),
  })
  const tileDoes = {
    find: does.find,
    refresh: does.refresh,
    remove: () => {},
    canRemove: () => false,
    open: (id) => does.isArranging() || does.open(id),
  }

  function newItem(m) {
    const tile = newTile(m, tileDoes)
    tile.querySelector('.thumb').loading = 'lazy'
    const parts = copyOf('album-item-parts')
    tile.append(...parts.children)
    const on = (part, run) => tile.querySelector(part).addEventListener('click', run)
    on('.earlier', () => does.move(m.media_id, -1))
    on('.later', () => does.move(m.media_id, 1))
    on('.take-out', () => does.remove(does.find(m.media_id)))
    on('.cover', () => does.chooseCover(does.find(m.media_id)))
    on('.edit-caption', () => editCaption(tile, does.find(m.media_id)))
    return tile
  }

  function update(tile, m) {
    tile.classList.toggle('first', shown[0]?.media_id === m.media_id)
    tile.classList.toggle('last', shown.at(-1)?.media_id === m.media_id)
    updateTile(tile, m, tileDoes)
    const name = nameOf(m)
    const label = (part, text) => {
      tile.querySelector(part).ariaLabel = text
    }
    label('.earlier', `Move ${name} to the left`)
    label('.later', `Move ${name} to the right`)
    label('.handle', `Move ${name}: drag, or use the arrow keys`)
    label('.take-out', `Remove ${name} from the album`)
    label('.cover', `Make ${name} the cover`)
    tile.querySelector('.cover').ariaPressed = String(does.coverId() === m.media_id)
    const manages = does.mayManage()
    tile.querySelector('.item-tools').hidden = !does.isArranging()
    const [text, edit] = ['.caption', '.edit-caption'].map((part) => tile.querySelector(part))
    text.textContent = m.caption ?? ''
    text.title = m.caption ?? ''
    text.hidden = manages || !m.caption
    edit.hidden = !manages || tile.querySelector('.caption-input') !== null
    edit.textContent = m.caption ?? 'Add a caption'
    edit.classList.toggle('none', !m.caption)
    edit.ariaLabel = m.caption ? `Edit the caption of ${name}: ${m.caption}` : `Add a caption to ${name}`
  }

  /** In place of the caption: Enter and leaving save it, Escape does not. */
  function editCaption(tile, m) {
    const input = Object.assign(document.createElement('textarea'), { className: 'caption-input', maxLength: 1000, rows: 2 })
    input.ariaLabel = `Caption of ${nameOf(m)}`
    input.value = m.caption ?? ''
    input.dir = 'auto'
    tile.querySelector('.caption-part').append(input)
    tile.querySelector('.edit-caption').hidden = true
    input.focus()
    let isDone = false
    const end = () => {
      isDone = true
      input.remove()
      const present = does.find(m.media_id)
      if (present && tile.isConnected) update(tile, present)
    }
    const save = async () => {
      if (isDone) return
      isDone = true
      const text = input.value.trim()
      input.disabled = true
      const isSaved = text === (m.caption ?? '') || (await does.saveCaption(m, text === '' ? null : text))
      if (isSaved) return end()
      // What was typed stays, so that it can be saved again.
      Object.assign(input, { disabled: false })
      isDone = false
      input.focus()
    }
    input.addEventListener('blur', () => void save())
    input.addEventListener('keydown', (event) => {
      event.stopPropagation()
      if (event.key === 'Escape') end()
      if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
        event.preventDefault()
        void save()
      }
    })
  }

  function render(items) {
    // What a person drags stays among the items that it was taken from.
    if (order.isDragging()) return
    shown = items
    list.classList.toggle('arranging', does.isArranging())
    list.classList.toggle('captioned', does.mayManage?.() || items.some((m) => m.caption))
    near = placesNear()
    draw()
  }

  /** Rows come and go as the window moves. During a drag they only come: the elements have an order of their own then. */
  function scrolled() {
    if (list.clientWidth === 0 || shown.length === 0) return
    const before = near
    const next = placesNear()
    if (!order.isDragging()) {
      near = next
      if (['from', 'to', 'above', 'height'].some((each) => near[each] !== before[each])) draw()
    } else if (next.from < before.from || next.to > before.to) extend(before, next)
  }

  function extend(before, next) {
    const [from, to] = [Math.min(before.from, next.from), Math.max(before.to, next.to)]
    list.prepend(...shown.slice(from, before.from).map(tileOf))
    list.append(...shown.slice(before.to, to).map(tileOf))
    near = { ...next, from, to, above: Math.min(before.above, next.above) }
    list.style.paddingBlockStart = `${near.above}px`
  }

  function placesNear() {
    const { columns, side, row, gap } = measure()
    list.style.setProperty('--side', `${side}px`)
    const top = -list.getBoundingClientRect().top
    // A caption that is being written stays, wherever the window is.
    const written = list.querySelector('.caption-input')?.closest('.tile').dataset.media
    const also = written ? [shown.findIndex((m) => m.media_id === written)] : []
    return windowOf({ count: shown.length, columns, row, gap }, top - innerHeight, top + 2 * innerHeight, also)
  }

  /** In pixels: the grid says them itself once it has its width. */
  function measure() {
    const style = getComputedStyle(list)
    const columns = style.gridTemplateColumns.split(' ')
    const side = Number.parseFloat(columns[0]) || 1
    const words = Number.parseFloat(getComputedStyle(list, '::before').height) || 0
    return { columns: columns.length, side, row: side + words, gap: Number.parseFloat(style.rowGap) || 0 }
  }

  /** Elements of items that stay, stay: with their focus, and what is typed or plays in them. */
  function draw() {
    list.style.paddingBlockStart = `${near.above}px`
    list.style.height = `${near.height}px`
    const wanted = shown.slice(near.from, near.to).map(tileOf)
    arrange(list, wanted, (tile) => {
      releaseTile(tile)
      tiles.delete(tile.dataset.media)
    })
  }

  function tileOf(m) {
    const tile = tiles.get(m.media_id) ?? newItem(m)
    tiles.set(m.media_id, tile)
    update(tile, m)
    return tile
  }

  let frame
  const scrolledSoon = () => {
    frame ??= requestAnimationFrame(() => {
      frame = undefined
      scrolled()
    })
  }
  addEventListener('scroll', scrolledSoon, { passive: true })
  new ResizeObserver(scrolledSoon).observe(list.parentElement)

  /** Scrolls to an item that is out of sight, and gives the focus to a part of it. */
  function focus(id, part = '.frame') {
    const index = shown.findIndex((m) => m.media_id === id)
    if (index < 0) return
    const { columns, row, gap } = measure()
    const y = list.getBoundingClientRect().top + Math.floor(index / columns) * (row + gap)
    if (y < $('bar').offsetHeight || y + row > innerHeight) {
      scrollTo({ top: scrollY + y - (innerHeight - row) / 2, behavior: 'instant' })
    }
    scrolled()
    const tile = tiles.get(id)
    tile?.querySelector(part).focus({ preventScroll: true })
    // The first item has no button to go further.
    if (tile && !tile.contains(document.activeElement)) tile.querySelector('.handle').focus({ preventScroll: true })
  }

  return {
    render,
    clear: () => render([]),
    focus,
  }
}
