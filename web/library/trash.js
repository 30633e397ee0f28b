import { patiently } from '../lib/api.js'
import { html, useRef, useState } from '../lib/html.js'
import { KINDS, kindOf, nameOf, restoreMedia } from '../lib/media.js'
import { usePages } from '../lib/pages.js'
import { Empty, Intro, More, Problem, Wait } from '../lib/parts.js'
import { Picture } from '../lib/picture.js'
import { inWords } from '../lib/refusals.js'
import { announce } from '../lib/toast.js'
import { daysLeft, hue, plural, size } from '../lib/words.js'

const WORDS =
  'Each item can be restored until its days are over. Members see what is theirs, administrators see everything.'
const PICTURE = html`<path d="M20 14h24l-2.5 28h-19zM16 14h32M27 14V8h10v6" />`

/** What was deleted and can be restored, one by one or many at once. */
export function Trash({ org }) {
  const list = usePages(`/api/media/${org.org_id}/trash`, 'media', { query: { limit: '60' } })
  const [chosen, setChosen] = useState(() => new Set())
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState()
  const root = useRef()
  const items = list.items ?? []
  const picked = items.filter((m) => chosen.has(m.media_id))

  const choose = ({ media_id: id }) =>
    setChosen((now) => new Set(now.has(id) ? [...now].filter((other) => other !== id) : [...now, id]))
  const chooseAll = () => setChosen(new Set(picked.length === items.length ? [] : items.map((m) => m.media_id)))

  /** One after the other, so that the first refusal says which one it was about; those before it are back. */
  async function restore(wanted) {
    setBusy(true)
    setProblem(undefined)
    let done = 0
    try {
      for (const m of wanted) {
        await patiently(() => restoreMedia(m))
        done++
        list.set((now) => now.filter((other) => other.media_id !== m.media_id))
        choose(m)
      }
      announce(done === 1 ? `${nameOf(wanted[0])} is back among the photos` : `${done} items are back among the photos`)
    } catch (error) {
      setProblem(refusal(error, wanted[done]))
    }
    setChosen(new Set())
    setBusy(false)
    if (done > 0) root.current?.querySelector('.restore, h1')?.focus()
  }

  return html`
    <section ref=${root} class="view-trash" aria-label="Trash">
      <${Intro} title="Trash" text=${WORDS}>
        ${
          items.length > 1 &&
          html`
            <button class="button" type="button" onClick=${chooseAll}>${picked.length === items.length ? 'Select none' : 'Select all'}</button>
            <button class="button primary" type="button" disabled=${isBusy || picked.length === 0} onClick=${() => restore(picked)}>
              ${picked.length === 0 ? 'Restore selected' : `Restore ${plural(picked.length, 'item')}`}
            </button>`
        }
      <//>
      <${Problem} class="banner" text=${problem} error=${list.error} />
      ${!list.items && !list.error && html`<${Wait} />`}
      <ul class="trash" aria-label="Deleted photos and videos">
        ${items.map(
          (m) => html`
            <${Card}
              key=${m.media_id} m=${m} isBusy=${isBusy} isChosen=${chosen.has(m.media_id)}
              onChoose=${items.length > 1 && (() => choose(m))} onRestore=${() => restore([m])}
            />`,
        )}
      </ul>
      ${
        list.items?.length === 0 &&
        !list.hasMore &&
        html`<${Empty} title="The trash is empty" text="What you delete stays here for some time and can be restored." picture=${PICTURE} />`
      }
      <${More} list=${list} />
    </section>`
}

function refusal(error, m) {
  if (error.status !== 404) return inWords(error)
  return `${nameOf(m)} was deleted by an administrator, and only an administrator can restore it.`
}

function Card({ m, isBusy, isChosen, onChoose, onRestore }) {
  const name = nameOf(m)
  return html`
    <li class="trashed">
      <div class="picture" style=${{ '--hue': hue(m.media_id) }}>
        <${Picture} m=${m} urlOf=${() => m.thumbnail_url} isLazy />
        ${onChoose && html`<label class="pick"><input type="checkbox" aria-label=${`Select ${name}`} checked=${isChosen} onChange=${onChoose} /></label>`}
        <span class="left">${daysLeft(m.purge_at)}</span>
      </div>
      <div class="names">
        <h2 class="name" title=${name}>${name}</h2>
        <p class="muted small facts">${KINDS[kindOf(m)]} · ${size(m.file_size_bytes)}</p>
      </div>
      <button class="button restore" type="button" disabled=${isBusy} aria-label=${`Restore ${name}`} onClick=${onRestore}>Restore</button>
    </li>`
}
