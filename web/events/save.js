import { Archive, useArchives } from '../lib/archives.js'
import { html } from '../lib/html.js'
import { Problem } from '../lib/parts.js'
import { may } from '../lib/permissions.js'
import { goesOn } from './words.js'

const WORDS =
  'The originals of all photos and videos, the films, and what was written, as archives that open without Keepsake.'

/** When the event goes, and what to do before. */
export const Purge = ({ event }) =>
  event.purge_at &&
  html`<p id="event-purge" class="event-note">${goesOn(event)}, with its album, comments and invitations, and the photos that were added for it alone.${may(event, 'event.export') && ' Download everything before that to keep it.'}</p>`

/** Everything of an event, to take away: for those who manage it. */
export const Save = ({ event, path }) =>
  may(event, 'event.export') && html`<${Downloads} event=${event} path=${path} />`

function Downloads({ event, path }) {
  const list = useArchives('/api/users/me/event-exports', ({ event_id }) => event_id === event.event_id)
  const request = () => list.request(`${path}/export`, 'The event is being put together')
  return html`
    <section id="event-save" class="panel" aria-labelledby="event-save-title">
      <h2 id="event-save-title">Keep a copy</h2>
      <p class="muted small">${WORDS}</p>
      <button class="button" type="button" disabled=${list.isBusy || !list.isKnown || list.isRunning} onClick=${request}>Download everything</button>
      <${Problem} error=${list.error} />
      ${
        list.exports.length > 0 &&
        html`<ul class="copies" aria-label="Downloads of the event">${list.exports.map((one) => html`<${Archive} key=${one.export_id} one=${one} first="The first one has what was written." isBusy=${list.isBusy} onRemove=${() => list.remove(one, 'The download was removed')} />`)}</ul>`
      }
    </section>`
}
