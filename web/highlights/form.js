import { albumSource } from '../albums/source.js'
import { call, patiently } from '../lib/api.js'
import { openDialog } from '../lib/dialogs.js'
import { Check, Field, FormDialog, useForm } from '../lib/form.js'
import { html, useEffect, useReducer, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { detailsOf, kindOf, knownDuration, knownMotion, nameOf } from '../lib/media.js'
import { announce } from '../lib/toast.js'
import { clock, plural } from '../lib/words.js'
import { pickMedia } from '../library/picker.js'
import { Order } from './order.js'
import { Tracks } from './tracks.js'
import {
  CANNOT_BE_READ,
  estimateOf,
  HIGHLIGHT_REFUSALS,
  highlightMistakes,
  MAX_ITEMS,
  pathTo,
  refusedItems,
} from './words.js'

const OPTIONS = {
  transition: { crossfade: 'Crossfade', cut: 'Cut', fade: 'Fade through black' },
  orientation: {
    auto: 'As most of the items',
    landscape: 'Landscape, 16:9',
    portrait: 'Portrait, 9:16',
    square: 'Square',
  },
  captions: { none: 'None', caption: 'Captions of the album', date: 'Date' },
  fill: { blur: 'The item, blurred', black: 'Black' },
}
const USUAL = {
  transition: 'crossfade',
  orientation: 'auto',
  captions: 'none',
  fill: 'blur',
  show_title: true,
  ken_burns: true,
  skip_broken: false,
  music_track_id: null,
}

const picking = ({ org, album }) => ({
  org,
  isOrdered: true,
  ...(album && { from: albumSource(album), offersAll: true }),
})

/**
 * Asks for the items of a highlight, from the album if one is given and from the library otherwise, and then how it should
 * be. `event` is the event of the album. `onMade` gets the id of the new highlight.
 */
export const chooseForHighlight = (place) =>
  pickMedia({
    ...picking(place),
    title: 'Choose photos and videos in their order',
    label: 'Continue with',
    most: MAX_ITEMS,
    onChosen: (items) => makeHighlight({ ...place, items }),
  })

/**
 * Asks how a highlight of these items should be, and has it made. `settings` are those of another highlight, `note` says
 * what became of its items.
 */
export function makeHighlight(given) {
  openDialog((onClose) => html`<${HighlightForm} ...${given} onClose=${onClose} />`)
  announce(`A highlight in ${given.org.name}`)
}

const secondsOf = (m) => ({ video: knownDuration, live: knownMotion })[kindOf(m)]?.(m)
const isBroken = (m) => m.upload_status === 'failed'

function HighlightForm({ org, album, event, items: chosen, settings = {}, note, onMade, onClose }) {
  /** What the API refused, by id. */
  const [refused, setRefused] = useState(new Map())
  const scroller = useRef()
  const form = useForm({
    initial: initialOf({ album, event, chosen, settings }),
    check: highlightMistakes,
    words: HIGHLIGHT_REFUSALS,
    async save({ items, ...values }, keyFor) {
      const path = pathTo({ org, album, event })
      const body = { ...values, title: values.title.trim(), media_ids: items.map((m) => m.media_id) }
      try {
        const { highlight_id: id } = await call('POST', path, body, keyFor([path, body]))
        onClose()
        onMade(id)
      } catch (error) {
        setRefused(new Map([...refusedItems(error)].map(([place, words]) => [body.media_ids[place], words])))
        throw error
      }
    },
  })
  const { items, transition, skip_broken: skips } = form.values
  useLengths(items)
  const broken = items.filter((m) => isBroken(m) || refused.get(m.media_id) === CANNOT_BE_READ)
  const marks = new Map([...refused, ...broken.map((m) => [m.media_id, CANNOT_BE_READ])])
  const leftOut = new Set(skips ? broken : [])
  const shown = items.filter((m) => !leftOut.has(m))
  const change = (next) => {
    setRefused(new Map())
    form.set({ items: next })
  }
  const add = () => {
    const ids = new Set(items.map((m) => m.media_id))
    const onChosen = (more) => change([...items, ...more])
    void pickMedia({
      ...picking({ org, album }),
      title: 'Add items',
      label: 'Add',
      most: MAX_ITEMS - ids.size,
      has: (id) => ids.has(id),
      onChosen,
    })
  }
  const list = (name) => Object.entries(OPTIONS[name]).filter(([value]) => value !== 'caption' || album)
  const seconds = estimateOf(
    shown.map((m) => ({ kind: kindOf(m), seconds: secondsOf(m) })),
    transition,
  )
  const length =
    items.length > 0 &&
    html`<p class="length" role="status">${plural(shown.length, 'item')}, about ${clock(seconds)}</p>`
  return html`
    <${FormDialog} title="Make a highlight" class="highlight-form" form=${form} label="Make the highlight" beside=${length} onClose=${onClose}>
      <div ref=${scroller} class="form-body">
        <div class="muted small order-hint">
          <span>Drag the items into order. With the keyboard: arrow keys on <${Icon} name="handle" size="14" /></span>
          ${items.length < MAX_ITEMS && html`<button class="button quiet" type="button" name="items" onClick=${add}>Add items</button>`}
        </div>
        ${note && html`<p class="small" role="status">${note}</p>`}
        <${Order} items=${items} onChange=${change} marks=${marks} leftOut=${leftOut} scroller=${scroller} />
        ${form.mistakes.items && html`<p class="error small" role="alert">${form.mistakes.items}</p>`}
        ${broken.length > 0 && html`<${Broken} names=${broken.map(nameOf)} isLeftOut=${skips} onLeaveOut=${() => form.set({ skip_broken: true })} />`}
        <${Field} form=${form} name="title" label="Name" maxlength="200" dir="auto" autofocus required />
        <div class="pair">
          <${Field} form=${form} name="transition" label="From item to item" options=${list('transition')} />
          <${Field} form=${form} name="orientation" label="Shape" options=${list('orientation')} />
        </div>
        <${Tracks} chosen=${form.values.music_track_id} onChoose=${(id) => form.set({ music_track_id: id })} />
        <details class="options">
          <summary>More options</summary>
          <${Check} form=${form} name="show_title" label="Show the name over the first seconds" />
          <${Check} form=${form} name="ken_burns" label="Photos move slowly" />
          <${Check} form=${form} name="skip_broken" label="Leave out items that cannot be read" />
          <div class="pair">
            <${Field} form=${form} name="captions" label="Text over the items" options=${list('captions')} />
            <${Field} form=${form} name="fill" label="Around items of another shape" options=${list('fill')} />
          </div>
        </details>
      </div>
    <//>`
}

function initialOf({ album, event, chosen, settings }) {
  const taken = Object.fromEntries(
    Object.keys(USUAL).flatMap((name) => (name in settings ? [[name, settings[name]]] : [])),
  )
  const values = { ...USUAL, title: settings.title ?? event?.title ?? album?.title ?? '', ...taken, items: chosen }
  return !album && values.captions === 'caption' ? { ...values, captions: 'none' } : values
}

/** Which items cannot be read, and what becomes of them. */
function Broken({ names, isLeftOut, onLeaveOut }) {
  const them = names.join(', ')
  if (isLeftOut)
    return html`<p class="small broken" role="status">Left out, because ${names.length === 1 ? 'it' : 'they'} cannot be read: ${them}.</p>`
  return html`
    <p class="small broken" role="status">
      <span>Cannot be read: ${them}. Take ${names.length === 1 ? 'it' : 'them'} out, or leave out what cannot be read.</span>
      <button class="button quiet" type="button" onClick=${onLeaveOut}>Leave out</button>
    </p>`
}

/** A list of media items does not say how long a video lasts. One that is being converted has no length yet. */
function useLengths(items) {
  const [, draw] = useReducer((count) => count + 1, 0)
  const asked = useRef(new Set())
  useEffect(() => {
    let isOld = false
    const ask = async () => {
      for (const m of items) {
        if (kindOf(m) === 'photo' || secondsOf(m) !== undefined || asked.current.has(m.media_id)) continue
        asked.current.add(m.media_id)
        await patiently(() => detailsOf(m)).catch(() => {})
        draw()
        if (isOld) return
      }
    }
    void ask()
    return () => {
      isOld = true
    }
  }, [items])
}
