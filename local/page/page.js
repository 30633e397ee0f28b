import { isSignedIn, signIn, signOut } from './client.js'
import { $ } from './dom.js'
import { closeLibrary, openLibrary, play } from './library.js'
import { hue } from './words.js'
import './upload-list.js'

let directory = { accounts: [], organizations: [] }

const hash = new URLSearchParams(location.hash.slice(1))
if (hash.has('key')) {
  sessionStorage.setItem('keepsake.key', hash.get('key'))
  history.replaceState(null, '', location.pathname) // the key is a credential: not in the history
}

async function loadDirectory() {
  const key = sessionStorage.getItem('keepsake.key') ?? ''
  const response = await fetch('/directory', { headers: { 'X-Page-Key': key } })
  if (response.ok) directory = await response.json()
  $('accounts').hidden = directory.accounts.length === 0
  $('accounts-hint').hidden = directory.accounts.length > 0
  $('account-list').replaceChildren(...directory.accounts.map(accountButton))
  if (directory.accounts[0]) choose(directory.accounts[0])
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
    await openLibrary(directory, showSignIn)
  } catch (error) {
    const wrong = error.status === 401 || error.status === 400
    $('sign-in-error').textContent = wrong ? 'The e-mail address or the password is wrong.' : error.message
    $('sign-in-error').hidden = false
    $('password').focus()
  } finally {
    button.disabled = false
  }
}

function showSignIn() {
  closeLibrary()
  for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close()
  $('sign-in').hidden = false
  $('email').focus()
}

$('sign-in-form').addEventListener('submit', (event) => {
  event.preventDefault()
  void enter($('email').value, $('password').value)
})
$('sign-out').addEventListener('click', async () => {
  await signOut()
  showSignIn()
})

await loadDirectory()
const wanted = directory.accounts.find((a) => a.label.toLowerCase().startsWith(hash.get('account') ?? '-'))
if (isSignedIn()) await openLibrary(directory, showSignIn).catch(showSignIn)
else if (wanted) await enter(wanted.email, wanted.password)
else showSignIn()
if (hash.has('media')) play(hash.get('media'))
