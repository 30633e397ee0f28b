import { call } from '../lib/api.js'
import { html } from '../lib/html.js'
import { Picture } from '../lib/picture.js'
import { clock, hue } from '../lib/words.js'
import { linkToHighlight } from '../shell/views.js'
import { itemsOf, lengthOf, progressOf, statusOf } from './words.js'

const BUSY_MS = 3000
const LOOK_MS = 30_000

/** How soon a list of highlights is looked at again: soon while one of them is being made. */
export const pauseOf = ({ items }) => (items.some(({ status }) => status === 'processing') ? BUSY_MS : LOOK_MS)

/** Highlights as links to them, with their posters. */
export const HighlightCards = ({ highlights }) => html`
  <ul class="highlight-cards" aria-label="Highlights">
    ${highlights.map((one) => html`<${Card} key=${one.highlight_id} highlight=${one} />`)}
  </ul>`

function Card({ highlight }) {
  const { highlight_id: id, org_id: org, status, title, duration_sec: seconds, progress } = highlight
  const refresh = () => call('GET', `/api/media/${org}/highlights/${id}`)
  const facts = [
    status === 'processing' ? progressOf(highlight).text : itemsOf(highlight),
    status !== 'failed' && lengthOf(highlight),
  ]
  return html`
    <li class="highlight-card" data-highlight=${id} data-status=${status}>
      <a href=${linkToHighlight(id)}>
        <span class="poster" aria-hidden="true" style=${{ '--hue': hue(id) }}>
          <${Picture} m=${highlight} refresh=${refresh} isLazy />
          <span class="badge">${seconds === null ? '' : clock(seconds)}</span>
          ${status !== 'completed' && html`<span class="badge-state chip">${statusOf(highlight)}</span>`}
          ${status === 'processing' && html`<span class="meter"><span style=${{ width: `${progress?.percent ?? 0}%` }}></span></span>`}
        </span>
        <strong class="name" dir="auto">${title}</strong>
        <span class="muted small facts">${facts.filter(Boolean).join(' · ')}</span>
      </a>
    </li>`
}
