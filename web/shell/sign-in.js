import { signIn } from '../lib/api.js'
import { html, useEffect, useRef, useState } from '../lib/html.js'
import { Avatar, Problem } from '../lib/parts.js'
import { announce } from '../lib/toast.js'

const KEY = 'keepsake.key'
const ANSWER_MS = 20_000

/** The key of the demo's link, which shows the accounts. It is a credential, so it must not stay in the address. */
export const keepKey = (key) => sessionStorage.setItem(KEY, key)
export const demoKey = () => sessionStorage.getItem(KEY)

/** The accounts of the demo and whether it shows mails, `{accounts, hasOutbox}`, for a person who came by its link. */
export async function loadDirectory() {
  const headers = { 'X-Page-Key': demoKey() ?? '' }
  const response = await fetch('/directory', { headers, signal: AbortSignal.timeout(ANSWER_MS) }).catch(() => undefined)
  const { accounts = [], has_outbox: hasOutbox = false } = response?.ok ? await response.json() : {}
  return { accounts, hasOutbox }
}

/** After `signOut()` has ended the sessions of all devices. */
export const SIGNED_OUT_EVERYWHERE = 'You are signed out on all your devices: the sign-in service cannot end one alone.'

export const SESSION_ENDED = 'Your session has ended. Sign in again.'

/** Asks for an account, and calls `then()` when the person is signed in. `wanted` is signed in at once. */
export function SignIn({ accounts, wanted, then, isDemo = true, children }) {
  const first = wanted ?? accounts[0]
  const [email, setEmail] = useState(first?.email ?? '')
  const [password, setPassword] = useState(first?.password ?? '')
  const [problem, setProblem] = useState()
  const [isBusy, setBusy] = useState(false)
  const field = useRef()
  const choose = (account) => {
    setEmail(account.email)
    setPassword(account.password)
  }
  async function enter(event) {
    event?.preventDefault()
    setBusy(true)
    setProblem(undefined)
    try {
      await signIn(email, password)
      await then()
    } catch (error) {
      const isWrong = error.status === 401 || error.status === 400
      setProblem(isWrong ? 'The e-mail address or the password is wrong.' : error.message)
      setBusy(false)
      field.current?.focus()
    }
  }
  useEffect(() => {
    // What was said to the person before.
    announce('')
    if (wanted) void enter()
  }, [])
  return html`
    <form class="sign-in-form" novalidate onSubmit=${enter}>
      ${children}
      ${
        accounts.length > 0 &&
        html`
          <fieldset class="accounts">
            <legend>Sign in as</legend>
            <div class="account-list">
              ${accounts.map(
                (account) => html`
                  <button key=${account.email} type="button" class="account" aria-pressed=${String(account.email === email)} onClick=${() => choose(account)}>
                    <${Avatar} name=${account.name} /><span><strong>${account.name}</strong><span class="muted small">${account.label}</span></span>
                  </button>`,
              )}
            </div>
          </fieldset>`
      }
      <label class="field" for="email">E-mail
        <input id="email" name="email" type="email" autocomplete="username" required value=${email} onInput=${(event) => setEmail(event.target.value)} />
      </label>
      <label class="field" for="password">Password
        <input ref=${field} id="password" name="password" type="password" autocomplete="current-password" required value=${password} onInput=${(event) => setPassword(event.target.value)} />
      </label>
      <${Problem} text=${problem} />
      <button class="button primary wide" type="submit" disabled=${isBusy}>Sign in</button>
      ${accounts.length === 0 && isDemo && html`<p class="muted small">${hint()}</p>`}
    </form>`
}

/** A key that shows no accounts is of an earlier start: every start makes a new one. */
const hint = () =>
  demoKey()
    ? html`This link is from an earlier start of the demo. The terminal in which it runs shows the present one.`
    : html`The accounts of this machine are in <code>demo.json</code>.`
