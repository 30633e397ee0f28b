import { classes, html, useId } from '../lib/html.js'
import { usePages } from '../lib/pages.js'
import { More, Problem } from '../lib/parts.js'
import { HighlightCards, pauseOf } from './card.js'

/**
 * The highlights of an event or album of a group: `query` is `{event_id}` or `{album_id}`, `level` that of the heading.
 * `children` are buttons beside the heading. Without highlights and buttons there is nothing.
 */
export function HighlightShelf({ org, query, level = 2, children, ...rest }) {
  const id = useId()
  const list = usePages(`/api/media/${org.org_id}/highlights`, 'highlights', {
    query: { ...query, limit: '24' },
    every: pauseOf,
  })
  if (!list.items?.length && !children) return null
  return html`
    <section class=${classes('highlight-shelf', rest.class)} aria-labelledby=${id}>
      <div class="shelf-head"><${`h${level}`} id=${id}>Highlights<//>${children}</div>
      <${Problem} class="small" error=${list.error} />
      <${HighlightCards} highlights=${list.items ?? []} />
      <${More} list=${list} />
    </section>`
}
