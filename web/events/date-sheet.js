import { html } from '../lib/html.js'
import { hue } from '../lib/words.js'
import { sheetOf } from './words.js'

/** The month and the day, on a colour that the event keeps. */
export function DateSheet({ event }) {
  const { month, day } = sheetOf(event)
  return html`
    <span class="date-sheet" aria-hidden="true" style=${{ '--hue': hue(event.event_id) }}>
      <span class="sheet-month">${month}</span><span class="sheet-day">${day}</span>
    </span>`
}
