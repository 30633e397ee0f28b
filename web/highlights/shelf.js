import { html, useId } from '../lib/html.js'
import { usePages } from '../lib/pages.js'
import { More, Problem } from '../lib/parts.js'
import { HighlightCards, pauseOf } from './card.js'

/** The highlights of an album, for those who see it. Without any there is nothing. */
export function HighlightShelf({ org, albumId, level = 2 }) {
  const id = useId()
  const list = usePages(`/api/orgs/${org.org_id}/albums/${albumId}/highlights`, 'highlights', {
    query: { limit: '24' },
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
