import { useOnline } from '../lib/connection.js'
import { html } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { Avatar } from '../lib/parts.js'
import { showDevices } from './devices.js'

/** The views in the order in which they are offered, with the names of those that belong to each. */
const LINKS = [
  ['Photos', '#', ['photos']],
  ['Feed', '#feed', ['feed', 'timeline', 'person']],
  ['Albums', '#albums', ['albums', 'album']],
  ['Highlights', '#highlights', ['highlights', 'highlight']],
  ['Events', '#events', ['events', 'event']],
  ['Trash', '#trash', ['trash']],
]

/** Without the address, which names the view. */
function skip(event) {
  event.preventDefault()
  document.getElementById('content').focus()
}

/** What stands above every view. */
export function Bar({ me, organizations, org, shown, hasOutbox, onSwitch, onSignOut }) {
  const name = me.display_name ?? me.email ?? '?'
  return html`
    <header id="bar" class=${organizations.length < 2 ? 'bar' : 'bar with-groups'}>
      <a class="skip" href="#content" onClick=${skip}>Skip to the content</a>
      <a class="brand" href="#" aria-label="Keepsake, photos"><img src="/icon.svg" alt="" width="28" height="28" /><span>Keepsake</span></a>
      <nav class="views" aria-label="Views">
        ${(org ? LINKS : LINKS.filter(([text]) => text === 'Events')).map(([text, href, names]) => html`<a key=${href} href=${href} aria-current=${names.includes(shown) ? 'page' : undefined}>${text}</a>`)}
        ${me.platform_admin && html`<a href="#audit" aria-current=${shown === 'audit' ? 'page' : undefined}>Audit</a>`}
      </nav>
      <label class="organization" for="organization" hidden=${organizations.length < 2}><span class="visually-hidden">Group</span>
        <select id="organization" value=${org?.org_id} onChange=${(event) => onSwitch(organizations.find((o) => o.org_id === event.target.value))}>
          ${organizations.map((o) => html`<option key=${o.org_id} value=${o.org_id} selected=${o === org}>${o.name}</option>`)}
        </select>
      </label>
      <span class="spring"></span>
      ${hasOutbox && html`<a class="icon-button outbox-link" href="#outbox" aria-label="Outbox of the demo" aria-current=${['outbox', 'mail'].includes(shown) ? 'page' : undefined}><${Icon} name="mail" /></a>`}
      <button id="devices" class="who-avatar" type="button" aria-label="Where you are signed in" onClick=${showDevices}><${Avatar} name=${name} /></button>
      <a class="who-link" href="#my-data" aria-label=${`${name}: your data`} aria-current=${['my-data', 'my-account'].includes(shown) ? 'page' : undefined}>
        <span class="who">${name}</span>
      </a>
      <button id="sign-out" class="button quiet" type="button" aria-label="Sign out" onClick=${onSignOut}><span class="wide-only">Sign out</span><span class="narrow-only"><${Icon} name="leave" /></span></button>
    </header>
    <${Connection} />`
}

/** The only place that speaks of a missing connection. */
function Connection() {
  const isUp = useOnline()
  return html`<div role="status">${!isUp && html`<p class="connection">There is no connection. Uploads and what you see continue by themselves when it is back.</p>`}</div>`
}
