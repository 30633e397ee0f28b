import { call, isSignedIn, signOut } from './lib/api.js'
import { html, render } from './lib/html.js'
import { Problem, Wait } from './lib/parts.js'
import { poll } from './lib/poll.js'
import { onSessionElsewhere } from './lib/session.js'
import { toast } from './lib/toast.js'
import { App } from './shell/app.js'
import { keepKey, loadDirectory, SESSION_ENDED, SIGNED_OUT_EVERYWHERE } from './shell/sign-in.js'
import { withMedia, withoutKey } from './shell/views.js'

const show = (view) => render(view, document.getElementById('app'))
const hash = new URLSearchParams(location.hash.slice(1))
const media = hash.get('media')
const name = (fragment) => history.replaceState(null, '', location.pathname + fragment)
if (hash.has('key')) {
  keepKey(hash.get('key'))
  // The key is a credential: not in the history.
  name(media ? withMedia(location.hash, media) : withoutKey(location.hash))
}

/** Refusals of the API which say that signing in anew is what helps. What stands before it may refuse with others. */
const isSignedOut = ({ status, code }) => status === 401 || ([403, 404].includes(status) && code !== 'UNKNOWN')
const UNREACHABLE = 'Keepsake does not answer at the moment. This page opens by itself as soon as it does.'

/** The person who is signed in. Undefined once it is known that no one is; until then, the page tells what it waits for. */
const whoIsIt = () =>
  new Promise((resolve) => {
    const known = (me) => {
      asking.end()
      resolve(me)
    }
    const asking = poll({
      look: () => call('GET', '/api/users/me'),
      every: 0,
      found: known,
      failed(error) {
        if (isSignedOut(error) || !isSignedIn()) return known()
        show(html`<main class="sign-in"><div class="card"><${Problem} text=${UNREACHABLE} /></div></main>`)
      },
    })
  })

onSessionElsewhere(() => location.reload())
show(html`<${Wait} />`)
const { accounts, hasOutbox } = await loadDirectory()
const wanted = accounts.find((a) => a.label.toLowerCase().startsWith(hash.get('account') ?? '-'))
const wasSignedIn = isSignedIn()
let before = wasSignedIn ? await whoIsIt() : undefined
const notice = wasSignedIn && !before ? SESSION_ENDED : undefined
if (before && wanted && before.email !== wanted.email) {
  void signOut().then((isEverywhere) => isEverywhere && toast(SIGNED_OUT_EVERYWHERE))
  before = undefined
}
// The viewer adds the media item again when it opens it.
if (media) name(withoutKey(location.hash))
show(
  html`<${App} accounts=${accounts} hasOutbox=${hasOutbox} wanted=${wanted} before=${before} notice=${notice} media=${media} />`,
)
