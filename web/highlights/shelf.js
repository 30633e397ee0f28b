import { html, useId } from '../lib/html.js'
import { usePages } from '../lib/pages.js'
import { More, Problem } from '../lib/parts.js'
import { HighlightCards, pauseOf } from './card.js'

/** The highlights of an event or album of a group: `query` is `{event_id}` or `{album_id}`. Without any there is nothing. */
export function HighlightShelf({ org, query, level = 2 }) {
  const id = useId()
  const list = usePages(`/api/media/${org.org_id}/highlights`, 'highlights', {
    query: { ...query, limit: '24' },
    every: pauseOf,
  })
  if (!list.items?.length) return null
  return html`
    <section class="highlight-shelf" aria-labelledby=${id}>
      <${`h${level}`} id=${id}>Highlights<//>
      <${Problem} class="small" error=${list.error} />
      <${HighlightCards} highlights=${list.items} />
      <${More} list=${list} />
    </section>`
}
