import { arrange, copyOf } from './dom.js'
import { nameOf } from './item.js'
import { makeSortable } from './sortable.js'
import { newTile, releaseTile, updateTile } from './tile.js'

/**
 * The items of an album, in its order, with their captions. `does`: {find(id), refresh(m), open(id), isArranging(),
 * mayManage(), coverId(), saveCaption(m, text), chooseCover(m), remove(m), hold(), saveOrder(ids), let()}. Between `hold`
 * and `saveOrder` or `let`, a person moves an item.
 */
export function newAlbumItems(list, does) {
  const tiles = new Map()
  const order = makeSortable(list, {
    isOn: does.isArranging,
    start: does.hold,
    end: () => does.saveOrder([...list.children].map((tile) => tile.dataset.media)),
    cancel: does.let,
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
    on('.earlier', () => order.move(tile, -1))
    on('.later', () => order.move(tile, 1))
    on('.take-out', () => does.remove(does.find(m.media_id)))
    on('.cover', () => does.chooseCover(does.find(m.media_id)))
    on('.edit-caption', () => editCaption(tile, does.find(m.media_id)))
    return tile
  }

  function update(tile, m) {
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

  /** Elements of items that stay, stay: with their focus, and what is typed or plays in them. */
  function render(items) {
    if (order.isDragging()) return
    list.classList.toggle('arranging', does.isArranging())
    const wanted = items.map((m) => {
      const tile = tiles.get(m.media_id) ?? newItem(m)
      tiles.set(m.media_id, tile)
      update(tile, m)
      return tile
    })
    arrange(list, wanted, (tile) => {
      releaseTile(tile)
      tiles.delete(tile.dataset.media)
    })
  }

  return {
    render,
    clear: () => render([]),
    focus: (id) => tiles.get(id)?.querySelector('.frame').focus(),
  }
}
