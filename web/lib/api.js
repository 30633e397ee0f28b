import { setOnline } from './connection.js'
import { alone, keep, keepRefreshed, latest, session } from './session.js'

/** An error answer of the API. `code` is stable, see the API's documentation. */
export class Refusal extends Error {
  constructor(status, code, message, { retryAfter, details } = {}) {
    super(message)
    Object.assign(this, { status, code, retryAfter, details })
  }
}

export const offline = () => {
  setOnline(false)
  return new Refusal(0, 'OFFLINE', 'There is no connection.')
}

/** Where the API is: a page that it serves itself says so. */
const settings = globalThis.document?.querySelector?.('main')?.dataset?.settings
const BASE = settings ? JSON.parse(settings).api : '/v1'

/** How long an answer may take. What is never answered would hold all that waits for it. */
const ANSWER_MS = 60_000
/** A renewal holds every tab of the browser. Its repeat may have the same refresh token. */
const RENEWAL_MS = 20_000

export const isSignedIn = () => session() !== null

async function refusalOf(response) {
  return refusalFrom(response.status, await response.json().catch(() => ({})))
}

/** The error of an answer whose body has been parsed. */
export function refusalFrom(status, body) {
  const { code = 'UNKNOWN', message = `The platform answered ${status}`, retry_after, details } = body?.error ?? {}
  return new Refusal(status, code, message, { retryAfter: retry_after, details })
}

/** The body of an answer, which may be lost, or take too long, as the answer may. */
const bodyOf = (response) =>
  response.json().catch((error) => {
    throw error instanceof SyntaxError ? error : offline()
  })

/** `as` is the session whose tokens go with the request. With `keepalive`, it outlives the page. */
async function send(
  method,
  path,
  body,
  { key = crypto.randomUUID(), headers: more, answerMs = ANSWER_MS, as = session(), keepalive = false } = {},
) {
  const { id, access } = as ?? {}
  const headers = {
    ...more,
    ...(access && { Authorization: `Bearer ${access}` }),
    ...(body && { 'Content-Type': 'application/json' }),
    // A request that is repeated after a lost answer must take effect once.
    ...(method === 'POST' && { 'Idempotency-Key': key }),
  }
  try {
    const response = await fetch(`${BASE}${path}`, {
      method,
      headers,
      body: body && JSON.stringify(body),
      cache: 'no-cache',
      keepalive,
      signal: AbortSignal.timeout(answerMs),
    })
    setOnline(true)
    return { response, id, access }
  } catch {
    throw offline()
  }
}

/** Answers of the API to a refresh that say that the token is of no use any more. */
const USELESS = ['UNAUTHORIZED', 'NOT_FOUND', 'MFA_REQUIRED', 'VALIDATION_ERROR']
/** What stands before the API may answer as well, with statuses that say nothing about the token. */
const isUseless = ({ status, code }) => status < 500 && USELESS.includes(code)

let renewal

/** Gets new tokens unless another request or tab already did: `access` is the token that was refused. */
export function renew(access = session()?.access) {
  renewal ??= alone(async () => {
    const before = await latest()
    if (!before || before.access !== access) return
    const { response } = await send(
      'POST',
      '/api/auth/refresh',
      { refresh_token: before.refresh },
      { answerMs: RENEWAL_MS },
    )
    // Signed out or in again in another tab while the answer was on its way.
    if (session()?.id !== before.id) return
    if (response.ok) return keepRefreshed((await bodyOf(response)).data, before.id)
    const refusal = await refusalOf(response)
    if (isUseless(refusal) && session()?.id === before.id) {
      keep(null)
      dispatchEvent(new Event('keepsake:signed-out'))
    }
    // As an answer to the request itself, a 404 would say that what was asked for does not exist.
    const isForeign = refusal.code === 'UNKNOWN' && !isUseless(refusal)
    throw isForeign ? new Refusal(503, 'AUTH_UNAVAILABLE', refusal.message) : refusal
  }).finally(() => {
    renewal = undefined
  })
  return renewal
}

/**
 * Returns the `data` of the answer. Throws Refusal. Refreshes an expired access token; what one session has sent is not
 * repeated in another one. `key` is the Idempotency-Key of a request that may have to be repeated later. `more` may have
 * further `headers`, and the time `answerMs` that the answer may take.
 */
export async function call(method, path, body, key = crypto.randomUUID(), more = {}) {
  let { response, id, access } = await send(method, path, body, { ...more, key })
  if (response.status === 401 && access) {
    await renew(access)
    if (session()?.id === id) ({ response } = await send(method, path, body, { ...more, key }))
  }
  if (!response.ok) throw await refusalOf(response)
  return response.status === 204 ? undefined : (await bodyOf(response)).data
}

/**
 * Sends a GET with the token of the person, and once more with a new one if that has expired. With a `signal`, the caller
 * says how long the answer may take.
 */
async function get(path, { headers, signal }) {
  const ask = () => {
    const access = session()?.access
    const token = access && { Authorization: `Bearer ${access}` }
    return fetch(`/v1${path}`, {
      cache: 'no-store',
      headers: { ...headers, ...token },
      signal: signal ?? AbortSignal.timeout(ANSWER_MS),
    }).then(
      (response) => ({ response, access }),
      () => {
        throw signal?.aborted ? signal.reason : offline()
      },
    )
  }
  const first = await ask()
  if (first.response.status !== 401 || !first.access) return first.response
  await renew(first.access)
  return (await ask()).response
}

/** The answer to a GET whose body is read while it arrives. Throws Refusal; also when the answer is no stream of events. */
export async function openStream(path, { headers, signal }) {
  const response = await get(path, { headers: { ...headers, Accept: 'text/event-stream' }, signal })
  if (!response.ok) throw await refusalOf(response)
  setOnline(true)
  if (response.headers.get('content-type')?.startsWith('text/event-stream')) return response
  throw new Refusal(response.status, 'UNKNOWN', 'The platform answered with something else')
}

/** `{etag, data}`; without `data` if the answer is still the one that `etag` names. Throws Refusal. */
export async function callIfChanged(path, etag) {
  const response = await get(path, { headers: etag ? { 'If-None-Match': etag } : {} })
  if (response.status === 304) return { etag }
  if (!response.ok) throw await refusalOf(response)
  return { etag: response.headers.get('etag') ?? undefined, data: (await bodyOf(response)).data }
}

/** Repeats what was too often once the API allows it again. For work of many requests. */
export async function patiently(request) {
  for (;;) {
    try {
      return await request()
    } catch (error) {
      if (error.status !== 429) throw error
      await new Promise((resolve) => setTimeout(resolve, (error.retryAfter ?? 1) * 1000))
    }
  }
}

export const accessToken = () => session()?.access

/** Signed links name the API's address; through the page's own origin they need no CORS. */
export const link = (url) => (url ? new URL(url).pathname + new URL(url).search : null)

const BROWSERS = [
  ['Edg/', 'Edge'],
  ['OPR/', 'Opera'],
  ['Firefox/', 'Firefox'],
  ['Chrome/', 'Chrome'],
  ['Safari/', 'Safari'],
]
const SYSTEMS = [
  ['iPhone', 'iPhone'],
  ['iPad', 'iPad'],
  ['Android', 'Android'],
  ['Mac OS', 'macOS'],
  ['Windows', 'Windows'],
  ['Linux', 'Linux'],
]

/** What this browser is called in the list of devices: `Firefox on Windows`. */
export function browserName(agent = navigator.userAgent) {
  const find = (known) => known.find(([part]) => agent.includes(part))?.[1]
  return [find(BROWSERS) ?? 'Browser', find(SYSTEMS)].filter(Boolean).join(' on ')
}

/** Throws MFA_REQUIRED where the account has a second factor, see `completeSignIn`. */
export const signIn = (email, password) => begin('/api/auth/login', { email, password })

/** `challenge` is the `challenge_id` that MFA_REQUIRED has among its `details`. */
export const completeSignIn = (challenge, code) => begin('/api/auth/login/mfa', { challenge_id: challenge, code })

async function begin(path, credentials) {
  const { response } = await send('POST', path, { ...credentials, device_name: browserName() })
  if (!response.ok) throw await refusalOf(response)
  keep((await bodyOf(response)).data)
}

/**
 * Ends the session of this browser, which has forgotten it at once. Resolves with whether it has ended those of all devices:
 * where tokens do not name their session, one cannot end without the others.
 */
export async function signOut() {
  const tokens = session()
  keep(null)
  if (!tokens) return false
  try {
    return await end(tokens)
  } catch (error) {
    return error.status === 401 ? endRenewed(tokens).catch(() => false) : false
  }
}

async function end(tokens) {
  const { refresh: refresh_token } = tokens
  const ask = async (method, path, body) => {
    const { response } = await send(method, path, body, { as: tokens, keepalive: true })
    if (!response.ok) throw await refusalOf(response)
    return response
  }
  try {
    // A session that an earlier version of this page has kept does not say what the API calls it.
    const signIn = tokens.signIn ?? (await currentSession(ask))
    await ask('DELETE', `/api/auth/sessions/${signIn}`, { refresh_token })
    return false
  } catch (error) {
    if (error.code !== 'SESSION_NOT_REVOCABLE') throw error
    await ask('POST', '/api/auth/logout', { refresh_token })
    return true
  }
}

/** What has expired ends nothing. The new tokens are for this request alone. */
async function endRenewed(tokens) {
  const { response } = await alone(() =>
    send(
      'POST',
      '/api/auth/refresh',
      { refresh_token: tokens.refresh },
      { as: null, keepalive: true, answerMs: RENEWAL_MS },
    ),
  )
  if (!response.ok) return false
  const { access_token: access, refresh_token: refresh } = (await bodyOf(response)).data
  return end({ ...tokens, access, refresh })
}

async function currentSession(ask) {
  const { sessions } = (await bodyOf(await ask('GET', '/api/auth/sessions'))).data
  const own = sessions.find(({ current }) => current)
  if (!own) throw new Refusal(422, 'SESSION_NOT_REVOCABLE', 'Nothing says which session this is')
  return own.session_id
}

/** The key of a request: the same one until it has succeeded, unless its body changes. */
export function newAttempts() {
  let last
  return {
    keyFor(body) {
      const text = JSON.stringify(body)
      if (last?.text !== text) last = { text, key: crypto.randomUUID() }
      return last.key
    },
    done() {
      last = undefined
    },
  }
}
