import { call, isSignedIn, signOut } from '../lib/api.js'
import { html, render, useEffect, useRef, useState } from '../lib/html.js'
import { Avatar } from '../lib/parts.js'
import { onSessionElsewhere, session } from '../lib/session.js'
import { announce } from '../lib/toast.js'
import { loadDirectory, SIGNED_OUT_EVERYWHERE, SignIn } from '../shell/sign-in.js'
import { linkToEvent } from '../shell/views.js'
import {
  answerProblem,
  ENDED,
  hasEnded,
  joinWords,
  lookUpProblem,
  mayRepeat,
  outcomeWords,
  RENEWED,
  slugOf,
  whenWords,
} from './words.js'

/**
 * The page of an invitation link. What it keeps is for this tab: the token, an answer that is on its way, and what became
 * of it. An answer is stored before it is sent, so a reload or a second click repeats the same request.
 */
const slug = slugOf(location.pathname)
const KEPT = `keepsake.invitation.${slug}`
const kept = () => JSON.parse(sessionStorage.getItem(KEPT) ?? '{}')
const keep = (changes) => sessionStorage.setItem(KEPT, JSON.stringify({ ...kept(), ...changes }))

/** What the API says of itself where it serves the page; the demo's page has the app beside it. */
const main = document.querySelector('main')
const INSTALLED = main.dataset.settings ? JSON.parse(main.dataset.settings) : undefined
const { canSignIn = true, joinOnAccept = true, stores = [] } = INSTALLED ?? {}
const ICON = new URL('../icon.svg', import.meta.url).pathname

/** Whether the session is the one of this person: another one may have signed in, in another tab. */
const isStill = (me) => session()?.id === me.session

const nameOf = ({ display_name, email }) => display_name ?? email ?? 'a member without a name'

function Landing({ accounts }) {
  const [shown, setShown] = useState()
  /** The step that is due: `{name: 'sign-in', isEverywhere}`, `{name: 'answer', me}` or `{name: 'result', …}`; none while it is found out. */
  const [step, setStep] = useState()
  const [text, setText] = useState('')
  const sending = useRef()
  const before = useRef()
  const part = useRef()

  async function start() {
    setStep(undefined)
    const { token } = kept()
    const more = token ? { headers: { 'X-Invitation-Token': token } } : {}
    let found
    try {
      found = await call('GET', `/api/invitations/by-slug/${encodeURIComponent(slug)}`, undefined, undefined, more)
    } catch (error) {
      // The session has ended; it is not needed to see the invitation.
      if (error.status === 401 && !isSignedIn()) return start()
      return tell({ ...lookUpProblem(error), retry: start })
    }
    setShown(found)
    if (hasEnded(token) && !found.start_at) return tell({ ...ENDED, does: 'renew' })
    document.title = `${found.title} · Keepsake`
    await next(found)
  }

  /** To sign in, to answer, or to see what became of the answer. */
  async function next(invitation) {
    if (!isSignedIn()) return setStep({ name: 'sign-in' })
    let me
    try {
      const { id } = session()
      me = { ...(await call('GET', '/api/users/me')), session: id }
    } catch (error) {
      if (error.status === 401) return setStep({ name: 'sign-in' })
      return tell({ ...answerProblem(error, {}), retry: () => next(invitation) })
    }
    if (!isStill(me)) return start()
    const { outcome, attempt } = kept()
    if (outcome?.user === me.user_id) return tellOutcome(invitation, me, outcome)
    if (attempt?.user === me.user_id) return send(invitation, me)
    setStep({ name: 'answer', me })
  }

  /** One request at a time, however often a button is pressed. */
  function send(invitation, me) {
    sending.current ??= sendOnce(invitation, me).finally(() => {
      sending.current = undefined
    })
    return sending.current
  }

  async function sendOnce(invitation, me) {
    // Not awaited: it may come back to this request, which is not over before.
    if (!isStill(me)) return void start()
    const { token, attempt } = kept()
    try {
      const path = `/api/invitations/${invitation.invitation_id}/respond`
      const { status, event_id, org_id } = await call(
        'POST',
        path,
        { ...attempt.body, ...(token && { token }) },
        attempt.key,
      )
      const outcome = { status, event_id, org_id, user: me.user_id }
      keep({ outcome, attempt: undefined, token: undefined })
      if (!isStill(me)) return start()
      tellOutcome(invitation, me, outcome)
    } catch (error) {
      refused(error, invitation, me)
    }
  }

  function refused(error, invitation, me) {
    if (!isStill(me)) return start()
    if (error.status === 401) return setStep({ name: 'sign-in' })
    const again = mayRepeat(error)
    if (!again) keep({ attempt: undefined })
    const words = answerProblem(error, { name: nameOf(me), host: invitation.host_name })
    tell({ ...words, retry: () => (again ? send : next)(invitation, me) })
  }

  function answer(me, response) {
    if (!isStill(me)) return start()
    const message = text.trim()
    // A second click sends what the first one has stored.
    if (!sending.current) {
      keep({ attempt: { key: crypto.randomUUID(), user: me.user_id, body: { response, ...(message && { message }) } } })
    }
    return send(shown, me)
  }

  function tellOutcome({ title, host_name: host }, me, { status, event_id, org_id }) {
    const isIn = status === 'accepted'
    // Without the group, as an earlier version answered and kept it, the page does not say that the person is a guest.
    const isMember = org_id === undefined || me.organizations.some((one) => one.org_id === org_id)
    const isGuest = !joinOnAccept && !isMember
    const open = isIn ? { href: linkToEvent(event_id), label: 'See the event' } : undefined
    tell({
      ...outcomeWords(status, { title, host }, isGuest),
      does: isIn || me.organizations.length > 0 ? 'open' : undefined,
      open,
    })
  }

  function tell(result) {
    setStep({ name: 'result', ...result })
    announce(`${result.title}. ${result.text}`)
  }

  /** The answer says nothing about the invitation. The link goes to the invited address alone. */
  async function renew() {
    try {
      await call('POST', `/api/invitations/by-slug/${encodeURIComponent(slug)}/renew`)
      tell(RENEWED)
    } catch (error) {
      tell({ ...lookUpProblem(error), does: 'renew' })
    }
  }

  async function useAnother() {
    const signedOut = signOut()
    keep({ attempt: undefined })
    setStep({ name: 'sign-in' })
    if (await signedOut) setStep((now) => (now?.name === 'sign-in' ? { ...now, isEverywhere: true } : now))
  }

  useEffect(() => {
    void start()
    onSessionElsewhere(() => {
      setText('')
      void start()
    })
  }, [])
  // What had the focus is gone with the step before.
  useEffect(() => {
    if (before.current && document.activeElement === document.body) part.current?.focus()
    before.current = step?.name
  }, [step?.name])
  return html`
    <article class="card">
      <header>
        <img class="mark" src=${ICON} alt="Keepsake" width="52" height="52" />
        <p id="from" class="muted">${shown?.host_name ? html`<bdi>${shown.host_name}</bdi> invites you to` : shown ? 'You are invited to' : 'An invitation'}</p>
        <h1 dir="auto">${shown?.title ?? 'Keepsake'}</h1>
        ${shown?.start_at && html`<p id="when">${whenWords(shown)}</p>`}
        ${shown?.location_name && html`<p id="where" dir="auto">${shown.location_name}</p>`}
        ${shown?.message && html`<p id="message" class="message" dir="auto">${shown.message}</p>`}
        ${shown && step?.name !== 'result' && html`<p id="joins" class="muted small">${joinWords(shown, joinOnAccept)}</p>`}
      </header>
      ${!step && html`<p class="muted">One moment…</p>`}
      ${step?.name === 'sign-in' && !canSignIn && html`<p class="muted">Open the link in the Keepsake app to answer.</p><${Stores} />`}
      ${step?.name === 'sign-in' && canSignIn && html`<${SignIn} accounts=${accounts} isDemo=${!INSTALLED} then=${start}>${step.isEverywhere && html`<p>${SIGNED_OUT_EVERYWHERE}</p>`}<p class="muted">Sign in to answer.</p><//>`}
      ${step?.name === 'answer' && html`<${Answer} ...${step} part=${part} text=${text} setText=${setText} onAnswer=${answer} onAnother=${useAnother} />`}
      ${step?.name === 'result' && html`<${Result} ...${step} part=${part} onAnother=${useAnother} onRenew=${renew} />`}
    </article>`
}

function Answer({ me, part, text, setText, onAnswer, onAnother }) {
  const [isBusy, setBusy] = useState(false)
  const answer = (response) => {
    setBusy(true)
    void onAnswer(me, response)
  }
  return html`
    <section ref=${part} tabindex="-1" aria-label="Your answer">
      <p class="answering">
        <${Avatar} name=${nameOf(me)} />
        <span class="answering-name"><span class="muted small">You answer as</span><strong id="as-name" dir="auto">${nameOf(me)}</strong></span>
        <button class="button quiet" type="button" onClick=${onAnother}>Not you?</button>
      </p>
      <label class="field"><span>A few words <span class="muted">(optional)</span></span>
        <textarea rows="2" maxlength="1000" dir="auto" value=${text} onInput=${(event) => setText(event.target.value)}></textarea>
      </label>
      <div class="answers">
        <button class="button primary" type="button" disabled=${isBusy} onClick=${() => answer('accept')}>Accept</button>
        <button class="button" type="button" disabled=${isBusy} onClick=${() => answer('decline')}>Decline</button>
      </div>
    </section>`
}

/** `does` names the button that helps: retry, switch (another account) or open (the app). */
function Result({
  title,
  text,
  does,
  retry,
  open = { href: '/#events', label: 'Open Keepsake' },
  part,
  onAnother,
  onRenew,
}) {
  return html`
    <section class="result" aria-labelledby="result-title">
      <h2 id="result-title" ref=${part} tabindex="-1">${title}</h2>
      <p id="result-text" class="muted">${text}</p>
      ${does === 'renew' && html`<button class="button primary wide" type="button" onClick=${onRenew}>Send a fresh link</button>`}
      ${does === 'open' && INSTALLED && html`<${Stores} />`}
      ${does === 'open' && !INSTALLED && html`<a class="button primary wide" href=${open.href}>${open.label}</a>`}
      ${does === 'retry' && html`<button class="button primary wide" type="button" onClick=${retry}>Try again</button>`}
      ${does === 'switch' && html`<button class="button primary wide" type="button" onClick=${onAnother}>Sign in as someone else</button>`}
    </section>`
}

const Stores = () => stores.map(({ name, url }) => html`<a key=${url} class="button wide" href=${url}>${name}</a>`)

const directory = INSTALLED ? { accounts: [] } : await loadDirectory()
render(html`<${Landing} ...${directory} />`, main)
