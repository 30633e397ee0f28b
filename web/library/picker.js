import { call } from '../lib/api.js'
import { Dialog, openDialog } from '../lib/dialogs.js'
import { html, useEffect, useMemo, useReducer, useRef, useState } from '../lib/html.js'
import { Problem, Wait } from '../lib/parts.js'
import { inWords } from '../lib/refusals.js'
import { plural } from '../lib/words.js'
import { Grid } from './grid.js'
import { newTimeline } from './timeline.js'
import { newLoader } from './timeline-loader.js'

/** The media items of a group by month. A source has what of this one is used here. */
function librarySource(org, onPage) {
  const timeline = newTimeline()
  const loader = newLoader(org, timeline, onPage)
  return {
    ...timeline,
    ...loader,
    begin: async () => timeline.setMonths((await call('GET', `/api/media/${org.org_id}/months`)).months),
  }
}

/**
 * Asks for media items of the library, or of the source that `from(org, onPage)` returns. `has(id)` says which are there
 * already, `most` how many can be chosen, `isOrdered` that the order counts, `offersAll` that all can be chosen at once.
 * `run` gets those chosen, a function that shows how far it is, and a signal that is aborted when the dialog is closed before
 * its end; a refusal stays in the dialog, in the words of `say`.
 * `onChosen` gets those chosen after the dialog.
 */
export const pickMedia = (options) => openDialog((onClose) => html`<${Picker} ...${options} onClose=${onClose} />`)

function Picker({
  org,
  title,
  label,
  from = librarySource,
  most = Infinity,
  has = () => false,
  isOrdered,
  offersAll,
  run = async () => {},
  onChosen = () => {},
  say = inWords,
  onClose,
}) {
  const [, draw] = useReducer((count) => count + 1, 0)
  /** By id, in the order in which they were chosen. */
  const [chosen, setChosen] = useState(() => new Map())
  const [isKnown, setKnown] = useState(false)
  const [problem, setProblem] = useState()
  const [progress, setProgress] = useState()
  const scroller = useRef()
  const source = useMemo(() => from(org, draw), [])
  const closing = useMemo(() => new AbortController(), [])
  useEffect(() => {
    source.begin().then(
      () => setKnown(true),
      (error) => setProblem(inWords(error)),
    )
    return () => {
      closing.abort()
      source.end()
    }
  }, [])
  const busy = useRef(false)
  const does = useMemo(
    () => ({
      find: source.find,
      async refresh({ media_id: id }) {
        const fresh = await call('GET', `/api/media/${org.org_id}/${id}`)
        source.put(fresh)
        draw()
        return fresh
      },
      open(id) {
        const m = source.find(id)
        if (!m || busy.current) return
        setChosen((now) => {
          const next = new Map(now)
          const isFull = !next.delete(id) && next.size >= most
          setProblem(isFull ? `At most ${most} can be chosen.` : undefined)
          return isFull ? now : next.size < now.size ? next : next.set(id, m)
        })
      },
    }),
    [],
  )
  const places = new Map([...chosen.keys()].map((id, i) => [id, i + 1]))
  const markOf = ({ media_id: id }) => ({
    isChosen: chosen.has(id),
    isThere: has(id),
    place: isOrdered && chosen.has(id) ? places.get(id) : '',
  })
  const onDrawn = ({ missing }) => missing && source.load(missing).catch((error) => setProblem(inWords(error)))
  const months = isKnown ? source.months() : []
  const free = months.flatMap((month) => month.items).filter((m) => !has(m.media_id))
  const all = free.slice(0, most)
  async function done() {
    busy.current = true
    const items = [...chosen.values()]
    setProblem(undefined)
    setProgress(label)
    try {
      const show = (text, m) => {
        setProgress(text)
        if (m) setChosen((now) => new Map([...now].filter(([id]) => id !== m.media_id)))
      }
      await run(items, show, closing.signal)
      if (closing.signal.aborted) return
      onClose()
      onChosen(items)
    } catch (error) {
      setProblem(say(error))
    }
    busy.current = false
    setProgress(undefined)
  }
  return html`
    <${Dialog} title=${title} class="picker" id="picker" isDirty=${() => chosen.size > 0} onClose=${onClose}>
      ${(leave) => html`
        <div ref=${scroller} class="picker-scroll">
          ${!isKnown && !problem && html`<${Wait} />`}
          ${isKnown && months.length === 0 && html`<p class="muted">The library is empty. Add photos there first.</p>`}
          ${months.length > 0 && html`<${Grid} months=${source.months} does=${does} markOf=${markOf} onDrawn=${onDrawn} scroller=${scroller} />`}
        </div>
        <${Problem} text=${problem} />
        <footer class="sheet-foot">
          <span id="picker-count" class="muted picker-count" role="status">${chosen.size === 0 ? '' : `${plural(chosen.size, 'item')} chosen`}</span>
          ${offersAll && all.length > 0 && html`<button class="button" type="button" onClick=${() => setChosen(new Map(all.map((m) => [m.media_id, m])))}>${free.length > most ? `Select the first ${most}` : 'Select all'}</button>`}
          <button class="button" type="button" onClick=${leave}>Cancel</button>
          <button class="button primary" type="button" disabled=${chosen.size === 0 || Boolean(progress)} onClick=${done}>${progress ?? (chosen.size === 0 ? label : `${label} ${chosen.size}`)}</button>
        </footer>`}
    <//>`
}
