import { chooseForHighlight, makeHighlight } from '../highlights/form.js'
import { patiently } from '../lib/api.js'
import { keepFocus } from '../lib/focus.js'
import { html, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { deleteMedia, nameOf, restoreMedia } from '../lib/media.js'
import { Empty, Problem, Wait } from '../lib/parts.js'
import { may } from '../lib/permissions.js'
import { usePolled } from '../lib/poll.js'
import { inWords } from '../lib/refusals.js'
import { session } from '../lib/session.js'
import { announce, toast } from '../lib/toast.js'
import { plural } from '../lib/words.js'
import { linkToHighlight } from '../shell/views.js'
import { AddFiles, useUploads } from '../uploads/uploads.js'
import { dropFromViewer, openViewer, refreshViewer, shownInViewer } from '../viewer/viewer.js'
import { addToAlbum } from './add-to-album.js'
import { Grid } from './grid.js'
import { Jump, Scrubber } from './scrubber.js'
import { libraryOf } from './store.js'

const PICTURE = html`<rect x="4" y="10" width="34" height="30" rx="5" transform="rotate(-7 21 25)" /><rect x="20" y="8" width="38" height="32" rx="5" class="front" /><path d="m24 36 10-12 8 9 5-5 8 9" /><circle cx="48" cy="17" r="3.5" />`

/** The library of a group: a grid of months. */
export function Photos({ org }) {
  const library = libraryOf(org)
  const grid = useRef()
  const [, draw] = useReducer((count) => count + 1, 0)
  const [chosen, setChosen] = useState()
  const polled = usePolled(
    () => library.look(onScreen()),
    [org.org_id],
    (found) => (found.isBusy ? 1000 : 8000),
  )
  useEffect(() => library.subscribe(draw), [library])
  useEffect(() => {
    library.onTaken.add(refreshViewer)
    return () => library.onTaken.delete(refreshViewer)
  }, [library])
  const latest = useRef()
  latest.current = chosen
  useEffect(() => {
    const dropped = (id) => {
      setChosen((now) => (now?.has(id) ? new Map([...now].filter(([other]) => other !== id)) : now))
      dropFromViewer(id)
    }
    const inUse = () =>
      [...(latest.current?.values() ?? []), ...shownInViewer()].filter((m) => m?.org_id === org.org_id)
    library.onDropped.add(dropped)
    library.inUse.add(inUse)
    return () => {
      library.onDropped.delete(dropped)
      library.inUse.delete(inUse)
    }
  }, [library])
  const does = useMemo(() => actionsOf({ library, grid, look: polled.reload }), [library])
  const choosing = useMemo(
    () => ({
      ...does,
      open: (id) => setChosen((now) => new Map(now.delete(id) ? now : now.set(id, library.find(id)))),
    }),
    [does],
  )
  const onDrawn = ({ missing, near }) => {
    if (missing) library.load(missing).catch(() => {})
    else library.trim(near)
    draw2()
  }
  // What stands beside the grid needs its layout, which is there once the grid has been drawn.
  const [layout, setLayout] = useState()
  const draw2 = () => setLayout(grid.current?.layout.map((m) => `${m.month}:${m.top}`).join())
  useScrollOf(library, Boolean(layout))
  const months = library.months()
  const isEmpty = library.isKnown && months.length === 0
  return html`
    <section class="view-photos" id="photos" tabindex="-1" aria-label="Photos">
      <${Head} org=${org} data=${polled.data} isEmpty=${isEmpty} isChoosing=${Boolean(chosen)} onChoose=${() => setChosen(chosen ? undefined : new Map())}>
        <${Jump} grid=${grid} key=${layout} />
      <//>
      <${Problem} class="banner" error=${polled.error} />
      ${!library.isKnown && !polled.error && html`<${Wait} />`}
      ${isEmpty && html`<${Nothing} />`}
      ${months.length > 0 && html`<${Grid} key=${org.org_id} months=${library.months} does=${chosen ? choosing : does} markOf=${chosen && ((m) => ({ isChosen: chosen.has(m.media_id) }))} onDrawn=${onDrawn} handle=${grid} head=${barHeight()} />`}
      ${months.length > 0 && html`<${Scrubber} grid=${grid} key=${layout} />`}
      ${chosen && html`<${Chosen} org=${org} library=${library} chosen=${chosen} onEnd=${() => setChosen(undefined)} look=${polled.reload} />`}
    </section>`
}

const barHeight = () => document.querySelector('.bar')?.offsetHeight ?? 0
const onScreen = () =>
  [...document.querySelectorAll('.months .tile:is([data-state=processing], [data-state=playable])')].map(
    (tile) => tile.dataset.media,
  )

/** Comes back to where the window was when another view was opened. */
function useScrollOf(library, isDrawn) {
  useLayoutEffect(
    () => () => {
      library.scroll = scrollY
    },
    [library],
  )
  useEffect(() => {
    if (isDrawn) scrollTo({ top: library.scroll, behavior: 'instant' })
  }, [library, isDrawn])
}

function Head({ org, data, isEmpty, isChoosing, onChoose, children }) {
  const working = data?.busy ? `, ${data.busy === 50 ? 'many' : data.busy} being converted` : ''
  return html`
    <div class="intro">
      <div class="library-words">
        <h1 id="organization-name">${org.name}</h1>
        <p id="summary" class="muted">${data?.total ? plural(data.total, 'memory', 'memories') + working : ''}</p>
      </div>
      ${children}
      <div class="tools">
        ${
          !isEmpty &&
          html`
            <button class="button" type="button" aria-pressed=${String(isChoosing)} onClick=${onChoose}>${isChoosing ? 'Done' : 'Select'}</button>
            <button class="button" type="button" aria-label="Make a highlight" onClick=${() => highlight(org)}><${Icon} name="highlight" size="18" /><span class="wide-only">Make a highlight</span></button>`
        }
        <${AddFiles} id="folder" isFolder label="Add a folder" class="add-folder"><${Icon} name="folder" size="18" /><span class="wide-only">Add a folder</span><//>
        <${AddFiles} id="files" label="Add photos" class="primary"><${Icon} name="upload" size="18" /><span>Add<span class="wide-only"> photos</span></span><//>
      </div>
    </div>`
}

const highlight = (org) => void chooseForHighlight({ org, onMade: (id) => location.assign(linkToHighlight(id)) })

function Nothing() {
  const { isBusy } = useUploads()
  if (isBusy)
    return html`<${Empty} title="Your photos are on their way" text="The first ones appear here in a moment." picture=${PICTURE} />`
  return html`<${Empty} title="Nothing here yet" text=${html`Add photos and videos<span class="wide-only">, or drop a whole folder anywhere on this page</span>.`} picture=${PICTURE} />`
}

function actionsOf({ library, grid, look }) {
  const does = {
    ...{ find: library.find, neighbour: library.neighbour, load: library.load, refresh: library.refresh },
    async remove(id) {
      const items = [library.find(id)].filter(Boolean)
      const next = behind(items, library)
      const isGone = await removeAll(items, library, look)
      keepFocus(() => placeOf(next))
      return isGone
    },
    open: (id) => openViewer(library.find(id), does),
    closed: (id) => grid.current?.reveal(id),
  }
  return does
}

/** The media item behind those that are about to go, or before them. */
function behind(items, library) {
  const ids = new Set(items.map((m) => m.media_id))
  for (const step of [1, -1]) {
    let next = items.at(-1)
    while (next && ids.has(next.media_id)) next = library.neighbour(next.media_id, step).item
    if (next) return next
  }
}

/** Where the keys go on: at the tile, as far as there is one. */
const placeOf = (m) =>
  (m && document.querySelector(`.months [data-media="${m.media_id}"] .frame`)) ?? document.getElementById('photos')

/** Deletes media items one after the other, and offers to take that back. Returns whether all are in the trash. */
async function removeAll(items, library, look) {
  const gone = []
  let problem
  const of = session()?.id
  for (const m of items) {
    // What one person has begun goes on for no other.
    if (session()?.id !== of) return false
    try {
      await patiently(() => deleteMedia(m))
    } catch (error) {
      problem ??= inWords(error)
      continue
    }
    gone.push(m)
    library.drop(m.media_id)
    library.changed()
  }
  const what = gone.length === 1 ? nameOf(gone[0]) : plural(gone.length, 'item')
  const undo = async () => {
    keepFocus(placeOf)
    try {
      for (const m of gone) await patiently(() => restoreMedia(m))
      announce(`${what} ${gone.length === 1 ? 'is' : 'are'} back`)
    } catch (error) {
      toast(inWords(error))
    }
    await look()
  }
  const again = gone.length > 0 ? { label: 'Undo', run: undo } : undefined
  if (problem) toast(gone.length > 0 ? `${what} in the trash. ${problem}` : problem, again)
  else if (gone.length > 0) toast(`${what} ${gone.length === 1 ? 'is' : 'are'} in the trash`, again)
  // The number of memories above the months comes with the next look.
  void look()
  return !problem && gone.length > 0
}

/** What can be done with several media items at once. */
function Chosen({ org, library, chosen, onEnd, look }) {
  const [isBusy, setBusy] = useState(false)
  const items = [...chosen.keys()].map((id) => library.find(id) ?? chosen.get(id))
  const removable = items.filter((m) => may(m, 'media.delete'))
  const remove = async () => {
    setBusy(true)
    const next = behind(removable, library)
    await removeAll(removable, library, look)
    onEnd()
    keepFocus(() => placeOf(next))
  }
  const made = (id) => {
    onEnd()
    location.assign(linkToHighlight(id))
  }
  const none = items.length === 0
  const kept = items.length - removable.length
  return html`
    <div class="chosen-bar" role="toolbar" aria-label="With the selected items">
      <span class="chosen-count" role="status">${none ? 'Choose photos' : `${plural(items.length, 'item')} selected`}${kept > 0 && html` <span class="muted small">${kept === items.length ? 'not' : `${kept} of them not`} yours to delete</span>`}</span>
      <button class="button" type="button" disabled=${isBusy || none} onClick=${() => addToAlbum({ org, items, onDone: onEnd })}><${Icon} name="album" size="18" />Add to album</button>
      <button class="button" type="button" disabled=${isBusy || none} onClick=${() => makeHighlight({ org, items, onMade: made })}><${Icon} name="highlight" size="18" />Highlight</button>
      <button class="button" type="button" disabled=${isBusy || removable.length === 0} onClick=${remove} aria-label=${`Delete ${plural(removable.length, 'item')}`}><${Icon} name="trash" size="18" />Delete${removable.length < items.length && removable.length > 0 ? ` ${removable.length}` : ''}</button>
      <button class="icon-button" type="button" aria-label="End selecting" onClick=${onEnd}><${Icon} name="close" /></button>
    </div>`
}
