import { hasUnsent, MediaComments } from '../discussions/media-comments.js'
import { link } from '../lib/api.js'
import { html, render, useEffect, useLayoutEffect, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { kindOf, nameOf } from '../lib/media.js'
import { may } from '../lib/permissions.js'
import { hideToast, saveToast, toast } from '../lib/toast.js'
import { momentOf } from '../lib/words.js'
import { withMedia } from '../shell/views.js'
import { Details, useMetadata } from './details.js'
import { playLivePhoto } from './live-photo.js'
import { Stage } from './stage.js'

/**
 * What is shown, above what was shown before attachments of a comment were opened: [{m, does}]. Each has an entry in the
 * history, whose state says which one it is.
 */
let stack = []
/** The same with what was above it before the person went back: forward shows it again. */
let trail = []
/** How many entries are left once the history has followed what was closed here. */
let following
let host
/** The browser scrolls to where the view was when the viewer opened: what scrolls elsewhere has to come later. */
let goneBack = Promise.resolve()
/** What was before and behind the media item with this id when it was last drawn: `{id, items}`. */
let beside = { items: [] }

const isShown = (id) => stack.at(-1)?.m.media_id === id
const depth = () => history.state?.viewer ?? 0
const named = () => new URLSearchParams(location.hash.slice(1)).get('media')

/**
 * Opens a media item: plays a video, shows a photo. The page's address names it, so the back button closes it. `does`, the
 * list that it is shown from: {find(id), neighbour(id, step), load(missing), refresh(m), remove(id), captionOf(m),
 * closed(id), discussed}; without `remove`, nothing is deleted from there. `discussed`, of media items of an event:
 * {event(), org, path, me}.
 */
export async function openViewer(m, does) {
  // The history would go back from an entry that is made before it has followed what was closed.
  if (following !== undefined) {
    await goneBack
    if (isShown(m.media_id)) return
  }
  // The person came back to an entry of the viewer that nothing in memory belongs to any more.
  const isThere = depth() > 0 && unshown() === m.media_id
  following = undefined
  if (isThere) stack = stack.slice(0, depth() - 1)
  stack = [...stack, { m, does }]
  trail = stack
  const enter = isThere ? 'replaceState' : 'pushState'
  history[enter]({ viewer: stack.length }, '', withMedia(location.hash, m.media_id))
  draw()
}

/** Called with every update of media items: more renditions may exist than at the start. */
export function refreshViewer(m) {
  if (isShown(m.media_id)) put(m)
}

/** What is shown, if anything is: another person may delete it. */
export const shownInViewer = () => stack.slice(-1).map(({ m }) => m)

/** Called when a media item was deleted: what was behind it is shown, or before it. */
export function dropFromViewer(id) {
  if (!isShown(id) || removing === id) return
  const { does } = stack.at(-1)
  const next = besideShown(1, does) ?? besideShown(-1, does)
  toast('This photo was deleted.')
  if (next) show(next)
  else back()
}

/** The one that was drawn beside what is shown, as far as it is still there. */
function besideShown(step, does) {
  const m = isShown(beside.id) ? beside.items[step < 0 ? 0 : 1] : undefined
  return m && does.find(m.media_id)
}

export function closeViewer() {
  if (stack.length === 0) return
  leave(stack.length)
  end()
}

/** Another view, or another group, is shown: forward must not show what the lists of the one before had. */
export function forgetForward() {
  trail = stack
}

/** The media item that the address names and that is not shown. */
export const unshown = () => (following !== undefined || isShown(named()) ? undefined : named())

function leave(entries) {
  if (depth() === 0) return
  following = stack.length - entries
  goneBack = new Promise((resolve) => {
    const look = () => {
      if (following !== undefined) return
      removeEventListener('popstate', look)
      setTimeout(resolve)
    }
    addEventListener('popstate', look)
    // A step that the person takes at the same time may keep the history from following.
    setTimeout(resolve, 1000)
  })
  history.go(-entries)
}

function end() {
  const [{ m, does }] = stack
  stack = []
  draw()
  void goneBack.then(() => does.closed?.(m.media_id))
}

addEventListener('popstate', () => {
  // Closed twice in a row: the second step is still to come.
  if (following < depth()) return
  const hasFollowed = following !== undefined
  following = undefined
  if (depth() === 0) return stack.length > 0 && end()
  const next = trail.slice(0, depth())
  if (hasFollowed && depth() === stack.length) name(stack.at(-1).m)
  else if (next.length === depth() && next.at(-1).m.media_id === named()) to(next)
})

function show(m) {
  name(m)
  put(m)
}

const name = (m) => history.replaceState(history.state, '', withMedia(location.hash, m.media_id))

function put(m) {
  stack = stack.with(-1, { ...stack.at(-1), m })
  trail = [...stack, ...trail.slice(stack.length)]
  draw()
}

/** Shows the topmost of `entries`, as it is now. */
function to(entries) {
  stack = entries
  const { m, does } = stack.at(-1)
  put(does.find(m.media_id) ?? m)
}

function draw() {
  host ??= document.body.appendChild(document.createElement('div'))
  render(html`<${Viewer} at=${stack.at(-1)} />`, host)
}

/** Closes what is shown; what was shown before it is there again. */
function back() {
  if (stack.length < 2) return closeViewer()
  leave(1)
  to(stack.slice(0, -1))
}

async function go(step) {
  const { m, does } = stack.at(-1)
  const { item = does.find(m.media_id) ? undefined : besideShown(step, does), missing } = does.neighbour(
    m.media_id,
    step,
  )
  const next =
    item ??
    (missing &&
      (await does.load(missing).then(
        () => does.neighbour(m.media_id, step).item,
        () => {},
      )))
  if (next && isShown(m.media_id)) show(next)
}

/** The id of what this person is deleting. */
let removing

/** Deletes what is shown, and shows the next one. */
async function remove() {
  const { m, does } = stack.at(-1)
  const next = does.neighbour(m.media_id, 1).item ?? does.neighbour(m.media_id, -1).item
  removing = m.media_id
  const isGone = await does.remove(m.media_id)
  removing = undefined
  if (!isGone || !isShown(m.media_id)) return
  if (next) show(does.find(next.media_id) ?? next)
  else back()
}

/** The dialog stays: closing it gives the focus back to where it was. */
function Viewer({ at }) {
  const dialog = useRef()
  useLayoutEffect(() => {
    if (at) return dialog.current.showModal()
    saveToast(dialog.current)
    dialog.current.close()
  }, [Boolean(at)])
  const onKeyDown = (event) => {
    if (event.defaultPrevented) return
    if (event.key === 'Escape') {
      // Before the browser closes it: a second Escape in a row could not be prevented.
      event.preventDefault()
      return back()
    }
    // Arrows also move through a video, a list of qualities and a text that have the focus.
    if (event.target.closest('video, select, .beside')) return
    if (event.key === 'ArrowLeft') void go(-1)
    if (event.key === 'ArrowRight') void go(1)
    // A key that is held down must not go through the library: one photo can be taken back.
    if (event.key === 'Delete' && !event.repeat && at && mayRemove(at)) void remove()
  }
  const onCancel = (event) => {
    event.preventDefault()
    back()
  }
  return html`
    <dialog ref=${dialog} id="viewer" class="viewer" aria-labelledby="viewer-title" tabindex="-1" onKeyDown=${onKeyDown} onCancel=${onCancel}>
      ${at && html`<${Shown} dialog=${dialog} ...${at} />`}
    </dialog>`
}

const mayRemove = ({ m, does }) => Boolean(does.remove) && may(m, 'media.delete')

function Shown({ dialog, m, does }) {
  const { media_id: id } = m
  const { discussed } = does
  const [wanted, setWanted] = usePanel()
  const panel = wanted === 'comments' && !discussed ? '' : wanted
  const meta = useMetadata(m)
  const frame = useRef()
  const [previous, next] = [-1, 1].map((step) => does.neighbour(id, step))
  if (does.find(id)) beside = { id, items: [previous.item, next.item] }
  const stopMotion = useRef()
  const isLive = kindOf(m) === 'live'
  const playLive = () => {
    stopMotion.current = playLivePhoto(frame.current, m, does.refresh)
  }
  useEffect(() => {
    if (isLive && !matchMedia('(prefers-reduced-motion: reduce)').matches) playLive()
    return () => stopMotion.current?.()
  }, [id, isLive])
  useEffect(() => {
    // The next picture is there before it is asked for.
    for (const { item } of [previous, next]) {
      if (item?.variants.image_webp_url && kindOf(item) !== 'video')
        new Image().src = link(item.variants.image_webp_url)
    }
    // The button that had the focus may have gone, and with it the keys.
    if (document.activeElement === document.body) dialog.current.focus()
  }, [id])
  useUnsent(m, does, panel === 'comments')
  const toggle = (name) => ({
    'aria-expanded': String(panel === name),
    'aria-controls': `viewer-${name}`,
    onClick: () => setWanted(panel === name ? '' : name),
  })
  return html`
    <header class="viewer-bar">
      <button id="viewer-close" class="icon-button" type="button" aria-label="Close" onClick=${back}><${Icon} name="close" /></button>
      <div class="titles"><h2 id="viewer-title" dir="auto">${nameOf(m)}</h2><p>${m.captured_at ? '' : 'Added '}${momentOf(m)}</p></div>
      ${isLive && html`<button id="viewer-live" class="button live" type="button" aria-label="Play the Live Photo" onClick=${playLive}><${Rings} />Live</button>`}
      ${discussed && html`<button id="viewer-talk" class="icon-button" type="button" aria-label="Comments" ...${toggle('comments')}><${Icon} name="comment" /></button>`}
      <button id="viewer-info" class="icon-button" type="button" aria-label="Details" ...${toggle('details')}><${Icon} name="info" /></button>
      <a id="viewer-download" class="icon-button" download href=${link(m.original_url)} aria-label=${`Download the original of ${nameOf(m)}`}><${Icon} name="download" /></a>
      ${mayRemove({ m, does }) && html`<button id="viewer-remove" class="icon-button" type="button" aria-label="Delete" onClick=${remove}><${Icon} name="trash" /></button>`}
    </header>
    <div class="viewer-body">
      <div class="viewer-main">
        <${Turn} id="viewer-previous" label="Previous" icon="back" to=${previous} onClick=${() => go(-1)} />
        <${Stage} frame=${frame} m=${m} does=${does} go=${go} back=${back} />
        <${Turn} id="viewer-next" label="Next" icon="next" to=${next} onClick=${() => go(1)} />
      </div>
      ${panel === 'details' && html`<${Details} m=${m} meta=${meta} />`}
      ${panel === 'comments' && html`<aside id="viewer-comments" class="beside discussion" aria-label="Comments"><${MediaComments} key=${id} m=${m} discussed=${discussed} openViewer=${openViewer} /></aside>`}
    </div>`
}

/** Beside the media item: `details`, `comments` or nothing. On a phone there is room for the picture alone. */
let chosenPanel = matchMedia('(min-width: 60rem)').matches ? 'comments' : ''
function usePanel() {
  const [panel, setPanel] = useState(chosenPanel)
  chosenPanel = panel
  return [panel, setPanel]
}

const Turn = ({ id, label, icon, to, onClick }) =>
  html`<button id=${id} class="turn" type="button" aria-label=${label} disabled=${!to.item && !to.missing} onClick=${onClick}><${Icon} name=${icon} size="24" /></button>`

const Rings = () =>
  html`<svg aria-hidden="true" viewBox="0 0 20 20" width="18" height="18"><circle cx="10" cy="10" r="2.5" /><circle cx="10" cy="10" r="5.2" /><circle cx="10" cy="10" r="8" stroke-dasharray="1.2 2" /></svg>`

/** The media item whose comment the toast says is unsent. */
let announced

/** What was begun about a media item is kept there when another one is shown, which its author should know. */
function useUnsent({ media_id: id }, does, isDiscussed) {
  useEffect(() => {
    if (!isDiscussed) return
    if (announced === id) hideToast()
    const { path } = does.discussed
    return () => {
      if (!hasUnsent(`${path}/media/${id}/comments`) || stack.some(({ m }) => m.media_id === id)) return
      announced = id
      const m = does.find(id)
      const run = () => stack.at(-1)?.does === does && show(does.find(id) ?? m)
      toast(
        'Your comment is not sent. It is kept with the item.',
        m && stack.length > 0 ? { label: 'Go back', run } : undefined,
      )
    }
  }, [id, isDiscussed])
}
