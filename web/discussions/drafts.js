import { session } from '../lib/session.js'

const KEPT = 'keepsake.unsent'

/**
 * What was begun and not sent, by the path of the discussion and what it is (`new`, `reply cmt_1`, `edit cmt_1`):
 * `{text, chosen, media, before, about}`. `about` are the comments that it stands below, the nearest one first. It is
 * there again when the discussion is opened again, and after a reload of the tab.
 */
const unsent = kept()

/** Of the same session only: what is unsent belongs to the person who wrote it. */
function kept() {
  try {
    const { of, drafts } = JSON.parse(sessionStorage.getItem(KEPT), (_, value) =>
      Array.isArray(value?.entries) ? new Map(value.entries) : value,
    )
    if (of === session().id) return drafts
  } catch {
    // Nothing is kept, or there is no session.
  }
  return new Map()
}

function keep() {
  try {
    const drafts = { of: session().id, drafts: unsent }
    const text = JSON.stringify(drafts, (_, value) => (value instanceof Map ? { entries: [...value] } : value))
    sessionStorage.setItem(KEPT, text)
  } catch {
    // Full, or there is no such storage: it stays until the tab is reloaded.
  }
}

export const draftsIn = (base) => [...(unsent.get(base)?.values() ?? [])]
export const draftOf = (base, slot) => unsent.get(base)?.get(slot)
export const hasUnsent = (base) => unsent.has(base)

/** Keeps a draft, or forgets it if it is undefined. */
export function keepDraft(base, slot, draft) {
  const drafts = unsent.get(base) ?? new Map()
  if (draft) drafts.set(slot, draft)
  else drafts.delete(slot)
  if (drafts.size > 0) unsent.set(base, drafts)
  else unsent.delete(base)
  keep()
}

export function forgetUnsent() {
  unsent.clear()
  globalThis.sessionStorage?.removeItem(KEPT)
}
