import { call, isSignedIn, signOut } from './client.js'
import { closeAlbum, openAlbum, openInAlbum } from './album-view.js'
import { closeAlbums, openAlbums } from './albums.js'
import { closeDialogs as closeNewDialogs } from './lib/dialogs.js'
import { html, render } from './lib/html.js'
import { onSessionElsewhere } from './lib/session.js'
import { hideToast } from './lib/toast.js'
import { closeDialogs } from './dialogs.js'
import { forgetUnsent } from './discussion.js'
import { $, avatar, showProblem } from './dom.js'
import { closeEvent, openEvent } from './event-view.js'
import { closeEvents, openEvents } from './events.js'
import { closeHighlight, openHighlight } from './highlight-view.js'
import { closeHighlights, openHighlights } from './highlights.js'
import { closeLibrary, look, openById, openLibrary, showLibraryOf, showPhotos } from './library.js'
import { enter, keepKey, loadAccounts, onSignIn } from './sign-in.js'
import { VIEWS } from './shell/registry.js'
import { forgetUploads } from './upload-memory.js'
import { endUploads, uploadTo } from './upload-list.js'
import { closeViewer } from './viewer.js'
import { viewOf, withoutKey } from './views.js'

let me
let organizations = []
let organization
/** The view that is shown. */
let shown = 'photos'
let shownId
/** How far the photos were scrolled when another view was opened. */
let left = 0

const hash = new URLSearchParams(location.hash.slice(1))
if (hash.has('key')) {
  keepKey(hash.get('key'))
  history.replaceState(null, '', location.pathname + withoutKey(location.hash)) // a credential: not in the history
}

/** The person's groups come from the API; nothing about them is known to the page. */
async function open() {
  me = await call('GET', '/api/users/me')
  organizations = me.organizations
  $('sign-in').hidden = true
  $('library').hidden = false
  $('who').textContent = me.display_name ?? me.email ?? ''
  $('who-avatar').replaceChildren(avatar(me.display_name ?? me.email ?? '?'))
  $('organization').replaceChildren(...organizations.map((o) => new Option(o.name, o.org_id)))
  $('organization-label').hidden = organizations.length < 2
  openLibrary(me, showSignIn)
  if (organizations[0]) await switchTo(organizations[0])
  else showProblem(new Error('You are not a member of any group yet.'))
}

async function switchTo(chosen) {
  left = 0
  scrollTo({ top: 0 })
  await Promise.all([adopt(chosen), showView()])
}

/** Makes a group the one whose photos are shown and where uploads go. */
function adopt(chosen) {
  organization = chosen
  $('organization').value = chosen.org_id
  for (const id of ['organization-name', 'drop-name']) $(id).textContent = chosen.name
  uploadTo(chosen)
  return showLibraryOf(chosen)
}

const SECTIONS = ['photos', 'albums', 'album', 'highlights', 'highlight', 'events', 'event']
const LINKS = {
  ...{ photos: 'to-photos', trash: 'to-trash', events: 'to-events', event: 'to-events' },
  ...{ albums: 'to-albums', album: 'to-albums', highlights: 'to-highlights', highlight: 'to-highlights' },
}

const LISTS = { events: openEvents, albums: openAlbums, highlights: openHighlights }
const ONES = { album: openAlbum, event: openEvent, highlight: openHighlight }

/** Shows the view that the address names. */
async function showView() {
  const { name, id } = viewOf(location.hash)
  const changed = name !== shown
  if (changed && shown === 'photos') left = scrollY
  shown = name
  shownId = id
  mark(name)
  // Undo belongs to the photos; the trash has a button for each.
  hideToast()
  closeDialogs()
  closeNewDialogs()
  closeLists()
  if (!organization) return
  if (name === 'photos') {
    draw()
    return changed && backToPhotos()
  }
  if (changed) scrollTo({ top: 0, behavior: 'instant' })
  draw(name, id)
  if (VIEWS[name]) return
  if (LISTS[name]) return LISTS[name](organization, me)
  await ONES[name](id, { me, organizations, first: organization, onFound: followTo })
}

/** Shows a view of the registry, or none. One view at a time: another one, or another group, begins anew. */
function draw(name, id) {
  const View = VIEWS[name]
  $('view').hidden = !View
  const given = { org: organization, me, organizations, id, onFound: followTo }
  render(View && organization ? html`<${View} key=${[name, id, !id && organization.org_id].join()} ...${given} />` : null, $('view'))
}

/** Answers that are on their way belong to no view any more. */
function closeLists() {
  for (const close of [closeAlbums, closeAlbum, closeHighlights, closeHighlight, closeEvents, closeEvent]) close()
}

function mark(name) {
  document.title = 'Keepsake'
  for (const section of SECTIONS) $(section).hidden = section !== name
  for (const link of Object.values(LINKS)) $(link).removeAttribute('aria-current')
  $(LINKS[name]).setAttribute('aria-current', 'page')
}

async function backToPhotos() {
  showPhotos()
  scrollTo({ top: left, behavior: 'instant' })
  await look()
}

/** The event or album of a link may belong to another group of the person. */
function followTo(found) {
  if (found === organization) return
  left = 0
  void adopt(found)
}

function showSignIn() {
  closeViewer()
  closeLibrary()
  closeDialogs()
  closeLists()
  forgetUnsent()
  organization = undefined
  draw()
  $('library').hidden = true
  $('sign-in').hidden = false
  $('email').focus()
}

onSignIn(open)
$('sign-out').addEventListener('click', async () => {
  endUploads()
  forgetUploads()
  await signOut()
  history.replaceState(null, '', location.pathname)
  showSignIn()
})
$('organization').addEventListener('change', () => {
  // An event and an album belong to one group; another group has others.
  if (shownId) history.replaceState(null, '', `#${shown}s`)
  void switchTo(organizations.find((o) => o.org_id === $('organization').value))
})
onSessionElsewhere(() => location.reload())
addEventListener('hashchange', () => {
  // The viewer adds a media item to the address of the view below it.
  const { name, id } = viewOf(location.hash)
  if (name !== shown || id !== shownId) void showView()
})

const accounts = await loadAccounts()
const wanted = accounts.find((a) => a.label.toLowerCase().startsWith(hash.get('account') ?? '-'))
if (isSignedIn()) await open().catch(showSignIn)
else if (wanted) await enter(wanted, open)
else showSignIn()
if (hash.has('media') && organization) {
  history.replaceState(null, '', location.pathname + withoutKey(location.hash))
  if (!openInAlbum(hash.get('media'))) await openById(hash.get('media'))
}
