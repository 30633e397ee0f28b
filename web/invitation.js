import { call, isSignedIn, signOut } from './client.js'
import { $, announce, avatar } from './dom.js'
import { answerProblem, lookUpProblem, mayRepeat, outcomeWords, slugOf } from './invitation-words.js'
import { loadAccounts, onSignIn } from './sign-in.js'
import { linkToEvent } from './views.js'

/**
 * The page of an invitation link. What it keeps is for this tab: the token, an answer that is on its way, and what became
 * of it. An answer is stored before it is sent, so a reload or a second click repeats the same request.
 */
const slug = slugOf(location.pathname)
const KEPT = `keepsake.invitation.${slug}`
const PANELS = ['loading', 'sign-in-form', 'answer', 'result']

let shown
let me

const kept = () => JSON.parse(sessionStorage.getItem(KEPT) ?? '{}')
const keep = (changes) => sessionStorage.setItem(KEPT, JSON.stringify({ ...kept(), ...changes }))

function show(panel) {
  for (const id of PANELS) $(id).hidden = id !== panel
}

async function start() {
  show('loading')
  try {
    const { token } = kept()
    const headers = token ? { 'X-Invitation-Token': token } : {}
    shown = await call('GET', `/api/invitations/by-slug/${encodeURIComponent(slug)}`, undefined, undefined, headers)
  } catch (error) {
    // The session of this tab has ended; it is not needed to see the invitation.
    if (error.status === 401 && !isSignedIn()) return start()
    return showResult(lookUpProblem(error), start)
  }
  $('from').textContent = shown.host_name ? `${shown.host_name} invites you to` : 'You are invited to'
  $('title').textContent = shown.title
  $('message').textContent = shown.message ?? ''
  $('message').hidden = !shown.message
  document.title = `${shown.title} · Keepsake`
  await next()
}

/** The step that is due: sign in, answer, or see what became of the answer. */
async function next() {
  if (!isSignedIn()) return showSignIn()
  try {
    me = await call('GET', '/api/users/me')
  } catch (error) {
    return error.status === 401 ? showSignIn() : showResult(answerProblem(error, {}), next)
  }
  const { outcome, attempt } = kept()
  if (outcome?.user === me.user_id) return showOutcome(outcome)
  if (attempt?.user === me.user_id) return send()
  showAnswer()
}

function showSignIn() {
  show('sign-in-form')
}

const nameOf = ({ display_name, email }) => display_name ?? email ?? 'a member without a name'

function showAnswer() {
  $('as').replaceChildren(avatar(nameOf(me)))
  $('as-name').textContent = nameOf(me)
  show('answer')
}

/** Stores an answer with its key, and sends it. */
function answer(response) {
  const message = $('answer-message').value.trim()
  keep({ attempt: { key: crypto.randomUUID(), user: me.user_id, body: { response, ...(message && { message }) } } })
  return send()
}

let sending
/** One request at a time, however often a button is pressed. */
function send() {
  sending ??= sendOnce().finally(() => {
    sending = undefined
  })
  return sending
}

async function sendOnce() {
  const { token, attempt } = kept()
  for (const id of ['accept', 'decline']) $(id).disabled = true
  try {
    const path = `/api/invitations/${shown.invitation_id}/respond`
    const { status, event_id } = await call('POST', path, { ...attempt.body, ...(token && { token }) }, attempt.key)
    const outcome = { status, event_id, user: me.user_id }
    keep({ outcome, attempt: undefined, token: undefined })
    showOutcome(outcome)
  } catch (error) {
    if (error.status === 401) return showSignIn()
    if (!mayRepeat(error)) keep({ attempt: undefined })
    showResult(answerProblem(error, { name: nameOf(me), host: shown.host_name }), mayRepeat(error) ? send : next)
  } finally {
    for (const id of ['accept', 'decline']) $(id).disabled = false
  }
}

function showOutcome({ status, event_id }) {
  const isMember = status === 'accepted' || me.organizations.length > 0
  const words = outcomeWords(status, { title: shown.title, host: shown.host_name })
  showResult({ ...words, does: isMember ? 'open' : undefined, isGood: status === 'accepted' })
  $('open').href = status === 'accepted' ? linkToEvent(event_id) : '/#events'
  $('open').textContent = status === 'accepted' ? 'See the event' : 'Open Keepsake'
}

function showResult({ title, text, does, isGood }, retry) {
  $('result').dataset.good = String(Boolean(isGood))
  $('result-title').textContent = title
  $('result-text').textContent = text
  $('open').href = '/#events'
  $('open').textContent = 'Open Keepsake'
  for (const action of ['retry', 'switch', 'open']) $(action).hidden = action !== does
  $('retry').onclick = () => void retry()
  show('result')
  announce(`${title}. ${text}`)
}

async function useAnother() {
  await signOut()
  keep({ attempt: undefined })
  showSignIn()
}

onSignIn(next)
for (const response of ['accept', 'decline']) $(response).addEventListener('click', () => void answer(response))
for (const id of ['switch', 'switch-account']) $(id).addEventListener('click', () => void useAnother())

await Promise.all([loadAccounts(), start()])
