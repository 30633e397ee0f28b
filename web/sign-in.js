import { signIn } from './client.js'
import { $, avatar } from './dom.js'

const KEY = 'keepsake.key'

/** The key of the demo's link, which shows the accounts. It is a credential, so it must not stay in the address. */
export const demoKey = () => sessionStorage.getItem(KEY)

/** Fills the form with the accounts of the demo, for a person who came by its link, and returns them. */
export async function loadAccounts() {
  const response = await fetch('/directory', { headers: { 'X-Page-Key': demoKey() ?? '' } })
  const { accounts } = response.ok ? await response.json() : { accounts: [] }
  $('accounts').hidden = accounts.length === 0
  $('accounts-hint').hidden = accounts.length > 0
  $('account-list').replaceChildren(...accounts.map(accountButton))
  if (accounts[0]) choose(accounts[0])
  return accounts
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

/** Signs in and continues with `then`; what goes wrong is said in the form. */
export async function enter({ email, password }, then) {
  const button = $('sign-in-form').querySelector('[type=submit]')
  button.disabled = true
  $('sign-in-error').hidden = true
  try {
    await signIn(email, password)
    await then()
  } catch (error) {
    const wrong = error.status === 401 || error.status === 400
    $('sign-in-error').textContent = wrong ? 'The e-mail address or the password is wrong.' : error.message
    $('sign-in-error').hidden = false
    $('password').focus()
  } finally {
    button.disabled = false
  }
}

export function onSignIn(then) {
  $('sign-in-form').addEventListener('submit', (event) => {
    event.preventDefault()
    void enter({ email: $('email').value, password: $('password').value }, then)
  })
}
