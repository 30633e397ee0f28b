import { forgetUnsent } from './discussions/drafts.js'
import { call, isSignedIn, signOut } from './lib/api.js'
import { closeDialogs } from './lib/dialogs.js'
import { html, render } from './lib/html.js'
import { Problem } from './lib/parts.js'
import { onSessionElsewhere } from './lib/session.js'
import { hideToast } from './lib/toast.js'
import { openById } from './library/open.js'
import { forgetLibrary, libraryOf } from './library/store.js'
import { Bar } from './shell/frame.js'
import { VIEWS } from './shell/registry.js'
import { keepKey, loadAccounts, SignIn } from './shell/sign-in.js'
import { viewOf, withoutKey } from './shell/views.js'
import { forgetUploads } from './uploads/memory.js'
import { endUploads, Uploads, uploadTo } from './uploads/uploads.js'
import { closeViewer } from './viewer/viewer.js'

const $ = (id) => document.getElementById(id)
/** Who is signed in, which of their groups is shown, and which view of it. */
let me
let organizations = []
let organization
let shown
let shownId
let accounts = []

const hash = new URLSearchParams(location.hash.slice(1))
/** The media item that the address named at the start. */
let named = hash.get('media')
if (hash.has('key')) keepKey(hash.get('key'))
// The key is a credential: not in the history. The viewer adds the media item again when it opens it.
if (hash.has('key') || named) history.replaceState(null, '', location.pathname + withoutKey(location.hash))

/** The person's groups come from the API; nothing about them is known to the page. */
async function open() {
  me = await call('GET', '/api/users/me')
  organizations = me.organizations
  render(null, $('sign-in'))
  $('sign-in').hidden = true
  $('library').hidden = false
  if (organizations[0]) {
    switchTo(organizations[0])
    if (shown !== 'album') openNamed()
  } else {
    drawFrame()
    render(html`<${Problem} class="banner" text="You are not a member of any group yet." />`, $('view'))
  }
}

function drawFrame() {
  const given = { me, organizations, org: organization, shown, onSwitch, onSignOut: leave }
  render(me && html`<${Bar} ...${given} />`, $('frame'))
  render(me && organization && html`<${Uploads} name=${organization.name} />`, $('uploads-root'))
}

function switchTo(chosen) {
  scrollTo({ top: 0 })
  adopt(chosen)
  showView()
}

/** Makes a group the one whose photos are shown and where uploads go. */
function adopt(chosen) {
  organization = chosen
  uploadTo(chosen, () => document.dispatchEvent(new Event('visibilitychange')))
  drawFrame()
}


/** Shows the view that the address names. */
function showView() {
  const { name, id } = viewOf(location.hash)
  const isOther = name !== shown
  if (isOther && shown === 'photos' && organization) libraryOf(organization).scroll = scrollY
  shown = name
  shownId = id
  document.title = 'Keepsake'
  hideToast()
  closeDialogs()
  if (!organization) return
  drawFrame()
  if (isOther) scrollTo({ top: 0, behavior: 'instant' })
  draw(name, id)
}

/** Shows a view of the registry, or none. One view at a time: another one, or another group, begins anew. */
function draw(name, id) {
  const View = VIEWS[name]
  const given = { org: organization, me, organizations, id, onFound: followTo, onOpened: openNamed }
  const key = [name, id, !id && organization?.org_id].join()
  render(View && organization ? html`<${View} key=${key} ...${given} />` : null, $('view'))
}

/** Opens what the address named at the start: in the view, which `find` and `open` are of, or else in the library. */
function openNamed(find, open) {
  const id = named
  named = undefined
  if (id && find?.(id)) open(id)
  else if (id) void openById(libraryOf(organization), id)
}

/** The event or album of a link may belong to another group of the person. */
function followTo(found) {
  if (found !== organization) adopt(found)
}

function onSwitch(chosen) {
  // An event and an album belong to one group; another group has others.
  if (shownId) history.replaceState(null, '', `#${shown}s`)
  switchTo(chosen)
}

function showSignIn(wanted) {
  closeViewer()
  forgetLibrary()
  closeDialogs()
  forgetUnsent()
  me = undefined
  organization = undefined
  draw()
  drawFrame()
  $('library').hidden = true
  $('sign-in').hidden = false
  const head = html`<img class="mark" src="/icon.svg" alt="" width="52" height="52" /><h1>Keepsake</h1><p class="muted">Share photos and videos with your group.</p>`
  render(html`<div class="card"><${SignIn} accounts=${accounts} wanted=${wanted} then=${open}>${head}<//></div>`, $('sign-in'))
}

async function leave() {
  endUploads()
  forgetUploads()
  await signOut()
  history.replaceState(null, '', location.pathname)
  showSignIn()
}

onSessionElsewhere(() => location.reload())
// A session that has ended: another request than those of the start found out.
addEventListener('keepsake:signed-out', () => me && showSignIn())
addEventListener('hashchange', () => {
  // The viewer adds a media item to the address of the view below it.
  const { name, id } = viewOf(location.hash)
  if (name !== shown || id !== shownId) showView()
})

accounts = await loadAccounts()
const wanted = accounts.find((a) => a.label.toLowerCase().startsWith(hash.get('account') ?? '-'))
if (isSignedIn()) await open().catch(() => showSignIn())
// The link of the demo names an account, which may be another one than that of the last visit.
if (wanted && me?.email !== wanted.email) {
  if (isSignedIn()) await signOut()
  showSignIn(wanted)
} else if (!me) showSignIn()
