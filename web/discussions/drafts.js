const KEPT = 'keepsake.unsent'

/**
 * What was begun and not sent, by the path of the discussion and what it is (`new`, `reply cmt_1`, `edit cmt_1`):
 * `{text, chosen, media, before, about, attempt}`. `about` are the comments that it stands below, the nearest one first,
 * `attempt` is `{text, key}` of the request that was sent last. It is there again when the discussion is opened again, and
 * after a reload of the tab.
 */
const unsent = new Map()
/** The id of the person who wrote it. */
let author

/**
 * Called when a person has signed in, before anything shows what is unsent. It outlives the session of its author, which
 * may end on another device; of another person, nothing is left.
 */
export function openUnsentOf(userId) {
  if (author === userId) return
  const before = kept()
  forgetUnsent()
  author = userId
  if (before?.of !== userId) return
  for (const [base, drafts] of before.drafts) unsent.set(base, drafts)
  keep()
}

function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT), (_, value) =>
      Array.isArray(value?.entries) ? new Map(value.entries) : value,
    )
  } catch {
    return undefined
  }
}

function keep() {
  if (author === undefined) return
  try {
    const drafts = { of: author, drafts: unsent }
    const text = JSON.stringify(drafts, (_, value) => (value instanceof Map ? { entries: [...value] } : value))
    sessionStorage.setItem(KEPT, text)
  } catch {
    // Full, or there is no such storage: it stays until the tab is reloaded.
  }
}

export const draftsIn = (base) => [...(unsent.get(base)?.values() ?? [])]
export const draftOf = (base, slot) => unsent.get(base)?.get(slot)
export const hasUnsent = (base) => [...(unsent.get(base)?.keys() ?? [])].some((slot) => !underwayAt(base, slot))

/** Keeps a draft, or forgets it if it is undefined. */
export function keepDraft(base, slot, draft) {
  const drafts = unsent.get(base) ?? new Map()
  if (draft) drafts.set(slot, draft)
  else drafts.delete(slot)
  if (drafts.size > 0) unsent.set(base, drafts)
  else unsent.delete(base)
  keep()
}

/** The promises of the answers to what is on its way, by discussion and slot. */
const underway = new Map()
const nameOf = (base, slot) => `${base} ${slot}`

/** The promise of the answer to what is sent from there now, whichever form has sent it. */
export const underwayAt = (base, slot) => underway.get(nameOf(base, slot))

/**
 * Sends a draft by `send(key)`. Until the answer it is kept, and is not unsent; then it is forgotten, or unsent again. Its
 * repeat with the same `body` has the same key, also after a reload: the first request may have arrived.
 */
export function sendDraft(base, slot, { draft, body, send }) {
  const name = nameOf(base, slot)
  const text = JSON.stringify(body)
  const attempt = draft.attempt?.text === text ? draft.attempt : { text, key: crypto.randomUUID() }
  keepDraft(base, slot, { ...draft, attempt })
  const answer = send(attempt.key)
    // Another person may have begun something there by now.
    .then(() => draftOf(base, slot)?.attempt?.key === attempt.key && keepDraft(base, slot))
    .finally(() => underway.get(name) === answer && underway.delete(name))
  underway.set(name, answer)
  return answer
}

export function forgetUnsent() {
  author = undefined
  unsent.clear()
  underway.clear()
  globalThis.sessionStorage?.removeItem(KEPT)
}
