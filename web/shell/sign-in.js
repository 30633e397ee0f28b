import { completeSignIn, signIn } from '../lib/api.js'
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

/** What a second factor is sent with, where the API asks for one. Not every identity provider lets it be sent here. */
const challengeOf = ({ code, details }) =>
  code === 'MFA_REQUIRED' ? details?.find(({ challenge_id }) => challenge_id)?.challenge_id : undefined

/**
 * Asks for an account, and for a code where it has a second factor. Calls `then()` when the person is signed in. `wanted` is
 * signed in at once.
 */
export function SignIn({ accounts, wanted, then, isDemo = true, children }) {
  const first = wanted ?? accounts[0]
  const [email, setEmail] = useState(first?.email ?? '')
  const [password, setPassword] = useState(first?.password ?? '')
  const [challenge, setChallenge] = useState()
  const [code, setCode] = useState('')
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
      await (challenge ? completeSignIn(challenge, code) : signIn(email, password))
      await then()
    } catch (error) {
      const next = challengeOf(error)
      if (next) setChallenge(next)
      else setProblem(wordsOf(error, challenge))
      setCode('')
      setBusy(false)
      field.current?.focus()
    }
  }
  function startOver() {
    setChallenge(undefined)
    setCode('')
    setProblem(undefined)
  }
  useEffect(() => {
    // What was said to the person before.
    announce('')
    if (wanted) void enter()
  }, [])
  useEffect(() => {
    if (challenge) field.current?.focus()
  }, [challenge])
  if (challenge)
    return html`
      <form class="sign-in-form" novalidate onSubmit=${enter}>
        ${children}
        <p>Your account has a second factor.</p>
        <label class="field" for="code">Code
          <input ref=${field} id="code" name="code" autocomplete="one-time-code" autocapitalize="none" spellcheck="false" maxlength="64" required value=${code} onInput=${(event) => setCode(event.target.value)} />
        </label>
        <${Problem} text=${problem} />
        <button class="button primary wide" type="submit" disabled=${isBusy}>Sign in</button>
        <button class="button quiet wide" type="button" disabled=${isBusy} onClick=${startOver}>Start over</button>
      </form>`
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

function wordsOf(error, challenge) {
  if (error.status !== 401 && error.status !== 400) return error.message
  return challenge
    ? 'The code is wrong, or the time to enter it is over.'
    : 'The e-mail address or the password is wrong.'
}

/** A key that shows no accounts is of an earlier start: every start makes a new one. */
const hint = () =>
  demoKey()
    ? html`This link is from an earlier start of the demo. The terminal in which it runs shows the present one.`
    : html`The accounts of this machine are in <code>demo.json</code>.`
