/**
 * The tokens of the person, for every tab of this browser and until they sign out: a link that is opened in a new tab
 * finds them. Scripts of this origin alone can read them, and the policy of the page allows no others.
 */
const KEPT = 'keepsake.session'
const LOCK = 'keepsake.refresh'

/** `{id, access, refresh}` or null. Read anew each time: another tab may have refreshed or ended the session. */
export function session() {
  try {
    return JSON.parse(localStorage.getItem(KEPT) ?? 'null')
  } catch {
    return null
  }
}

/** `id` names the session across refreshes, so that another tab notices that another person has signed in. */
export function keep(tokens, id = crypto.randomUUID()) {
  if (!tokens) return localStorage.removeItem(KEPT)
  localStorage.setItem(KEPT, JSON.stringify({ id, access: tokens.access_token, refresh: tokens.refresh_token }))
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
