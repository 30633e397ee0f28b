import { html } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { usePages } from '../lib/pages.js'
import { Empty, Intro, More, Problem, Wait } from '../lib/parts.js'
import { linkToHighlight } from '../shell/views.js'
import { HighlightCards, pauseOf } from './card.js'
import { chooseForHighlight } from './form.js'

const PICTURE = html`<rect x="6" y="8" width="52" height="32" rx="5" /><path d="M14 8v32M50 8v32M6 16h8M6 24h8M6 32h8M50 16h8M50 24h8M50 32h8M28 18v12l10-6z" />`

/** The highlights of a group that the person can see, newest first. */
export function Highlights({ org }) {
  const list = usePages(`/api/media/${org.org_id}/highlights`, 'highlights', { query: { limit: '24' }, every: pauseOf })
  const isEmpty = list.items?.length === 0
  const make = () => chooseForHighlight({ org, onMade: (id) => location.assign(linkToHighlight(id)) })
  return html`
    <section class="view-highlights" aria-label="Highlights">
      <${Intro} title="Highlights" text=${org.name}>
        ${!isEmpty && html`<button class="button primary" type="button" onClick=${make}><${Icon} name="add" size="18" />Make a highlight</button>`}
      <//>
      <${Problem} class="banner" error=${list.error} />
      ${!list.items && !list.error && html`<${Wait} />`}
      ${
        isEmpty &&
        html`
          <${Empty} title="No highlights yet" text="Choose photos and videos, and some music: they are shown one after another, with transitions." picture=${PICTURE}>
            <button class="button primary" type="button" onClick=${make}>Make a highlight</button>
          <//>`
      }
      ${list.items?.length > 0 && html`<${HighlightCards} highlights=${list.items} />`}
      <${More} list=${list} />
    </section>`
}
