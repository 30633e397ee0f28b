import { call, isSignedIn, signIn, signOut } from './client.js'
import { $, showProblem } from './dom.js'
import { closeLibrary, look, openById, openLibrary, showLibraryOf, showPhotos } from './library.js'
import { openTrash } from './trash.js'
import { forgetUploads } from './upload-memory.js'
import { endUploads, uploadTo } from './upload-list.js'
import { closeViewer } from './viewer.js'
import { hue } from './words.js'

let accounts = []
let organizations = []
let organization
/** How far the photos were scrolled when the trash was opened. */
let left = 0

const hash = new URLSearchParams(location.hash.slice(1))
if (hash.has('key')) {
  sessionStorage.setItem('keepsake.key', hash.get('key'))
  history.replaceState(null, '', location.pathname) // the key is a credential: not in the history
}

async function loadAccounts() {
  const key = sessionStorage.getItem('keepsake.key') ?? ''
  const response = await fetch('/directory', { headers: { 'X-Page-Key': key } })
  if (response.ok) accounts = (await response.json()).accounts
  $('accounts').hidden = accounts.length === 0
  $('accounts-hint').hidden = accounts.length > 0
  $('account-list').replaceChildren(...accounts.map(accountButton))
  if (accounts[0]) choose(accounts[0])
}

function avatar(name) {
  const initial = Object.assign(document.createElement('span'), { className: 'avatar', textContent: name[0] })
  initial.style.setProperty('--hue', hue(name))
  initial.ariaHidden = 'true'
  return initial
}

function accountButton(account) {
  const button = Object.assign(document.createElement('button'), { type: 'button', className: 'account' })
  const text = document.createElement('span')
  const name = Object.assign(document.createElement('strong'), { textContent: account.name })
  text.append(name, Object.assign(document.createElement('span'), { className: 'muted small', textContent: account.label }))
  button.append(avatar(account.name), text)
  button.dataset.email = account.email
  button.addEventListener('click', () => choose(account))
  return button
}

function choose(account) {
  $('email').value = account.email
  $('password').value = account.password
  for (const b of $('account-list').children) b.ariaPressed = String(b.dataset.email === account.email)
}

async function enter(email, password) {
  const button = $('sign-in-form').querySelector('[type=submit]')
  button.disabled = true
  $('sign-in-error').hidden = true
  try {
    await signIn(email, password)
    await open()
  } catch (error) {
    const wrong = error.status === 401 || error.status === 400
    $('sign-in-error').textContent = wrong ? 'The e-mail address or the password is wrong.' : error.message
    $('sign-in-error').hidden = false
    $('password').focus()
  } finally {
    button.disabled = false
  }
}

/** The person's groups come from the API; nothing about them is known to the page. */
async function open() {
  const me = await call('GET', '/api/users/me')
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
  organization = chosen
  $('organization').value = chosen.org_id
  for (const id of ['organization-name', 'drop-name']) $(id).textContent = chosen.name
  uploadTo(chosen)
  left = 0
  scrollTo({ top: 0 })
  await Promise.all([showLibraryOf(chosen), showView()])
}

/** `#trash` is the trash, everything else the photos. */
async function showView() {
  const isTrash = location.hash === '#trash'
  const changed = $('trash').hidden === isTrash
  if (changed && isTrash) left = scrollY
  $('photos').hidden = isTrash
  $('trash').hidden = !isTrash
  for (const [id, isHere] of [['to-photos', !isTrash], ['to-trash', isTrash]]) {
    if (isHere) $(id).setAttribute('aria-current', 'page')
    else $(id).removeAttribute('aria-current')
  }
  // Undo belongs to the photos; the trash has a button for each.
  $('toast').hidden = true
  if (!organization) return
  if (isTrash && changed) scrollTo({ top: 0, behavior: 'instant' })
  if (isTrash) return openTrash(organization)
  if (!changed) return
  showPhotos()
  scrollTo({ top: left, behavior: 'instant' })
  await look()
}

function showSignIn() {
  closeViewer()
  closeLibrary()
  organization = undefined
  $('library').hidden = true
  $('sign-in').hidden = false
  $('email').focus()
}

$('sign-in-form').addEventListener('submit', (event) => {
  event.preventDefault()
  void enter($('email').value, $('password').value)
})
$('sign-out').addEventListener('click', async () => {
  endUploads()
  forgetUploads()
  await signOut()
  history.replaceState(null, '', location.pathname)
  showSignIn()
})
$('organization').addEventListener('change', () => {
  void switchTo(organizations.find((o) => o.org_id === $('organization').value))
})
addEventListener('hashchange', () => void showView())

await loadAccounts()
const wanted = accounts.find((a) => a.label.toLowerCase().startsWith(hash.get('account') ?? '-'))
if (isSignedIn()) await open().catch(showSignIn)
else if (wanted) await enter(wanted.email, wanted.password)
else showSignIn()
if (hash.has('media') && organization) {
  history.replaceState(null, '', location.pathname)
  await openById(hash.get('media'))
}
