/**
 * The tokens of the person, for every tab of this browser and until they sign out: a link that is opened in a new tab
 * finds them. Scripts of this origin alone can read them, and the policy of the page allows no others.
 */
const KEPT = 'keepsake.session'
const LOCK = 'keepsake.refresh'

/** `{id, access, refresh, signIn, refreshes}` or null; `signIn` is what the API calls the session. Read anew each time: another tab may have refreshed or ended the session. */
export function session() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? 'null')
  } catch {
    return null
  }
}

const keptOf = (tokens) => ({ access: tokens.access_token, refresh: tokens.refresh_token, signIn: tokens.session_id })
const store = (kept) => localStorage.setItem(KEPT, JSON.stringify(kept))

/** `id` names the session across refreshes, so that another tab notices that another person has signed in. */
export function keep(tokens, id = crypto.randomUUID()) {
  if (tokens) return store({ id, ...keptOf(tokens) })
  localStorage.removeItem(KEPT)
  globalThis.caches?.delete(KEPT).catch(() => {})
}

/** Keeps what a refresh got. Call it and `latest` while alone. */
export async function keepRefreshed(tokens, id) {
  const refreshes = countOf(session()) + 1
  const kept = { id, ...keptOf(tokens), refreshes }
  // Before localStorage, so that no tab finds older tokens in the cache. A full disk or a private window may refuse it.
  await inCache((cache) => cache.put('/session', new Response(JSON.stringify(kept))))
  store(kept)
}

/** How often the tokens of the session have been refreshed: what says which ones are newer. */
const countOf = (kept) => kept?.refreshes ?? 0

/** Undefined where the cache refuses the work, or where there is none. */
async function inCache(work) {
  try {
    return await work(await caches.open(KEPT))
  } catch {
    return undefined
  }
}

/**
 * The session with the tokens of the last refresh of any tab. A tab in another process sees a write to localStorage some
 * time after it got the lock, and would use a refresh token again; a cache is read from one place.
 */
export async function latest() {
  const kept = session()
  const refreshed = await inCache(async (cache) => (await cache.match('/session'))?.json())
  if (!kept || refreshed?.id !== kept.id || countOf(refreshed) <= countOf(kept)) return kept
  store(refreshed)
  return refreshed
}

/**
 * A refresh token works once, and a second use ends the session: only one tab refreshes, and the others then find its
 * tokens. Without locks (a page that did not come over HTTPS) only this tab's refreshes wait for each other.
 */
export const alone = (work) => (navigator.locks ? navigator.locks.request(LOCK, work) : work())

/** Calls `changed()` when another tab has signed in, signed out, or signed in as another person. */
export function onSessionElsewhere(changed) {
  addEventListener('storage', ({ key, oldValue, newValue }) => {
    if (key !== KEPT && key !== null) return
    const idOf = (text) => JSON.parse(text ?? 'null')?.id
    if (key === null || idOf(oldValue) !== idOf(newValue)) changed()
  })
}
