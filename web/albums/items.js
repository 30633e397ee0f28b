import { classes, html, useEffect, useLayoutEffect, useReducer, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { nameOf } from '../lib/media.js'
import { STEP, useView } from '../lib/near.js'
import { inWords } from '../lib/refusals.js'
import { useSortable } from '../lib/sortable.js'
import { toast } from '../lib/toast.js'
import { Tile } from '../library/tile.js'
import { gridOf, windowOf } from './window.js'
import { neighboursAfter } from './words.js'

/**
 * The items of an album, in its order, with their captions. Only those near the window have elements, so an album of
 * thousands costs as much as a few screens. `media` is of newAlbumMedia. `does`: {open(id), refresh(m), remove(m),
 * chooseCover(m), saveCaption(m, text)}. `handle.current` gets `focus(id, part)`.
 */
export function AlbumItems({ media, coverId, mayEdit, isArranging, does, handle }) {
  const list = useRef()
  const { width, top, measure } = useView(list)
  const [, draw] = useReducer((count) => count + 1, 0)
  /** The id of the item whose caption is being written. */
  const [written, setWritten] = useState()
  const wish = useRef()
  const items = media.shown()
  const hasWords = mayEdit || items.some((m) => m.caption)
  const grid = gridOf(width, { hasWords, rem: Number.parseFloat(getComputedStyle(document.documentElement).fontSize) })
  // What is written or held stays, wherever the window is.
  const also = [written, media.held()].filter(Boolean).map((id) => items.findIndex((m) => m.media_id === id))
  const count = width ? items.length : 0
  const near = windowOf({ count, ...grid }, top - innerHeight, top + 2 * innerHeight + STEP, also)
  const isNearEnd = width > 0 && near.to === items.length
  const idOf = (tile) => tile.dataset.media

  const focus = (id, part = '.frame') => {
    wish.current = { id, part }
    draw()
  }
  useSortable(list, {
    isOn: () => isArranging,
    start: (tile) => media.hold({ id: idOf(tile) }),
    over: (tile, other, isAfter) => media.hold({ id: idOf(tile), [isAfter ? 'after' : 'before']: idOf(other) }),
    cancel: media.let,
    end() {
      const order = media.shown()
      const index = order.findIndex((m) => m.media_id === media.held())
      void media.place({ id: media.held(), after: order[index - 1]?.media_id, before: order[index + 1]?.media_id })
    },
    move: (tile, by) => void move(idOf(tile), by),
  })

  /** Moves an item by some places; ±Infinity is an end, also where that is not loaded yet. The part that was used keeps the focus. */
  async function move(id, by) {
    const part = ['.handle', '.earlier', '.later'].find((each) => document.activeElement?.matches(each))
    try {
      if (by === Infinity) await media.loadRest()
    } catch (error) {
      return toast(inWords(error))
    }
    const neighbours = neighboursAfter(media.items(), id, by)
    if (!neighbours) return
    void media.place({ id, ...neighbours })
    focus(id, part)
  }

  /** The item that takes the place of one that is taken out gets the focus. */
  async function remove(m) {
    const index = items.indexOf(m)
    const next = items[index + 1] ?? items[index - 1]
    if ((await does.remove(m)) && next) focus(next.media_id, '.take-out')
  }

  const more = () => media.more().catch((error) => toast(inWords(error)))
  useEffect(() => {
    if (isNearEnd && !media.held()) void more()
  }, [isNearEnd, items.length, media.held()])

  useLayoutEffect(() => {
    if (handle) handle.current = { focus }
    if (wish.current) fulfil()
  })
  /** Scrolls to an item that is out of sight, and gives the focus to a part of it. */
  function fulfil() {
    const { id, part } = wish.current
    const index = items.findIndex((m) => m.media_id === id)
    const y = list.current.getBoundingClientRect().top + Math.floor(index / grid.columns) * (grid.row + grid.gap)
    if (index >= 0 && (y < document.getElementById('bar').offsetHeight || y + grid.row > innerHeight)) {
      scrollTo({ top: scrollY + y - (innerHeight - grid.row) / 2, behavior: 'instant' })
      measure()
    }
    const tile = list.current.querySelector(`[data-media="${id}"]`)
    // An item that was out of sight is there with the next drawing.
    if (index >= 0 && !tile) return
    wish.current = undefined
    tile?.querySelector(part)?.focus({ preventScroll: true })
    // The first item has no button to go further.
    if (tile && !tile.contains(document.activeElement)) tile.querySelector('.handle')?.focus({ preventScroll: true })
  }

  const tileDoes = {
    ...{ find: media.find, refresh: does.refresh },
    open: (id) => isArranging || does.open(id),
  }
  const ended = (m, isKept) => {
    // The next caption may have been begun while this one was saved.
    setWritten((now) => (now === m.media_id ? undefined : now))
    if (isKept) focus(m.media_id, '.edit-caption')
  }
  const shape = {
    ...{ gap: `${grid.gap}px ${grid.across}px`, gridAutoRows: `${grid.row}px` },
    ...{ gridTemplateColumns: `repeat(${grid.columns}, minmax(0, 1fr))` },
    ...{ paddingBlockStart: `${near.above}px`, height: `${near.height}px` },
  }
  return html`
    <ul ref=${list} id="album-items" class=${classes('album-items', isArranging && 'arranging')} style=${shape} aria-label="Items of the album">
      ${items.slice(near.from, near.to).map(
        (m, i) => html`
          <${Tile} key=${m.media_id} m=${m} does=${tileDoes}>
            ${isArranging && html`<${Tools} m=${m} isFirst=${near.from + i === 0} isLast=${near.from + i === items.length - 1} isCover=${coverId === m.media_id} move=${move} remove=${remove} chooseCover=${does.chooseCover} />`}
            ${hasWords && html`<${Caption} m=${m} mayEdit=${mayEdit} isWritten=${written === m.media_id} onWrite=${() => setWritten(m.media_id)} onEnd=${(isKept) => ended(m, isKept)} save=${does.saveCaption} />`}
          <//>`,
      )}
    </ul>
    ${media.hasMore() && html`<p class="more"><button id="album-more" class="button" type="button" onClick=${more}>Show more</button></p>`}`
}

function Tools({ m, isFirst, isLast, isCover, move, remove, chooseCover }) {
  const name = nameOf(m)
  const round = (kind, icon, label, onClick, rest) =>
    html`<button class=${`round ${kind}`} type="button" aria-label=${label} onClick=${onClick} ...${rest}><${Icon} name=${icon} size="16" /></button>`
  return html`
    <div class="item-tools">
      ${round('cover', 'star', `Make ${name} the cover`, () => chooseCover(m), { 'aria-pressed': String(isCover) })}
      ${round('take-out', 'close', `Remove ${name} from the album`, () => void remove(m))}
      <span class="movers">
        ${round('earlier', 'back', `Move ${name} to the left`, () => void move(m.media_id, -1), { disabled: isFirst })}
        ${round('handle', 'handle', `Move ${name}: drag, or use the arrow keys`)}
        ${round('later', 'next', `Move ${name} to the right`, () => void move(m.media_id, 1), { disabled: isLast })}
      </span>
    </div>`
}

function Caption({ m, mayEdit, isWritten, onWrite, onEnd, save }) {
  const { caption } = m
  const label = caption ? `Edit the caption of ${nameOf(m)}: ${caption}` : `Add a caption to ${nameOf(m)}`
  const words = isWritten
    ? html`<${CaptionInput} m=${m} save=${save} onEnd=${onEnd} />`
    : mayEdit
      ? html`<button class=${classes('edit-caption', !caption && 'none')} type="button" dir="auto" title=${caption} aria-label=${label} onClick=${onWrite}>${caption ?? 'Add a caption'}</button>`
      : caption && html`<p class="caption" dir="auto" title=${caption}>${caption}</p>`
  return html`<div class="caption-part">${words}</div>`
}

/** For a caption whose field is gone: what was typed is not lost with it. */
function offerAgain(m, text, save) {
  const run = async () => (await save(m, text === '' ? null : text)) || offerAgain(m, text, save)
  toast(`The caption of ${nameOf(m)} is not saved.`, { label: 'Try again', run })
}

/**
 * In place of the caption: Enter and leaving save it, also by leaving the view; Escape does not. `onEnd(isKept)`: whether the
 * focus was still in it.
 */
function CaptionInput({ m, save, onEnd }) {
  const input = useRef()
  const isDone = useRef(false)
  const isGone = useRef(false)
  const latest = useRef()
  const [isSaving, setSaving] = useState(false)
  useLayoutEffect(() => {
    input.current.value = m.caption ?? ''
    input.current.focus()
    return () => {
      isGone.current = true
      // The field is there until now: the browser takes the focus from it once it has gone.
      void latest.current(false)
    }
  }, [])
  const end = (isKept) => {
    isDone.current = true
    onEnd(isKept)
  }
  async function done(isKept) {
    if (isDone.current) return
    isDone.current = true
    const text = input.current.value.trim()
    setSaving(true)
    const isSaved = text === (m.caption ?? '') || (await save(m, text === '' ? null : text))
    if (!isSaved && isGone.current) offerAgain(m, text, save)
    if (isSaved || isGone.current) return end(isKept && !isGone.current)
    // What was typed stays, so that it can be saved again.
    setSaving(false)
    isDone.current = false
    input.current?.focus()
  }
  latest.current = done
  const onKeyDown = (event) => {
    event.stopPropagation()
    if (event.key === 'Escape') end(true)
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault()
      void done(true)
    }
  }
  return html`<textarea ref=${input} class="caption-input" maxlength="1000" rows="2" dir="auto" aria-label=${`Caption of ${nameOf(m)}`} readonly=${isSaving} onBlur=${() => void done(false)} onKeyDown=${onKeyDown}></textarea>`
}
