import { call, isSignedIn, signOut } from './lib/api.js'
import { html, render } from './lib/html.js'
import { Wait } from './lib/parts.js'
import { onSessionElsewhere } from './lib/session.js'
import { App } from './shell/app.js'
import { keepKey, loadDirectory } from './shell/sign-in.js'
import { withoutKey } from './shell/views.js'

const show = (view) => render(view, document.getElementById('app'))
const hash = new URLSearchParams(location.hash.slice(1))
if (hash.has('key')) keepKey(hash.get('key'))
// The key is a credential: not in the history. The viewer adds the media item again when it opens it.
if (hash.has('key') || hash.has('media')) history.replaceState(null, '', location.pathname + withoutKey(location.hash))

onSessionElsewhere(() => location.reload())
show(html`<${Wait} />`)
const { accounts, hasOutbox } = await loadDirectory()
const wanted = accounts.find((a) => a.label.toLowerCase().startsWith(hash.get('account') ?? '-'))
let before = isSignedIn() ? await call('GET', '/api/users/me').catch(() => undefined) : undefined
if (before && wanted && before.email !== wanted.email) {
  await signOut()
  before = undefined
}
show(
  html`<${App} accounts=${accounts} hasOutbox=${hasOutbox} wanted=${wanted} before=${before} media=${hash.get('media')} />`,
)
