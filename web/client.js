/** An error answer of the API. `code` is stable, see the API's documentation. */
export class Refusal extends Error {
  constructor(status, code, message, { retryAfter, details } = {}) {
    super(message)
    Object.assign(this, { status, code, retryAfter, details })
  }
}

export const offline = () => new Refusal(0, 'OFFLINE', 'The platform cannot be reached')

const KEPT = 'keepsake.session'
let session = JSON.parse(sessionStorage.getItem(KEPT) ?? 'null')
let renewal

export const isSignedIn = () => session !== null

function keep(tokens) {
  session = tokens && { access: tokens.access_token, refresh: tokens.refresh_token }
  if (session) sessionStorage.setItem(KEPT, JSON.stringify(session))
  else sessionStorage.removeItem(KEPT)
}

async function refusalOf(response) {
  return refusalFrom(response.status, await response.json().catch(() => ({})))
}

/** The error of an answer whose body has been parsed. */
export function refusalFrom(status, body) {
  const { code = 'UNKNOWN', message = `The platform answered ${status}`, retry_after, details } = body?.error ?? {}
  return new Refusal(status, code, message, { retryAfter: retry_after, details })
}

async function send(method, path, body, key = crypto.randomUUID()) {
  const headers = {
    ...(session && { Authorization: `Bearer ${session.access}` }),
    ...(body && { 'Content-Type': 'application/json' }),
    // A request that is repeated after a lost answer must take effect once.
    ...(method === 'POST' && { 'Idempotency-Key': key }),
  }
  const request = fetch(`/v1${path}`, { method, headers, body: body && JSON.stringify(body), cache: 'no-cache' })
  return request.catch(() => {
    throw offline()
  })
}

/** One refresh at a time: a refresh token works once, and a second use would end the session. */
export function renew() {
  renewal ??= (async () => {
    const response = await send('POST', '/api/auth/refresh', { refresh_token: session?.refresh })
    if (!response.ok) {
      if (response.status < 500) keep(null)
      throw await refusalOf(response)
    }
    keep((await response.json()).data)
  })().finally(() => {
    renewal = undefined
  })
  return renewal
}

/**
 * Returns the `data` of the answer. Throws Refusal. Refreshes an expired access token. `key` is the Idempotency-Key of a
 * request that may have to be repeated later.
 */
export async function call(method, path, body, key) {
  let response = await send(method, path, body, key)
  if (response.status === 401 && session) {
    await renew()
    response = await send(method, path, body, key)
  }
  if (!response.ok) throw await refusalOf(response)
  return response.status === 204 ? undefined : (await response.json()).data
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

export const accessToken = () => session?.access

/** Signed links name the API's address; through the page's own origin they need no CORS. */
export const link = (url) => (url ? new URL(url).pathname + new URL(url).search : null)

export async function signIn(email, password) {
  const response = await send('POST', '/api/auth/login', { email, password, device_name: 'Demo page' })
  if (!response.ok) throw await refusalOf(response)
  keep((await response.json()).data)
}

export async function signOut() {
  const refresh_token = session?.refresh
  await call('POST', '/api/auth/logout', { refresh_token }).catch(() => {})
  keep(null)
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
